#include "launch/nest.h"

#include "base/auto.h"
#include "base/log.h"
#include "launch/embedded.h"
#include "sandbox/runtimes.h"
#include "screen/start.h"
#include "wire/payload.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

static struct nest {
    uint64_t key; /* 0: free, or retired */
    struct gb_zygote zygote;
    int pidfd; /* ours, also of a retired one; -1: there is none */
} nests[GB_NESTS];

static struct gb_slots *slots;
static int start_code = -1;

/* --- what they are made of --- */

/* The interpreter becomes the zygote. */
static void describe_python(const struct gb_pool_want *want, struct gb_zygote_spec *spec)
{
    static struct gb_file files[3];
    static char preload[GB_POOL_PRELOAD];
    snprintf(preload, sizeof(preload), "%s", want->preload);
    for (char *c = preload; *c; c++)
        if (*c == ' ')
            *c = '\n';
    files[0] = (struct gb_file){.name = "main.py",
                                .data = (const char *)gb_python_zygote,
                                .len = gb_python_zygote_bytes,
                                .mode = 0644};
    files[1] = (struct gb_file){.name = "_glovebox.abi3.so",
                                .data = (const char *)gb_python_extension,
                                .len = gb_python_extension_bytes,
                                .mode = 0755};
    files[2] = (struct gb_file){.name = "preload.txt", .data = preload, .len = strlen(preload), .mode = 0644};
    spec->program = want->program;
    spec->script = "/sandbox/main.py";
    spec->files = files;
    spec->file_count = ARRAY_LEN(files);
}

/* It cannot fork, so one is started in each box. */
static void describe_node(const struct gb_pool_want *want, struct gb_zygote_spec *spec)
{
    static struct gb_file files[2];
    static const char *argv[5];
    files[0] = (struct gb_file){.name = "start.js",
                                .data = (const char *)gb_node_start,
                                .len = gb_node_start_bytes,
                                .mode = 0644};
    files[1] = (struct gb_file){.name = "exit.node",
                                .data = (const char *)gb_node_extension,
                                .len = gb_node_extension_bytes,
                                .mode = 0755};
    argv[0] = want->program;
    argv[1] = "-r";
    argv[2] = "/etc/glovebox/start.js";
    argv[3] = GB_WORKDIR "/main.js";
    spec->ahead = argv;
    spec->shown = files;
    spec->shown_count = ARRAY_LEN(files);
}

static void (*const describe[GB_POOL_KINDS])(const struct gb_pool_want *, struct gb_zygote_spec *) = {
        [GB_POOL_PYTHON] = describe_python, [GB_POOL_NODE] = describe_node};

int gb_nest_start_code(void)
{
    return start_code;
}

static int make_start_code(void)
{
    struct gb_file files[GB_PYTHON_START_FILES];
    AUTO_BUF b = {.max = GB_PAYLOAD_BYTES};
    gb_python_start_files(files);
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        gb_payload_add_text(&b, GB_ITEM_NAME, files[i].name);
        gb_payload_add(&b, GB_ITEM_DATA, files[i].data, files[i].len);
    }
    return gb_payload_seal(&b);
}

void gb_nest_init(struct gb_slots *shared)
{
    slots = shared;
    start_code = make_start_code();
    for (unsigned i = 0; i < GB_NESTS; i++)
        nests[i].pidfd = nests[i].zygote.socket = nests[i].zygote.pidfd = -1;
}

/* --- their lives --- */

int gb_nest_find(uint64_t key)
{
    for (unsigned i = 0; key && i < GB_NESTS; i++)
        if (nests[i].key == key)
            return (int)i;
    return -1;
}

const struct gb_zygote *gb_nest_zygote(unsigned nest)
{
    return &nests[nest].zygote;
}

bool gb_nest_is_current(unsigned nest)
{
    return nests[nest].key != 0;
}

bool gb_nest_is_warm(unsigned nest)
{
    return atomic_load(&slots->warm[nest]);
}

bool gb_nest_has_room(void)
{
    unsigned used = 0;
    for (unsigned i = 0; i < GB_NESTS; i++)
        used += nests[i].pidfd >= 0;
    return used < GB_NESTS / 2;
}

int gb_nest_start(const struct gb_pool_want *want, const struct gb_msg_ceiling *ceiling, struct gb_err *err)
{
    struct gb_zygote_spec spec = {.degraded = *ceiling->degraded ? ceiling->degraded : NULL};
    unsigned i = 0;
    while (i < GB_NESTS && nests[i].pidfd >= 0)
        i++;
    if (i == GB_NESTS)
        return gb_err_set(err, GB_ERR_BUSY, EAGAIN, "%d zygotes are there already", GB_NESTS);
    if (describe[want->kind])
        describe[want->kind](want, &spec);
    /* It runs nothing of a call, and boxes execute; but what it does not have, nothing can be done to. */
    (void)madvise(slots, sizeof(*slots), MADV_DONTFORK);
    int r = gb_zygote_start(&spec, &nests[i].zygote, err);
    (void)madvise(slots, sizeof(*slots), MADV_DOFORK);
    if (r)
        return r;
    nests[i].key = want->key;
    nests[i].pidfd = TAKE_FD(nests[i].zygote.pidfd);
    atomic_store(&slots->born[i], 0);
    atomic_store(&slots->warm[i], 0);
    return 0;
}

void gb_nest_retire(unsigned nest)
{
    nests[nest].key = 0;
    gb_zygote_retire(&nests[nest].zygote);
    /* It may be at work on its imports for ever, and would not notice that nobody asks it any more. */
    if (!gb_nest_is_warm(nest))
        (void)pidfd_send_signal(nests[nest].pidfd, SIGKILL, NULL, 0);
}

void gb_nest_kill(unsigned nest)
{
    if (nests[nest].pidfd >= 0)
        (void)pidfd_send_signal(nests[nest].pidfd, SIGKILL, NULL, 0);
}

void gb_nest_retire_all(void)
{
    for (unsigned i = 0; i < GB_NESTS; i++)
        if (nests[i].key)
            gb_nest_retire(i);
}

unsigned gb_nest_watch(struct pollfd *ret, unsigned most)
{
    unsigned n = 0;
    for (unsigned i = 0; i < GB_NESTS && n < most; i++)
        if (nests[i].pidfd >= 0)
            ret[n++] = (struct pollfd){.fd = nests[i].pidfd, .events = POLLIN};
    return n;
}

static void bury(struct nest *n, int status, uint64_t *ret_key)
{
    *ret_key = n->key;
    if (n->key)
        gb_log(GB_LOG_ERROR, "a zygote died", GB_I("pid", n->zygote.pid),
               GB_I("exit_code", WIFEXITED(status) ? WEXITSTATUS(status) : -1),
               GB_I("signal", WIFSIGNALED(status) ? WTERMSIG(status) : 0));
    n->key = 0;
    gb_zygote_retire(&n->zygote);
    gb_close(&n->pidfd);
}

bool gb_nest_look(int fd, uint64_t *ret_key)
{
    for (unsigned i = 0; i < GB_NESTS; i++)
        if (nests[i].pidfd >= 0 && nests[i].pidfd == fd) {
            int status = 0;
            (void)waitpid(nests[i].zygote.pid, &status, __WALL);
            bury(&nests[i], status, ret_key);
            return true;
        }
    return false;
}

bool gb_nest_reaped(pid_t pid, int status, uint64_t *ret_key)
{
    for (unsigned i = 0; i < GB_NESTS; i++)
        if (nests[i].pidfd >= 0 && nests[i].zygote.pid == pid) {
            bury(&nests[i], status, ret_key);
            return true;
        }
    return false;
}
