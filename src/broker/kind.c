#include "broker/kind.h"

#include "base/auto.h"
#include "confine/narrow.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#define SECOND       1000000LL
#define MEMORY_BYTES ((uint64_t)512 << 20)
#define OPEN_FILES   64

/* Names are resolved by the hosts file and by DNS: other modules of the C library are code, and none is
 * loaded here. */
static const char *const network_files[] = {"/etc/resolv.conf",
                                            "/etc/hosts",
                                            "/etc/nsswitch.conf",
                                            "/etc/host.conf",
                                            "/etc/gai.conf",
                                            "/etc/services",
                                            "/etc/ssl/openssl.cnf",
                                            "/etc/ssl/cert.pem",
                                            "/etc/ssl/certs",
                                            "/etc/pki/tls/certs",
                                            "/etc/pki/ca-trust/extracted",
                                            "/usr/share/ca-certificates",
                                            "/usr/local/share/ca-certificates",
                                            "/dev/urandom",
                                            NULL};
static const char *const database_files[] = {"/etc/localtime", "/usr/share/zoneinfo", "/dev/urandom", NULL};

static const struct kind kinds[] = {
        {GB_TOOL_SQL, "sqlite", "broker-file", database_files, false, 10, tool_sql},
        {GB_TOOL_SQL, "postgresql", "broker-database", network_files, true, 10, tool_sql},
        {GB_TOOL_HTTP, NULL, "broker-net", network_files, true, 10, tool_http},
        {GB_TOOL_EMAIL, NULL, "broker-net", network_files, true, 30, tool_email},
};

const struct kind *kind_find(const struct gb_tool *tool)
{
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        if (kinds[i].kind == tool->kind && (!kinds[i].member || json_object_get(tool->spec, kinds[i].member)))
            return &kinds[i];
    return NULL;
}

int64_t kind_time_us(const struct kind *kind, const struct gb_tool *tool)
{
    const json_t *seconds = json_object_get(tool->spec, "timeout_seconds");
    return (int64_t)((json_is_number(seconds) ? json_number_value(seconds) : kind->seconds) * (double)SECOND);
}

/* The directory that the database is really in: it may be a link. Said here, in words: SQLite would only say
 * that it cannot. */
static int find_directory(const struct gb_tool *tool, bool write, char *path, struct gb_err *err)
{
    struct stat st;
    const char *file = json_string_value(json_object_get(tool->spec, "sqlite"));
    AUTO_FD fd = -1;
    if (file && realpath(file, path))
        fd = open(path, (write ? O_RDWR : O_RDONLY) | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st)) {
        const int error = errno;
        gb_err_set(err, GB_ERR_UPSTREAM, error, "open the database of this tool");
        if (error == EACCES)
            gb_err_hint(err, "the broker runs as uid %u: that user needs the right to %s it", geteuid(),
                        write ? "write" : "read");
        return -error;
    }
    if (!S_ISREG(st.st_mode))
        return gb_err_set(err, GB_ERR_UPSTREAM, 0, "the database of this tool is not a file");
    char *slash = strrchr(path, '/');
    slash[slash == path] = '\0';
    return 0;
}

int kind_confine(const struct kind *kind, const struct gb_tool *tool, pid_t parent, const char *degraded,
                 struct gb_err *err)
{
    char dir[PATH_MAX];
    const bool file = kind->kind == GB_TOOL_SQL && !kind->tcp,
               write = json_is_true(json_object_get(tool->spec, "write"));
    int r = file ? find_directory(tool, write, dir, err) : 0;
    if (r)
        return r;
    const struct gb_narrow narrow = {
            .name = kind->profile,
            .read = kind->files,
            .dir = file ? dir : NULL,
            .write = write,
            .tcp = kind->tcp,
#ifndef __SANITIZE_ADDRESS__ /* which maps terabytes */
            .memory_bytes = MEMORY_BYTES,
#endif
            .cpu_seconds = (unsigned)((kind_time_us(kind, tool) + KIND_GRACE_US) / SECOND) + 1,
            .open_files = OPEN_FILES,
            .degraded = degraded && *degraded ? degraded : NULL,
    };
    return gb_narrow_enter(&narrow, parent, err);
}
