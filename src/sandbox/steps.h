/* The table of confinement steps: the one list that launch order, error messages, the receipt, `glovebox
 * doctor`, the documentation and the probe coverage test read. */
#pragma once

#include "sandbox/box.h"

enum gb_side {
    GB_SIDE_SAME,    /* for `warm`: where it is done otherwise */
    GB_SIDE_PREPARE, /* supervisor, before the box exists */
    GB_SIDE_CLONE,   /* a namespace flag of the clone itself */
    GB_SIDE_PARENT,  /* supervisor, while the box sets itself up */
    GB_SIDE_CGROUP,  /* supervisor: before the box exists if it is born in its cgroup (v2), else meanwhile */
    GB_SIDE_BOX,     /* inside the new namespaces, before anything untrusted runs */
    /* only where a zygote bears the box: */
    GB_SIDE_TEMPLATE, /* the zygote, once, for all boxes to come: what they share and cannot change */
    GB_SIDE_ZYGOTE,   /* the zygote, before each cradle */
    GB_SIDE_CRADLE,   /* the cradle, once, for its boxes one after the other: what none of them can change */
    GB_SIDE_START,    /* PID 1, when the call comes */
};

/* A step that does not apply here (v1's move on a v2 host, say) and so is not claimed in the receipt. */
#define GB_STEP_NOT_APPLICABLE 1

struct gb_step {
    const char *name, *layer;
    enum gb_side side;
    bool may_degrade;                                     /* the operator may allow a box without it */
    const char *since;                                    /* first kernel that has it */
    const char *why;                                      /* what breaks without it */
    const char *remedy;                                   /* what to do when the host refuses it */
    uint64_t clone_flag;                                  /* GB_SIDE_CLONE; a cradle may have it instead */
    int (*apply)(struct gb_box *box, struct gb_err *err); /* NULL where there is a flag */
    /* For a box that a zygote bears: where, and by which function if by another. */
    enum gb_side warm;
    int (*apply_warm)(struct gb_box *box, struct gb_err *err);
};

extern const struct gb_step gb_steps[];
extern const unsigned gb_step_count;

const char *gb_step_name(unsigned index);
const struct gb_step *gb_steps_find(const char *name); /* or NULL */
/* Is the step of that name in a mask of applied steps? */
bool gb_steps_applied(uint64_t mask, const char *name);
/* Runs the steps of one side in order. A failure names its step and stops, unless the step may degrade and
 * the spec allows it. */
int gb_steps_run(struct gb_box *box, enum gb_side side, struct gb_err *err);
/* The namespace flag of one row, and those of a clone as a whole: of the box, or of its cradle. */
uint64_t gb_steps_clone_flag(const struct gb_step *step);
uint64_t gb_steps_clone_flags(struct gb_box *box, enum gb_side side);
/* Only in test builds can a step be left out: then what else belongs to it on a zygote's side is, too. */
bool gb_steps_stand(const char *name);
/* The rows of that side, as a mask: for boxes that a zygote bears, or for others. */
uint64_t gb_steps_mask(enum gb_side side, bool warm);
/* Checks a comma list of steps to leave out if need be: each must exist and be one that may degrade. */
int gb_steps_check_degraded(const char *list, struct gb_err *err);

/* One function per step, in the file named after its mechanism. */
int gb_userns_lease(struct gb_box *box, struct gb_err *err);
int gb_userns_map(struct gb_box *box, struct gb_err *err);
void gb_userns_take_zygote(struct gb_box *box);
int gb_userns_map_zygote(struct gb_box *box, struct gb_err *err);
uid_t gb_userns_in_zygote(const struct gb_box *box);
int gb_userns_map_self(struct gb_box *box, struct gb_err *err);
#ifdef GB_TESTING
bool gb_userns_maps_itself(void);
int gb_userns_map_other(const struct gb_box *box, long pid);
#endif
int gb_userns_identity(struct gb_box *box, struct gb_err *err);
int gb_userns_forbid_nested(struct gb_box *box, struct gb_err *err);
int gb_cgroup_step_create(struct gb_box *box, struct gb_err *err);
int gb_cgroup_step_join(struct gb_box *box, struct gb_err *err);
int gb_cgroup_step_namespace(struct gb_box *box, struct gb_err *err);
int gb_mount_private(struct gb_box *box, struct gb_err *err);
int gb_mount_root(struct gb_box *box, struct gb_err *err);
int gb_mount_template(struct gb_box *box, struct gb_err *err);
int gb_mount_etc(struct gb_box *box, struct gb_err *err);
int gb_mount_dev(struct gb_box *box, struct gb_err *err);
int gb_mount_scratch(struct gb_box *box, struct gb_err *err);
int gb_mount_proc(struct gb_box *box, struct gb_err *err);
int gb_mount_extra(struct gb_box *box, struct gb_err *err);
int gb_files_put(struct gb_box *box, struct gb_err *err);
int gb_files_sent(struct gb_box *box, struct gb_err *err);
/* Why PID 1 of a waiting box could not make the file of that number. */
int gb_files_explain(const struct gb_box *box, uint32_t number, int error, struct gb_err *err);
int gb_mount_pivot(struct gb_box *box, struct gb_err *err);
int gb_mount_readonly(struct gb_box *box, struct gb_err *err);
int gb_process_reset(struct gb_box *box, struct gb_err *err);
int gb_process_hostname(struct gb_box *box, struct gb_err *err);
int gb_process_die_with_parent(struct gb_box *box, struct gb_err *err);
int gb_process_descriptors(struct gb_box *box, struct gb_err *err);
int gb_rlimit_apply(struct gb_box *box, struct gb_err *err);
int gb_caps_no_new_privs(struct gb_box *box, struct gb_err *err);
int gb_caps_bound(struct gb_err *err); /* what of `capabilities` a cradle does for its boxes */
int gb_caps_drop(struct gb_box *box, struct gb_err *err);
int gb_landlock_abi(void); /* 0: the kernel has none */
/* In a zygote: finds once what its boxes have in common, beneath that root. 0 or a negative errno. */
int gb_landlock_keep(int root);
int gb_landlock_apply(struct gb_box *box, struct gb_err *err);
int gb_seccomp_apply(struct gb_box *box, struct gb_err *err);
int gb_seccomp_complete(struct gb_box *box, struct gb_err *err);
int gb_netns_join(struct gb_box *box, struct gb_err *err);
int gb_net_enter(struct gb_box *box, struct gb_err *err);
