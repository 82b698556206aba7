/* What came of one run, as plain data, and the one place that formats it. */
#pragma once

#include "base/buf.h"
#include "base/json_write.h"
#include "spec/spec.h"

enum gb_status {
#define GB_STATUS(name, text, exit_code) GB_STATUS_##name,
#include "spec/status.def"
#undef GB_STATUS
    GB_STATUS_COUNT
};

/* A file that came back, or why it did not. */
struct gb_output {
    char *name;
    char *data; /* NULL if skipped */
    size_t len;
    const char *skipped; /* static reason, or NULL */
};

struct gb_usage {
    int64_t cpu_us, wall_us, memory_peak_bytes, disk_bytes;
    int64_t pids_peak; /* -1 where the kernel does not tell, or may tell of a box before */
    uint64_t stdout_bytes, stderr_bytes;
};

/* Where the box came from. */
enum gb_start {
    GB_START_COLD,    /* it was built for the call, from nothing */
    GB_START_BUILT,   /* a zygote bore it for the call */
    GB_START_WAITING, /* it was there before the call came */
    GB_START_COUNT
};

/* What was really enforced: filled by the steps as they succeed, never from intentions. Plain arrays, so that
 * it can travel in a message. */
struct gb_receipt {
    char backend[16];
    uint64_t applied;   /* bit per row of sandbox/steps.c */
    uint64_t degraded;  /* rows that were left out because the operator allowed it */
    int landlock_abi;   /* 0: not active */
    int cgroup_version; /* 0: none */
    char controllers[64];
    char seccomp_profile[16];
    char root[16];       /* "system" or "rootfs" */
    enum gb_start start; /* nothing that is enforced depends on it */
    uint32_t host_uid;
    int extra_groups; /* supplementary groups that a rootless run could not drop */
    struct gb_limits limits;
    char policy_hash[65];
};

struct gb_result {
    enum gb_status status;
    const char *kill_reason; /* "timeout", "cpu", "memory", "cancelled", or NULL */
    int exit_code;           /* -1 if it did not exit by itself */
    int signal;              /* 0 if no signal ended it */
    struct gb_buf out, err;
    struct gb_output *files;
    size_t file_count;
    struct gb_usage usage;
    struct gb_receipt enforced;
};

const char *gb_status_name(enum gb_status status);
const char *gb_start_name(enum gb_start start);
/* The exit code of `glovebox run` for this result. */
int gb_result_exit_code(const struct gb_result *r);
/* What differs between the doors. */
struct gb_result_form {
    const char *id;                /* or NULL */
    const char *out_key, *err_key; /* "stdout" and "stderr", or others */
    bool contents;                 /* files with their bytes: as text, or as base64 where they are none */
    const char *enforced;          /* the receipt as JSON */
    void (*more)(struct gb_json *j, void *context); /* further fields, or NULL */
    void *context;
};

/* Writes the receipt as one JSON object. `step_name` names the rows of the applied and degraded masks. */
void gb_receipt_to_json(const struct gb_receipt *e, const char *(*step_name)(unsigned index),
                        struct gb_buf *out);
/* Writes the whole result as one JSON object. */
void gb_result_to_json(const struct gb_result *r, const struct gb_result_form *form, struct gb_buf *out);
/* The parts of it that the audit keeps too. */
void gb_usage_to_json(struct gb_json *j, const char *key, const struct gb_usage *u);
void gb_result_end_to_json(struct gb_json *j, const struct gb_result *r);
void gb_result_done(struct gb_result *r);
