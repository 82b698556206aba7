/* libglovebox: run one program in a fresh, kernel-enforced box.
 *
 *     struct gb_run *run = gb_run_new();
 *     gb_run_set_code(run, "python", "print(2 + 2)", 0);
 *     if (gb_run_start(run) == 0)
 *         puts(gb_run_stdout(run, NULL));
 *     gb_run_free(run);
 *
 * Setters copy what they are given and return 0 or a negative errno; gb_run_error() then says in words what
 * was wrong, and gb_run_start() refuses a run of which a setter failed. A run is used once; gb_run_start()
 * waits for its end, and its thread must live that long: the box dies with the thread that started it.
 * Different runs may be used from different threads at the same time; one run from one thread. Every function
 * is safe to call on a failed run. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GB_EXPORT __attribute__((visibility("default")))

struct gb_run;

GB_EXPORT const char *gb_version(void);

GB_EXPORT struct gb_run *gb_run_new(void); /* NULL when out of memory */
GB_EXPORT void gb_run_free(struct gb_run *run);

/* What to run: code in a runtime ("python", "bash", "sh", "node"), or a program with its arguments
 * (NULL-terminated). len 0: code is NUL-terminated. */
GB_EXPORT int gb_run_set_code(struct gb_run *run, const char *runtime, const char *code, size_t len);
GB_EXPORT int gb_run_set_program(struct gb_run *run, const char *const *argv);
/* Further arguments of the code. */
GB_EXPORT int gb_run_add_arg(struct gb_run *run, const char *arg);
GB_EXPORT int gb_run_add_env(struct gb_run *run, const char *name, const char *value);

/* A limit by its name, as text: gb_run_set_limit(run, "timeout_seconds", "2.5"). docs/limits.md has the
 * names. */
GB_EXPORT int gb_run_set_limit(struct gb_run *run, const char *name, const char *value);

/* Files for the program, in its working directory; name is relative to it. */
GB_EXPORT int gb_run_add_file(struct gb_run *run, const char *name, const void *data, size_t len,
                              int executable);
GB_EXPORT int gb_run_add_host_file(struct gb_run *run, const char *name, const char *host_path);
/* Names or globs of files to bring back. */
GB_EXPORT int gb_run_add_output(struct gb_run *run, const char *pattern);

/* The operator's own choices. */
GB_EXPORT int gb_run_add_mount(struct gb_run *run, const char *host_dir, const char *box_dir, int writable);
GB_EXPORT int gb_run_set_rootfs(struct gb_run *run, const char *host_dir);
GB_EXPORT int gb_run_set_cgroup_parent(struct gb_run *run, const char *path);
GB_EXPORT int gb_run_set_backend(struct gb_run *run, const char *name);
/* A comma list of layers that may be missing on this host; without it a missing layer refuses the run. */
GB_EXPORT int gb_run_allow_degraded(struct gb_run *run, const char *layers);

/* Where the program's input comes from (default: it is empty), and a descriptor that cancels the run when it
 * becomes readable. They stay the caller's. */
GB_EXPORT int gb_run_set_stdin(struct gb_run *run, int fd);
GB_EXPORT int gb_run_set_cancel(struct gb_run *run, int fd);
/* Output as it arrives, besides being collected. stream: 0 stdout, 1 stderr. */
GB_EXPORT int gb_run_on_output(struct gb_run *run,
                               void (*call)(void *context, int stream, const char *data, size_t len),
                               void *context);

/* Runs it and waits for its end. 0: the box ran; the functions below tell what came of it. Negative: nothing
 * was run. */
GB_EXPORT int gb_run_start(struct gb_run *run);
GB_EXPORT const char *gb_run_error(const struct gb_run *run);
GB_EXPORT const char *
gb_run_error_code(const struct gb_run *run); /* a stable word, such as "layer_unavailable" */
GB_EXPORT const char *
gb_run_error_step(const struct gb_run *run); /* the confinement step that failed, or "" */

GB_EXPORT const char *gb_run_status(const struct gb_run *run);      /* "success", "error", "timeout", … */
GB_EXPORT const char *gb_run_kill_reason(const struct gb_run *run); /* or NULL */
GB_EXPORT int gb_run_exit_code(const struct gb_run *run);           /* as `glovebox run` would exit */
GB_EXPORT const char *gb_run_stdout(const struct gb_run *run, size_t *ret_len);
GB_EXPORT const char *gb_run_stderr(const struct gb_run *run, size_t *ret_len);
GB_EXPORT int gb_run_truncated(const struct gb_run *run);
/* Files that came back, by index: 0, or -ENOENT behind the last. data is NULL where skipped says why it was
 * not taken. */
GB_EXPORT int gb_run_output(const struct gb_run *run, size_t index, const char **ret_name,
                            const void **ret_data, size_t *ret_len, const char **ret_skipped);
/* The whole result with the receipt, as JSON. Valid until the run is freed. */
GB_EXPORT const char *gb_run_json(struct gb_run *run);

#ifdef __cplusplus
}
#endif
