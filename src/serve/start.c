/* What each child is told when it starts: one message with its part of the configuration and its descriptors.
 */
#include "serve/service.h"

#include "base/auto.h"
#include "base/buf.h"
#include "base/log.h"
#include "policy/policy.h"
#include "wire/payload.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#define CONFIG_BYTES (GB_CONFIG_BYTES * 4)

enum { FRONT_LAUNCH, FRONT_STORE, LAUNCH_STORE, FRONT_BROKER };

/* Sealed: it holds the private key and secrets, and its readers must be able to trust that its length stays.
 */
int gb_start_config_fd(const struct gb_config *config, struct gb_err *err)
{
    struct gb_buf text = {.max = CONFIG_BYTES};
    int r = gb_config_write(config, true, &text, err);
    if (!r && (gb_buf_truncated(&text) || text.failed))
        r = gb_err_set(err, GB_ERR_CONFIG, EFBIG, "the configuration with its keys and certificates");
    int fd = r ? r : gb_payload_seal(&text);
    if (!r && fd < 0)
        gb_err_set(err, GB_ERR_INTERNAL, -fd, "hand the configuration on");
    if (text.data)
        explicit_bzero(text.data, text.size);
    gb_buf_done(&text);
    return fd;
}

static struct gb_msg_log log_of(const struct gb_service *s)
{
    return (struct gb_msg_log){(uint32_t)s->config->log_level, (uint32_t)s->config->log_format};
}

void gb_start_ceiling(const struct gb_service *s, struct gb_msg_ceiling *ret)
{
    const char *parent = s->config->cgroup_parent ? s->config->cgroup_parent : s->cgroup_parent;
    *ret = (struct gb_msg_ceiling){
            .limits = s->config->ceilings, .running = (uint32_t)s->config->boxes.running, .log = log_of(s)};
    snprintf(ret->cgroup_parent, sizeof(ret->cgroup_parent), "%s", parent);
    snprintf(ret->degraded, sizeof(ret->degraded), "%s",
             s->config->allow_degraded ? s->config->allow_degraded : "");
}

/* The policy was checked when the configuration was; what can be missing now is memory, and a service without
 * boxes that wait is better than none. */
void gb_start_pools(const struct gb_service *s, struct gb_msg_pools *ret)
{
    AUTO_POLICY policy = NULL;
    struct gb_err err = {0};
    AUTO_BUF left_out = {.max = 1024};
    *ret = (struct gb_msg_pools){.zygote_boxes = (uint32_t)s->config->pool.zygote_boxes,
                                 .idle_ms = (uint32_t)s->config->pool.idle_ms};
    if (gb_policy_new(s->config, GB_POLICY_BROKER, &policy, &err)) {
        gb_log(GB_LOG_ERROR, "no boxes will wait for calls", GB_S("error", err.text));
        return;
    }
    ret->count = (uint32_t)gb_policy_pools(policy, ret->want, &left_out);
    if (left_out.len)
        gb_log(GB_LOG_WARN, "too many kinds of boxes: some that these profiles use do not wait for calls",
               GB_I("most", GB_POOLS), GB_S("profiles", left_out.data));
}

void gb_start_retention(const struct gb_service *s, struct gb_msg_retention *ret)
{
    *ret = (struct gb_msg_retention){.keep_seconds = s->config->audit.keep_seconds,
                                     .keep_bytes = s->config->audit.keep_bytes,
                                     .sync_full = s->config->audit.sync_full ? 1 : 0,
                                     .log = log_of(s)};
    snprintf(ret->degraded, sizeof(ret->degraded), "%s",
             s->config->allow_degraded ? s->config->allow_degraded : "");
}

void gb_start_broker(const struct gb_service *s, struct gb_msg_broker *ret)
{
    *ret = (struct gb_msg_broker){.log = log_of(s), .running = (uint32_t)s->config->boxes.running};
    snprintf(ret->degraded, sizeof(ret->degraded), "%s",
             s->config->allow_degraded ? s->config->allow_degraded : "");
}

int gb_start_pairs(struct gb_service *s)
{
    for (size_t i = 0; i < ARRAY_LEN(s->pair); i++) {
        int r = gb_msg_pair(s->pair[i]);
        if (r) {
            gb_start_close_pairs(s);
            return r;
        }
    }
    return 0;
}

static void close_end(int *fd)
{
    if (*fd >= 0)
        close(TAKE_FD(*fd));
}

void gb_start_close_pairs(struct gb_service *s)
{
    for (size_t i = 0; i < ARRAY_LEN(s->pair); i++) {
        close_end(&s->pair[i][0]);
        close_end(&s->pair[i][1]);
    }
    close_end(&s->config_fd);
}

/* Our copies of what was handed out are closed at once: a peer that dies must be noticed by the other. */
static int tell(struct gb_service *s, enum gb_child_index who, enum gb_msg_kind kind, const void *body,
                int *first, int *second)
{
    const int fds[] = {*first, *second};
    int r = gb_msg_send(s->children[who].channel.fd, kind, 0, body, NULL, 0, fds, ARRAY_LEN(fds));
    close_end(first);
    close_end(second);
    return r;
}

/* The launcher does not wait for the second message: without it no box waits. */
static int tell_launch(struct gb_service *s)
{
    struct gb_msg_ceiling ceiling;
    struct gb_msg_pools pools;
    gb_start_ceiling(s, &ceiling);
    gb_start_pools(s, &pools);
    int r = tell(s, GB_CHILD_LAUNCH, GB_MSG_START_LAUNCH, &ceiling, &s->pair[FRONT_LAUNCH][1],
                 &s->pair[LAUNCH_STORE][0]);
    return r ? r
             : gb_msg_send(s->children[GB_CHILD_LAUNCH].channel.fd, GB_MSG_POOLS, 0, &pools, NULL, 0, NULL,
                           0);
}

/* The front is given the very same memory: both know a configuration by the hash of its bytes. */
static int tell_broker(struct gb_service *s, struct gb_err *err)
{
    struct gb_msg_broker body;
    gb_start_broker(s, &body);
    close_end(&s->config_fd);
    s->config_fd = gb_start_config_fd(s->config, err);
    if (s->config_fd < 0)
        return s->config_fd;
    const int fds[] = {s->pair[FRONT_BROKER][1], s->config_fd};
    int r = gb_msg_send(s->children[GB_CHILD_BROKER].channel.fd, GB_MSG_START_BROKER, 0, &body, NULL, 0, fds,
                        ARRAY_LEN(fds));
    close_end(&s->pair[FRONT_BROKER][1]);
    return r;
}

static int tell_front(struct gb_service *s, struct gb_err *err)
{
    int fds[GB_MSG_FDS];
    unsigned count = 0;
    /* Without diagnostics the front gets something that answers no question: it then knows no caller. */
    AUTO_FD mute = s->diag_fd < 0 ? open("/dev/null", O_RDONLY | O_CLOEXEC) : -1;
    fds[count++] = s->pair[FRONT_LAUNCH][0];
    fds[count++] = s->pair[FRONT_STORE][0];
    fds[count++] = s->pair[FRONT_BROKER][0];
    fds[count++] = s->diag_fd < 0 ? mute : s->diag_fd;
    fds[count++] = s->config_fd;
    for (size_t i = 0; i < s->listen_count; i++) {
        int r = gb_listen_mend(&s->listen[i], err);
        if (r)
            return r;
        fds[count++] = s->listen[i].fd;
    }
    int r = gb_msg_send(s->children[GB_CHILD_FRONT].channel.fd, GB_MSG_START_FRONT, 0, NULL, NULL, 0, fds,
                        count);
    close_end(&s->pair[FRONT_LAUNCH][0]);
    close_end(&s->pair[FRONT_STORE][0]);
    close_end(&s->pair[FRONT_BROKER][0]);
    close_end(&s->config_fd);
    return r;
}

int gb_start_tell(struct gb_service *s, enum gb_child_index who, struct gb_err *err)
{
    struct gb_msg_retention retention;
    int r = 0;
    err->text[0] = '\0';
    switch (who) {
    case GB_CHILD_STORE:
        gb_start_retention(s, &retention);
        r = tell(s, who, GB_MSG_START_STORE, &retention, &s->pair[FRONT_STORE][1], &s->pair[LAUNCH_STORE][1]);
        break;
    case GB_CHILD_LAUNCH:
        r = tell_launch(s);
        break;
    case GB_CHILD_BROKER:
        r = tell_broker(s, err);
        break;
    default:
        r = tell_front(s, err);
    }
    if (r && !err->text[0])
        gb_err_set(err, GB_ERR_INTERNAL, -r, "tell the %s what to do", s->children[who].name);
    return r;
}
