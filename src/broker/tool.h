/* What a broker's child does: one call of a tool that is no box. Each kind is one function; each runs alone
 * in a process of its own, confined, with a deadline, and may block.
 *
 * A function takes the arguments as untrusted: they have passed the tool's schema in the front, which may
 * have been captured. It gives back a JSON value for the caller, or a denial, or an error. Secrets must
 * appear in none of them, nor in logs. */
#pragma once

#include "policy/policy.h"
#include "spec/denial.h"

struct tool_call {
    const struct gb_policy *policy;
    const struct gb_tool *tool;
    const json_t *arguments; /* an object */
    int64_t deadline_us;     /* gb_clock_us(); the process is killed soon after it */
    /* results */
    json_t *result; /* owned; what the caller gets */
    bool failed;    /* it was tried and went wrong (an upstream's 500, a bounced mail, bad SQL): status error,
                     * and `result` says how */
    struct gb_denial denials[GB_DENIALS];
    size_t denial_count; /* more than 0: refused, nothing was done */
};

/* 0, or an error of the service (GB_ERR_UPSTREAM and the like). */
int tool_sql(struct tool_call *call, struct gb_err *err);
int tool_http(struct tool_call *call, struct gb_err *err);
int tool_email(struct tool_call *call, struct gb_err *err);
