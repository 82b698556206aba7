/* What one box shall be, as plain data. Whoever fills a struct gb_spec owns every pointer in it and keeps
 * them valid until the run is over; the sandbox only reads. */
#pragma once

#include "base/err.h"
#include "spec/limits.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define GB_WORKDIR    "/sandbox"
#define GB_BOX_PATH   "/usr/local/bin:/usr/bin:/bin"
#define GB_BOX_UID    1000
#define GB_MOUNTS     32
#define GB_CODE_BYTES (1 << 20) /* the longest script that is taken */

/* One file that is put into /sandbox before the program starts. Its bytes come from data, or from fd if data
 * is NULL. */
struct gb_file {
    const char *name; /* relative, see gb_text_is_relative_name */
    const char *data;
    size_t len;
    int fd;
    mode_t mode;
};

/* One host directory that the operator shows to the box. */
struct gb_mount {
    const char *source, *target;
    bool writable;
};

struct gb_spec {
    const char *runtime;     /* row of runtimes.def, or NULL for a plain program; for messages */
    const char *const *argv; /* NULL-terminated; argv[0] is looked up in the box's PATH */
    const char *const *env;  /* NULL-terminated NAME=VALUE */
    const struct gb_file *files;
    size_t file_count;
    const struct gb_mount *mounts;
    size_t mount_count;
    const char *const *outputs; /* names or globs beneath /sandbox that are brought back */
    size_t output_count;
    const struct gb_file *shown; /* files that a zygote shows its boxes in /etc/glovebox */
    size_t shown_count;
    const char *rootfs;        /* a root file system tree, or NULL for the host's system directories */
    const char *cgroup_parent; /* where the box's cgroup goes, or NULL to choose */
    const char *degraded;      /* comma list of steps that may be left out if the host cannot give them */
    int stdin_fd;              /* fed to the program; -1 for an empty input */
    int out_fd[2]; /* pipes that become the program's stdout and stderr, read by somebody else; they
                    * stay the caller's. -1, both: we make them and collect what comes */
    int cancel_fd; /* readable means: the caller wants no more; -1 for none */
    /* Called whenever the program is looked after, at the latest after late_us (`overdue`), until it returns
     * true; or NULL. */
    bool (*late)(void *context, bool overdue);
    void *late_context;
    int64_t late_us;
    struct gb_limits limits;
};

struct gb_runtime {
    const char *name, *script, *extension, *program, *option;
};

/* The environment of every box, NAME=VALUE, with a NULL at its end; what a call adds under the same name
 * takes its place. */
extern const char *const gb_spec_env[];
extern const size_t gb_spec_env_count;

/* Letters, digits and _, no digit first. */
bool gb_spec_is_env_name(const char *name, size_t len);

extern const struct gb_runtime gb_runtimes[];
extern const size_t gb_runtime_count;

const struct gb_runtime *gb_runtime_find(const char *name);
const struct gb_runtime *gb_runtime_by_extension(const char *file_name);
/* Is it text of a size that a runtime takes? */
int gb_runtime_check_code(const char *code, size_t len, struct gb_err *err);
