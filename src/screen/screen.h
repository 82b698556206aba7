/* Screening: a signal, not a wall (the box is the wall). Rules are data: rules.def, and those of the policy.
 *
 * A rule has a pattern, which is searched for in the text here, before a box is made; or, for Python, a
 * syntax check: names of calls and imports, paths, or files opened for writing. The interpreter's own syntax
 * tree is asked about these inside the box, before the first instruction of the script
 * (runtimes/python/start.py). Each rule has an action per profile. */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "screen/start.h"
#include "spec/action.h"

#include <stdbool.h>
#include <stddef.h>

#define GB_SCREEN_RULES 64 /* at most */
#define GB_FINDINGS     GB_SCREEN_RULES

/* One rule as data: it fires if any of its parts does. Strings and arrays outlive the screen. */
struct gb_screen_rule {
    const char *name, *language; /* language "*": every one */
    const char *pattern;         /* or NULL */
    /* For Python, in the box. NULL-terminated, or NULL. */
    const char *const *calls; /* "os.system", "socket.*" */
    const char *const *imports;
    const char *const
            *paths;   /* "/etc": in texts that are no comments. The pattern is for other languages then */
    bool writes;      /* opens a file for writing */
    const char *hint; /* or NULL */
    int action;       /* enum gb_screen_action, or -1: the profile's */
};

/* What each rule of a screen does, by index. */
struct gb_screen_actions {
    unsigned char action[GB_SCREEN_RULES];
};

struct gb_finding {
    const char *rule; /* its name; lives as long as the screen */
    const char *hint; /* or NULL */
    unsigned line;    /* from 1: where it fires first */
    enum gb_screen_action action;
    char reason[96]; /* "calls os.system", "matches the pattern", … */
};

struct gb_screen; /* compiled once; not changed by use */

/* The built-in rules and `more`, where one of the same name takes the place of a built-in one. NULL with err
 * on failure. */
struct gb_screen *gb_screen_new(const struct gb_screen_rule *more, size_t count, struct gb_err *err);
void gb_screen_free(struct gb_screen *screen);
size_t gb_screen_rule_count(const struct gb_screen *screen);
const char *gb_screen_rule_name(const struct gb_screen *screen, size_t index);
/* The index of a rule, or -1. */
int gb_screen_find(const struct gb_screen *screen, const char *name);
/* Actions for a profile: `usual` for every rule that has none of its own. */
void gb_screen_actions_init(const struct gb_screen *screen, enum gb_screen_action usual,
                            struct gb_screen_actions *ret);

/* The rules with patterns, on code of this runtime (NULL: a command line, only rules for every language). In
 * the order of the rules, each once, those that are off left out; returns how many of ret were filled. What
 * cannot be decided (match limit, no memory) counts as a finding. Linear in the length of the code. */
size_t gb_screen_code(const struct gb_screen *screen, const struct gb_screen_actions *actions,
                      const char *runtime, const char *code, size_t len, struct gb_finding ret[GB_FINDINGS]);

/* --- what happens inside the box, for Python --- */

/* How it works: the start-up code is put into the box as a module that Python's own `site` imports before it
 * runs anything else, and the script at a place where Python does not look for it. The start-up code reads
 * the script, asks the rules, writes the report, and then ends the process or moves the script to where argv
 * says. So it is the interpreter itself that runs /sandbox/main.py, and the script sees what it would see
 * without us; and if the start-up code did not run, there is no script to run.
 *
 * The files of the call that Python could import (*.py, and lines of *.pth that it runs) are looked at like
 * the script, whether it imports them or not, up to 1 MiB; a finding in one begins with its name, "helper.py:
 * calls os.system", and has the line in that file. What cannot be looked at (compiled modules, what is more)
 * counts as a finding of every rule. Not followed: code that the script reads from other files and runs,
 * archives, what one file hands to another. Patterns are searched for in the script only.
 *
 * For the front: if gb_screen_python_text says true, argv stays as it is (python3 /sandbox/main.py args…);
 * gb_screen_python_env adds the environment that it needs and gb_screen_python_files adds the script and what
 * the start-up code is told, instead of main.py; stderr begins with a report. The start-up code itself is the
 * same for every call and does not travel with it: the launcher has it (screen/start.h) and is asked for it
 * with GB_RUN_START_CODE. Refuse what could run before it: variables that are not gb_screen_env_is_safe,
 * files that are not gb_screen_file_is_safe. */
struct gb_screen_python {
    bool limits_modules;
    const char *const *modules;
    size_t module_count;
    const char *const *builtins;
    size_t builtin_count;
};
/* What the start-up code is told: the rules with syntax checks that are not off, the modules and built-ins.
 * True if there is anything to tell. */
bool gb_screen_python_text(const struct gb_screen *screen, const struct gb_screen_actions *actions,
                           const struct gb_screen_python *level, struct gb_buf *out);
/* Items of a payload (wire/payload.h). */
void gb_screen_python_env(struct gb_buf *payload);
void gb_screen_python_files(const struct gb_buf *text, const char *code, size_t len, struct gb_buf *payload);
/* May a request set this variable, give a file of this name? */
bool gb_screen_env_is_safe(const char *name);
bool gb_screen_file_is_safe(const char *name);

#define GB_SCREEN_EXIT 126 /* how the process ends if a finding blocks */

/* The report is the first thing on the box's stderr: GB_SCREEN_REPORT, JSON of one line, '\n'. The script
 * cannot have written it, since it has not begun. Feed the beginning of the stream until it is not OPEN.
 *
 * That nothing is before it rests on gb_screen_env_is_safe, but is not taken for granted: the report is
 * looked for behind other text, too, so that nothing written before can make it be passed over; that there
 * was something is then a finding that blocks, besides those of the report. */
#define GB_SCREEN_REPORT      "\x1eglovebox-screen "
#define GB_SCREEN_REPORT_MOST 65536
enum gb_report_state { GB_REPORT_OPEN, GB_REPORT_DONE, GB_REPORT_NONE };
/* DONE: *ret_len bytes were the report; findings are appended at *count, each rule once; *ret_blocked: the
 * script was not started, or nobody knows. A report that cannot be read, is not the first thing, or does not
 * come within GB_SCREEN_REPORT_MOST bytes, counts as a finding that blocks. NONE, only at the end: there is
 * no report, because the interpreter did not get that far, nor did the script; all of it is output. */
enum gb_report_state gb_screen_report(const struct gb_screen *screen, const struct gb_screen_actions *actions,
                                      const char *data, size_t len, bool end, size_t *ret_len,
                                      struct gb_finding ret[GB_FINDINGS], size_t *count, bool *ret_blocked);
