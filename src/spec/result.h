/* What came of one run, as plain data, and the one place that formats it. */
#pragma once

#include "base/buf.h"
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
    int64_t pids_peak; /* -1 where the kernel does not tell */
    uint64_t stdout_bytes, stderr_bytes;
};

/* What was really enforced: filled by the steps as they succeed, never from intentions. */
struct gb_receipt {
    const char *backend;
    uint64_t applied;   /* bit per row of sandbox/steps.c */
    uint64_t degraded;  /* rows that were left out because the operator allowed it */
    int landlock_abi;   /* 0: not active */
    int cgroup_version; /* 0: none */
    char controllers[64];
    const char *seccomp_profile;
    const char *root; /* "system" or "rootfs" */
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
/* The exit code of `glovebox run` for this result. */
int gb_result_exit_code(const struct gb_result *r);
/* Writes the whole result as one JSON object. `step_name` names the rows of the applied and degraded masks.
 */
void gb_result_to_json(const struct gb_result *r, const char *(*step_name)(unsigned index),
                       struct gb_buf *out);
void gb_result_done(struct gb_result *r);
