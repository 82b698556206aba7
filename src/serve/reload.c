/* SIGHUP: a new configuration, or the old one if the new one is bad.
 *
 * What the supervisor can check it checks before anything changes. Then the broker gets it, which keeps the
 * ones before it as well; when it has answered READY the front does, which can check what nobody else can
 * (that certificate and key are a pair that TLS can use), and which from then on asks the broker for calls
 * under it. When the front has answered READY the new one is in force. Until then the old one is kept, and
 * comes back if one of them refuses, keeps silent or dies of it. */
#include "serve/service.h"

#include "base/auto.h"
#include "base/clock.h"
#include "base/log.h"
#include "policy/policy.h"
#include "serve/notify.h"

#include <errno.h>
#include <string.h>

#define ANSWER_US (10 * 1000000LL)

/* The policy is the front's, but a bad one is refused here. Without keys a caller is known by its uid, which
 * for TCP only the kernel's diagnostics tell. */
int gb_reload_check(const struct gb_service *s, const struct gb_config *config, struct gb_err *err)
{
    AUTO_POLICY policy = NULL;
    int r = gb_policy_new(config, GB_POLICY_DECIDE, &policy, err);
    if (r)
        return r;
    for (size_t i = 0; i < s->listen_count && !config->key_count; i++) {
        if (s->listen[i].address.addr.ss_family == AF_UNIX)
            continue;
        if (!s->listen[i].address.loopback)
            return gb_err_set(
                    err, GB_ERR_CONFIG, 0,
                    "%s is not a loopback address, and there are no keys: configure keys, or listen on "
                    "127.0.0.1 only",
                    s->listen[i].text);
        if (s->diag_fd < 0) {
            gb_err_set(err, GB_ERR_LAYER, 0, "this kernel does not tell which user a caller on %s is",
                       s->listen[i].text);
            gb_err_hint(
                    err,
                    "configure keys, or listen only on a unix socket, or load the kernel module tcp_diag");
            return -EINVAL;
        }
    }
    return 0;
}

static bool same_text(const char *a, const char *b)
{
    return a && b ? !strcmp(a, b) : a == b;
}

/* Returns whether it was another one. */
static bool keep_text(char **text, const char *old, bool *failed)
{
    if (same_text(*text, old))
        return false;
    free(*text);
    *text = old ? strdup(old) : NULL;
    *failed |= old && !*text;
    return true;
}

static bool keep_listen(struct gb_config *config, const struct gb_config *old, bool *failed)
{
    bool changed = config->listen_count != old->listen_count;
    for (size_t i = 0; i < GB_CONFIG_LISTEN; i++)
        changed |= keep_text(&config->listen[i], i < old->listen_count ? old->listen[i] : NULL, failed);
    config->listen_count = old->listen_count;
    return changed;
}

static bool keep_tls(struct gb_config *config, const struct gb_config *old, bool *failed)
{
    if (!config->tls_certificate == !old->tls_certificate)
        return false;
    keep_text(&config->tls_certificate, old->tls_certificate, failed);
    keep_text(&config->tls_key, old->tls_key, failed);
    keep_text(&config->tls_certificate_pem, old->tls_certificate_pem, failed);
    keep_text(&config->tls_key_pem, old->tls_key_pem, failed);
    return true;
}

/* What is open cannot change: sockets, directories, and whether they speak TLS. The new configuration gets
 * the old values of these, so that it says what is so. */
static int keep_what_is_open(struct gb_config *config, const struct gb_config *old, struct gb_err *err)
{
    bool failed = false;
    const struct {
        const char *path;
        bool changed;
    } rows[] = {{"listen", keep_listen(config, old, &failed)},
                {"tls", keep_tls(config, old, &failed)},
                {"state_dir", keep_text(&config->state_dir, old->state_dir, &failed)},
                {"runtime_dir", keep_text(&config->runtime_dir, old->runtime_dir, &failed)}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (rows[i].changed)
            gb_log(GB_LOG_WARN, "takes effect at the next start", GB_S("setting", rows[i].path));
    return failed ? gb_err_set(err, GB_ERR_INTERNAL, ENOMEM, "take over the configuration") : 0;
}

static void tell_others(struct gb_service *s)
{
    struct gb_msg_ceiling ceiling;
    struct gb_msg_pools pools;
    struct gb_msg_retention retention;
    gb_start_ceiling(s, &ceiling);
    gb_start_pools(s, &pools);
    gb_start_retention(s, &retention);
    /* Who cannot be told is dead, and gets it from us when it is started again. */
    (void)gb_msg_send(s->children[GB_CHILD_LAUNCH].channel.fd, GB_MSG_CEILING, 0, &ceiling, NULL, 0, NULL, 0);
    (void)gb_msg_send(s->children[GB_CHILD_LAUNCH].channel.fd, GB_MSG_POOLS, 0, &pools, NULL, 0, NULL, 0);
    (void)gb_msg_send(s->children[GB_CHILD_STORE].channel.fd, GB_MSG_RETENTION, 0, &retention, NULL, 0, NULL,
                      0);
}

/* The tag comes back with the broker's answer. */
static int tell_broker(struct gb_service *s, int fd, uint64_t tag)
{
    struct gb_msg_broker body;
    gb_start_broker(s, &body);
    return gb_msg_send(s->children[GB_CHILD_BROKER].channel.fd, GB_MSG_CONFIG_BROKER, tag, &body, NULL, 0,
                       &fd, 1);
}

static void refused(const char *why)
{
    gb_log(GB_LOG_ERROR, "the new configuration is refused, the old one stays", GB_S("error", why));
    gb_notify("READY=1\nSTATUS=The new configuration was refused: %s", why);
}

/* How long one of them may take to answer; who cannot be told will not. */
static void await(struct gb_service *s, int sent)
{
    gb_loop_at(s->loop, &s->answer, gb_clock_us() + (sent ? 1 : ANSWER_US));
}

static void take(struct gb_service *s, struct gb_config *config)
{
    s->config = config;
    gb_log_init("serve", (enum gb_log_level)config->log_level, (enum gb_log_format)config->log_format);
    if (s->phase == GB_PHASE_SERVING)
        tell_others(s);
}

/* The broker may have taken what the front then did not: its numbers are those of the old one again. */
static void take_back(struct gb_service *s)
{
    struct gb_err err = {0};
    AUTO_FD fd = s->phase == GB_PHASE_SERVING ? gb_start_config_fd(s->config, &err) : -1;
    if (fd >= 0)
        (void)tell_broker(s, fd, 0);
}

void gb_reload_answered(struct gb_service *s, bool taken, const char *why)
{
    if (!s->before)
        return;
    gb_loop_at(s->loop, &s->answer, 0);
    gb_start_close_pairs(s);
    if (taken) {
        gb_config_free(TAKE_PTR(s->before));
        gb_log(GB_LOG_INFO, "the new configuration is in force", GB_S("file", s->config->file));
        gb_notify("READY=1\nSTATUS=Serving with the configuration of the last reload");
    } else {
        gb_config_free(s->config);
        take(s, TAKE_PTR(s->before));
        take_back(s);
        refused(why);
    }
    if (s->reload_wanted) /* once more, while this one was under way */
        gb_reload(s);
}

void gb_reload(struct gb_service *s)
{
    struct gb_err err = {0};
    AUTO_CONFIG config = NULL;
    if (s->phase != GB_PHASE_SERVING || s->before) {
        s->reload_wanted = true;
        return;
    }
    s->reload_wanted = false;
    gb_notify("RELOADING=1\nMONOTONIC_USEC=%lld\nSTATUS=Reading the configuration", (long long)gb_clock_us());
    int r = gb_config_load(s->options->file, s->options->overrides, s->options->override_count, &config,
                           &err);
    if (!r)
        r = keep_what_is_open(config, s->config, &err);
    if (!r)
        r = gb_reload_check(s, config, &err);
    AUTO_FD fd = r ? -1 : gb_start_config_fd(config, &err);
    if (fd < 0) {
        refused(err.text);
        return;
    }
    s->before = s->config;
    take(s, TAKE_PTR(config));
    s->config_fd = TAKE_FD(fd);
    await(s, tell_broker(s, s->config_fd, ++s->reloads));
}

void gb_reload_heard(struct gb_service *s, const struct gb_child *c, uint64_t tag)
{
    if (!s->before)
        return;
    if (c == &s->children[GB_CHILD_BROKER] && s->config_fd >= 0 && tag == s->reloads) {
        AUTO_FD fd = TAKE_FD(s->config_fd);
        await(s,
              gb_msg_send(s->children[GB_CHILD_FRONT].channel.fd, GB_MSG_CONFIG, 0, NULL, NULL, 0, &fd, 1));
    } else if (c == &s->children[GB_CHILD_FRONT] && s->config_fd < 0) {
        gb_reload_answered(s, true, "");
    }
}
