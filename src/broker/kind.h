/* The kinds of tools that the broker knows: what does the work, how long it may take, and what it may touch.
 */
#pragma once

#include "broker/tool.h"

#include <sys/types.h>

#define KIND_GRACE_US 2000000LL /* between the tool's own deadline and the end of its process */

/* A row is for tools of this kind whose object has this member (NULL: any). */
struct kind {
    enum gb_tool_kind kind;
    const char *member;
    const char *profile;      /* of confine/profiles.def */
    const char *const *files; /* that may be read */
    bool tcp;                 /* else: SQLite, and the directory of its database */
    double seconds;           /* unless timeout_seconds says otherwise; as in policy.schema.json */
    int (*run)(struct tool_call *call, struct gb_err *err);
};

/* NULL: the broker has nothing to do with such a tool. */
const struct kind *kind_find(const struct gb_tool *tool);
int64_t kind_time_us(const struct kind *kind, const struct gb_tool *tool);
/* Leaves the process what the tool is about. parent, degraded: as for gb_narrow_enter. */
int kind_confine(const struct kind *kind, const struct gb_tool *tool, pid_t parent, const char *degraded,
                 struct gb_err *err);
