/* The library's door: builds a struct gb_spec step by step, hands it to a backend, keeps the result. */
#include "lib/run.h"

#include "backend/backend.h"
#include "base/auto.h"
#include "base/text.h"
#include "sandbox/outputs.h"
#include "sandbox/steps.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define MAX_STRINGS 4096 /* arguments, environment, patterns: of each */
#define MAX_FILES   1024

/* A NULL-terminated list of strings that it owns. */
struct strings {
    char **items;
    size_t count;
};

struct gb_run {
    struct gb_spec spec;
    const struct gb_backend *backend;
    struct strings argv, args, env, outputs, owned;
    struct gb_file files[MAX_FILES];
    struct gb_mount mounts[GB_MOUNTS];
    void (*on_output)(void *, int, const char *, size_t);
    void *context;
    bool started, finished;
    struct gb_err err;
    struct gb_result result;
    struct gb_buf json;
};

static int add_bytes(struct strings *list, const char *data, size_t len, char **ret_copy)
{
    if (list->count >= MAX_STRINGS)
        return -E2BIG;
    char **items = realloc(list->items, (list->count + 2) * sizeof(*items));
    if (!items)
        return -ENOMEM;
    list->items = items;
    char *copy = malloc(len + 1);
    if (!copy)
        return -ENOMEM;
    memcpy(copy, data, len);
    copy[len] = '\0';
    items[list->count++] = copy;
    items[list->count] = NULL;
    if (ret_copy)
        *ret_copy = copy;
    return 0;
}

static int add(struct gb_run *run, struct strings *list, const char *text, char **ret_copy)
{
    int r = add_bytes(list, text, strlen(text), ret_copy);
    return r ? gb_err_set(&run->err, GB_ERR_USAGE, -r,
                          "keep '%.60s' (at most %d arguments, variables or patterns)", text, MAX_STRINGS)
             : 0;
}

static void free_strings(struct strings *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->items[i]);
    free(list->items);
}

const char *gb_version(void)
{
    return GB_VERSION;
}

struct gb_run *gb_run_new(void)
{
    struct gb_run *run = calloc(1, sizeof(*run));
    if (!run)
        return NULL;
    run->backend = &gb_backend_native;
    run->spec.stdin_fd = run->spec.cancel_fd = run->spec.out_fd[0] = run->spec.out_fd[1] = -1;
    gb_limits_init(&run->spec.limits);
    for (size_t i = 0; i < gb_spec_env_count; i++)
        if (add(run, &run->env, gb_spec_env[i], NULL)) {
            gb_run_free(run);
            return NULL;
        }
    return run;
}

void gb_run_free(struct gb_run *run)
{
    if (!run)
        return;
    for (size_t i = 0; i < run->spec.file_count; i++)
        if (!run->files[i].data)
            gb_auto_close(&run->files[i].fd);
    struct strings *const lists[] = {&run->argv, &run->args, &run->env, &run->outputs, &run->owned};
    for (size_t i = 0; i < ARRAY_LEN(lists); i++)
        free_strings(lists[i]);
    gb_result_done(&run->result);
    gb_buf_done(&run->json);
    free(run);
}

static int add_file(struct gb_run *run, const char *name, struct gb_file file)
{
    if (!gb_text_is_relative_name(name))
        return gb_err_set(&run->err, GB_ERR_USAGE, 0,
                          "file name '%.200s' must be relative to %s, without '..'", name, GB_WORKDIR);
    if (run->spec.file_count >= MAX_FILES)
        return gb_err_set(&run->err, GB_ERR_USAGE, 0, "more than %d files", MAX_FILES);
    char *copy = NULL;
    int r = add(run, &run->owned, name, &copy);
    if (r)
        return r;
    file.name = copy;
    run->files[run->spec.file_count++] = file;
    return 0;
}

int gb_run_add_file(struct gb_run *run, const char *name, const void *data, size_t len, int executable)
{
    char *copy = NULL;
    int r = add_bytes(&run->owned, len ? data : "", len, &copy);
    if (r)
        return gb_err_set(&run->err, GB_ERR_BUSY, -r, "keep the file '%.200s'", name);
    return add_file(run, name,
                    (struct gb_file){.data = copy, .len = len, .fd = -1, .mode = executable ? 0755 : 0644});
}

int gb_run_add_host_file(struct gb_run *run, const char *name, const char *host_path)
{
    struct stat st;
    AUTO_FD fd = open(host_path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, &st))
        return gb_err_set(&run->err, GB_ERR_INPUT, errno, "open the file '%.200s'", host_path);
    if (!S_ISREG(st.st_mode))
        return gb_err_set(&run->err, GB_ERR_INPUT, 0, "'%.200s' is not a regular file", host_path);
    int r = add_file(run, name, (struct gb_file){.fd = fd, .mode = st.st_mode & S_IXUSR ? 0755 : 0644});
    if (!r)
        fd = -1;
    return r;
}

int gb_run_set_code(struct gb_run *run, const char *runtime, const char *code, size_t len)
{
    const struct gb_runtime *rt = gb_runtime_find(runtime);
    if (!rt) {
        int r = gb_err_set(&run->err, GB_ERR_USAGE, 0, "there is no runtime '%.64s'; there are:", runtime);
        for (size_t i = 0; i < gb_runtime_count; i++)
            snprintf(run->err.text + strlen(run->err.text), sizeof(run->err.text) - strlen(run->err.text),
                     " %s", gb_runtimes[i].name);
        return r;
    }
    if (run->argv.count)
        return gb_err_set(&run->err, GB_ERR_USAGE, 0, "a run has one program or one piece of code");
    len = len ? len : strlen(code);
    int r = gb_runtime_check_code(code, len, &run->err);
    if (!r)
        r = gb_run_add_file(run, rt->script, code, len, 0);
    if (!r)
        r = add(run, &run->argv, rt->program, NULL);
    if (!r && *rt->option)
        r = add(run, &run->argv, rt->option, NULL);
    char path[64];
    snprintf(path, sizeof(path), "%s/%s", GB_WORKDIR, rt->script);
    if (!r)
        r = add(run, &run->argv, path, NULL);
    run->spec.runtime = rt->name;
    return r;
}

int gb_run_set_program(struct gb_run *run, const char *const *argv)
{
    if (run->argv.count)
        return gb_err_set(&run->err, GB_ERR_USAGE, 0, "a run has one program or one piece of code");
    if (!argv[0] || !*argv[0])
        return gb_err_set(&run->err, GB_ERR_USAGE, 0, "the program's name is empty");
    int r = 0;
    for (size_t i = 0; !r && argv[i]; i++)
        r = add(run, &run->argv, argv[i], NULL);
    return r;
}

int gb_run_add_arg(struct gb_run *run, const char *arg)
{
    return add(run, &run->args, arg, NULL);
}

int gb_run_add_env(struct gb_run *run, const char *name, const char *value)
{
    size_t len = strlen(name);
    if (!gb_spec_is_env_name(name, len))
        return gb_err_set(&run->err, GB_ERR_USAGE, 0,
                          "'%.64s' is not a name for the environment: letters, digits and _, no digit first",
                          name);
    AUTO_FREE char *text = NULL;
    if (asprintf(&text, "%s=%s", name, value) < 0)
        return gb_err_set(&run->err, GB_ERR_BUSY, ENOMEM, "keep the environment");
    for (size_t i = 0; i < run->env.count; i++)
        if (!strncmp(run->env.items[i], text, len + 1)) {
            free(run->env.items[i]);
            run->env.items[i] = TAKE_PTR(text);
            return 0;
        }
    return add(run, &run->env, text, NULL);
}

int gb_run_set_limit(struct gb_run *run, const char *name, const char *value)
{
    return gb_limits_set(&run->spec.limits, name, value, &run->err);
}

int gb_run_add_output(struct gb_run *run, const char *pattern)
{
    int r = gb_outputs_check(pattern, &run->err);
    return r ? r : add(run, &run->outputs, pattern, NULL);
}

/* Where a directory may be shown: not over what makes the box a box. */
static bool is_target(const char *path)
{
    static const char taken[] = "usr,bin,sbin,lib,lib32,lib64,libx32,etc,proc,dev,tmp,sandbox,sys";
    if (path[0] != '/' || !gb_text_is_relative_name(path + 1))
        return false;
    char first[256];
    snprintf(first, sizeof(first), "%.*s", (int)(strchrnul(path + 1, '/') - path - 1), path + 1);
    return !gb_text_in_list(taken, first);
}

int gb_run_add_mount(struct gb_run *run, const char *host_dir, const char *box_dir, int writable)
{
    struct stat st;
    if (run->spec.mount_count >= GB_MOUNTS)
        return gb_err_set(&run->err, GB_ERR_USAGE, 0, "more than %d mounts", GB_MOUNTS);
    if (!is_target(box_dir))
        return gb_err_set(&run->err, GB_ERR_USAGE, 0,
                          "'%.200s' cannot be a mount's place in the box: it takes an absolute path outside "
                          "the system directories, such as /data",
                          box_dir);
    if (stat(host_dir, &st))
        return gb_err_set(&run->err, GB_ERR_INPUT, errno, "open the directory '%.200s'", host_dir);
    if (!S_ISDIR(st.st_mode))
        return gb_err_set(&run->err, GB_ERR_INPUT, ENOTDIR, "'%.200s'", host_dir);
    if (faccessat(AT_FDCWD, host_dir, R_OK | X_OK, AT_EACCESS))
        return gb_err_set(&run->err, GB_ERR_INPUT, errno, "read the directory '%.200s'", host_dir);
    char *source = NULL, *target = NULL;
    int r = add(run, &run->owned, host_dir, &source);
    if (!r)
        r = add(run, &run->owned, box_dir, &target);
    if (!r)
        run->mounts[run->spec.mount_count++] = (struct gb_mount){source, target, writable != 0};
    return r;
}

static int set_text(struct gb_run *run, const char *text, const char **field)
{
    char *copy = NULL;
    int r = add(run, &run->owned, text, &copy);
    if (!r)
        *field = copy;
    return r;
}

int gb_run_set_rootfs(struct gb_run *run, const char *host_dir)
{
    AUTO_FD fd = open(host_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return gb_err_set(&run->err, GB_ERR_INPUT, errno, "open the root file system '%.200s'", host_dir);
    return set_text(run, host_dir, &run->spec.rootfs);
}

int gb_run_set_cgroup_parent(struct gb_run *run, const char *path)
{
    const char *relative = path + strspn(path, "/");
    if (*relative && !gb_text_is_relative_name(relative))
        return gb_err_set(&run->err, GB_ERR_USAGE, 0,
                          "cgroup parent '%.200s' must be a path below the cgroup mount", path);
    return set_text(run, path, &run->spec.cgroup_parent);
}

int gb_run_set_backend(struct gb_run *run, const char *name)
{
    const struct gb_backend *backend = gb_backend_find(name);
    if (!backend)
        return gb_err_set(&run->err, GB_ERR_USAGE, 0, "there is no backend '%.64s'; there is: native", name);
    run->backend = backend;
    return 0;
}

int gb_run_allow_degraded(struct gb_run *run, const char *layers)
{
    int r = gb_steps_check_degraded(layers, &run->err);
    AUTO_FREE char *all = NULL;
    if (!r && run->spec.degraded && asprintf(&all, "%s,%s", run->spec.degraded, layers) < 0)
        return gb_err_set(&run->err, GB_ERR_BUSY, ENOMEM, "keep the list of layers");
    return r ? r : set_text(run, all ? all : layers, &run->spec.degraded);
}

int gb_run_set_stdin(struct gb_run *run, int fd)
{
    run->spec.stdin_fd = fd;
    return 0;
}

int gb_run_set_cancel(struct gb_run *run, int fd)
{
    run->spec.cancel_fd = fd;
    return 0;
}

int gb_run_on_output(struct gb_run *run, void (*call)(void *, int, const char *, size_t), void *context)
{
    run->on_output = call;
    run->context = context;
    return 0;
}

int gb_run_start(struct gb_run *run)
{
    if (run->started)
        return gb_err_set(&run->err, GB_ERR_USAGE, 0, "a run is started once");
    run->started = true;
    if (run->err.code != GB_ERR_NONE)
        return -EINVAL; /* a setter failed: what would run is not what was asked for; the error stands */
    if (!run->argv.count)
        return gb_err_set(&run->err, GB_ERR_USAGE, 0, "there is nothing to run");
    for (size_t i = 0; i < run->args.count; i++) {
        int r = add(run, &run->argv, run->args.items[i], NULL);
        if (r)
            return r;
    }
    run->spec.argv = (const char *const *)run->argv.items;
    run->spec.env = (const char *const *)run->env.items;
    run->spec.outputs = (const char *const *)run->outputs.items;
    run->spec.output_count = run->outputs.count;
    run->spec.files = run->files;
    run->spec.mounts = run->mounts;
    int r = run->backend->run(&run->spec, run->on_output, run->context, &run->result, &run->err);
    run->finished = r == 0;
    return r;
}

const char *gb_run_error(const struct gb_run *run)
{
    return run->err.text;
}

const char *gb_run_error_code(const struct gb_run *run)
{
    return gb_err_name((enum gb_error_code)run->err.code);
}

const char *gb_run_error_step(const struct gb_run *run)
{
    return run->err.step;
}

const struct gb_result *gb_run_result(const struct gb_run *run)
{
    return &run->result;
}

const char *gb_run_status(const struct gb_run *run)
{
    return run->finished ? gb_status_name(run->result.status) : "internal_error";
}

const char *gb_run_kill_reason(const struct gb_run *run)
{
    return run->finished ? run->result.kill_reason : NULL;
}

int gb_run_exit_code(const struct gb_run *run)
{
    return run->finished ? gb_result_exit_code(&run->result)
                         : gb_err_exit_code((enum gb_error_code)run->err.code);
}

static const char *text_of(const struct gb_buf *buf, size_t *ret_len)
{
    if (ret_len)
        *ret_len = buf->len;
    return buf->data ? buf->data : "";
}

const char *gb_run_stdout(const struct gb_run *run, size_t *ret_len)
{
    return text_of(&run->result.out, ret_len);
}

const char *gb_run_stderr(const struct gb_run *run, size_t *ret_len)
{
    return text_of(&run->result.err, ret_len);
}

int gb_run_truncated(const struct gb_run *run)
{
    return gb_buf_truncated(&run->result.out) || gb_buf_truncated(&run->result.err);
}

int gb_run_output(const struct gb_run *run, size_t index, const char **ret_name, const void **ret_data,
                  size_t *ret_len, const char **ret_skipped)
{
    if (index >= run->result.file_count)
        return -ENOENT;
    const struct gb_output *o = &run->result.files[index];
    *ret_name = o->name;
    *ret_data = o->data;
    *ret_len = o->len;
    *ret_skipped = o->skipped;
    return 0;
}

const char *gb_run_json(struct gb_run *run)
{
    if (!run->finished)
        return NULL;
    if (!run->json.data) {
        run->json.max = SIZE_MAX / 2;
        AUTO_BUF receipt = {.max = SIZE_MAX / 2};
        if (!*run->result.enforced.policy_hash) /* only who reads the receipt pays for it */
            gb_native_hash_policy(&run->spec, run->result.enforced.policy_hash);
        gb_receipt_to_json(&run->result.enforced, gb_step_name, &receipt);
        const struct gb_result_form form = {
                .out_key = "stdout", .err_key = "stderr", .enforced = receipt.data};
        gb_result_to_json(&run->result, &form, &run->json);
        run->json.failed |= receipt.failed;
    }
    return run->json.failed ? NULL : run->json.data;
}
