#include "broker/sql_connect.h"

#include "base/auto.h"
#include "base/buf.h"
#include "policy/template.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#define MAX_OPTIONS     64
#define MAX_VALUE_BYTES ((size_t)128 << 10)

/* What holds whatever the connection string says. */
static const struct {
    const char *keyword, *value;
} fixed[] = {
        {"passfile", "/dev/null"},
        {"gssencmode", "disable"}, /* no Kerberos tickets of the host */
        {"client_encoding", "UTF8"},
        {"application_name", "glovebox"},
};

/* libpq's texts name host, user and database; these do not. */
static const struct {
    const char *sign, *words;
} failures[] = {
        {"authentication failed", "it refused the credentials"},
        {"no password supplied", "it wants a password"},
        {"no pg_hba.conf entry", "it does not serve this user from here"},
        {"too many clients", "it has too many connections"},
        {"remaining connection slots", "it has too many connections"},
        {"could not translate host name", "its name cannot be resolved"},
        {"Connection refused", "nothing listens there"},
        {"No such file or directory", "nothing listens there"},
        {"starting up", "it is starting"},
        {"shutting down", "it is shutting down"},
        {"certificate", "its certificate is not accepted"},
        {"SSL", "TLS could not be agreed upon"},
        {"does not exist", "it has no such database or user"},
        {"Permission denied", "access to its socket is refused"},
        {"out of memory", "out of memory"},
};

struct options {
    const char *keywords[MAX_OPTIONS + 1], *values[MAX_OPTIONS + 1];
    struct gb_buf texts[MAX_OPTIONS];
    size_t count;
};

static void options_done(struct options *o)
{
    for (size_t i = 0; i < o->count; i++) {
        if (o->texts[i].data)
            explicit_bzero(o->texts[i].data, o->texts[i].len);
        gb_buf_done(&o->texts[i]);
    }
}
#define AUTO_OPTIONS __attribute__((cleanup(options_done))) struct options

static bool is_fixed(const char *keyword)
{
    for (size_t i = 0; i < ARRAY_LEN(fixed); i++)
        if (!strcmp(fixed[i].keyword, keyword))
            return true;
    return false;
}

/* Puts the secrets in. The string was taken apart before, so a secret may hold any character. */
static int fill(const struct sql *s, const char *text, struct gb_buf *out, struct gb_err *err)
{
    struct gb_template_item item;
    size_t at = 0, done = 0;
    while (gb_template_next(text, &at, &item)) {
        gb_buf_add(out, text + done, item.start - done);
        done = item.end;
        if (item.literal) {
            gb_buf_add(out, text + item.start + 1, item.end - item.start - 2);
            continue;
        }
        if (item.bad)
            return gb_err_set(err, GB_ERR_CONFIG, 0, "sql: `postgresql` has a {secret:NAME} without its end");
        const char *value = item.secret ? gb_policy_secret(s->call->policy, item.name) : NULL;
        if (!value)
            return gb_err_set(err, GB_ERR_CONFIG, 0,
                              "sql: `postgresql` names the secret %s, which there is not", item.name);
        gb_buf_puts(out, value);
    }
    gb_buf_puts(out, text + done);
    gb_buf_add(out, "", 1);
    return out->failed || gb_buf_truncated(out)
                   ? gb_err_set(err, GB_ERR_CONFIG, 0, "sql: `postgresql` is too long")
                   : 0;
}

static int add(const struct sql *s, struct options *o, const char *keyword, const char *value,
               struct gb_err *err)
{
    if (o->count == MAX_OPTIONS)
        return gb_err_set(err, GB_ERR_CONFIG, 0, "sql: `postgresql` has more than %d settings", MAX_OPTIONS);
    o->texts[o->count].max = MAX_VALUE_BYTES;
    int r = fill(s, value, &o->texts[o->count], err);
    o->keywords[o->count] = keyword;
    o->values[o->count] = o->texts[o->count].data;
    o->count++;
    return r;
}

static const char *value_of(const struct options *o, const char *keyword)
{
    for (size_t i = 0; i < o->count; i++)
        if (!strcmp(o->keywords[i], keyword))
            return o->values[i];
    return NULL;
}

/* All of a list of hosts are this one: sockets in the file system, or loopback. */
static bool is_local(const char *hosts)
{
    static const char *const names[] = {"localhost", "127.0.0.1", "::1", ""};
    for (const char *at = hosts; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        const size_t len = strcspn(at, ",");
        bool local = len && (*at == '/' || *at == '@');
        for (size_t i = 0; i < ARRAY_LEN(names); i++)
            local = local || (strlen(names[i]) == len && !strncmp(at, names[i], len));
        if (!local)
            return false;
    }
    return true;
}

/* libpq gives a password in clear text to whoever asks for it, and by default does without TLS where the
 * server, or whoever answers in its place, says that it has none. Over a network that takes a word of the
 * policy. */
static int add_tls(const struct sql *s, struct options *o, struct gb_err *err)
{
    const char *address = value_of(o, "hostaddr");
    if (value_of(o, "sslmode") || is_local(address ? address : value_of(o, "host")))
        return 0;
    return add(s, o, "sslmode", "require", err);
}

static int build(const struct sql *s, PQconninfoOption *parsed, const char *timeout, struct options *o,
                 struct gb_err *err)
{
    int r = 0;
    for (const PQconninfoOption *p = parsed; !r && p->keyword; p++) {
        if (!p->val || is_fixed(p->keyword) || !strcmp(p->keyword, "connect_timeout"))
            continue;
        if (!strcmp(p->keyword, "service"))
            return gb_err_set(err, GB_ERR_CONFIG, 0,
                              "sql: `postgresql` may not name a service; write its settings");
        r = add(s, o, p->keyword, p->val, err);
    }
    for (size_t i = 0; !r && i < ARRAY_LEN(fixed); i++)
        r = add(s, o, fixed[i].keyword, fixed[i].value, err);
    if (!r)
        r = add_tls(s, o, err);
    return r ? r : add(s, o, "connect_timeout", timeout, err);
}

/* libpq reads settings from PGHOST, PGSERVICE, PGOPTIONS and the like. */
static void clear_environment(void)
{
    for (char **at = environ; at && *at;) {
        char name[256];
        const char *end = strchr(*at, '=');
        if (strncmp(*at, "PG", 2) != 0 || !end || (size_t)(end - *at) >= sizeof(name)) {
            at++;
            continue;
        }
        snprintf(name, sizeof(name), "%.*s", (int)(end - *at), *at);
        unsetenv(name); /* the rest moves down */
    }
}

bool sql_connect_wait(const struct sql *s, PGconn *conn, short events)
{
    for (;;) {
        struct pollfd p = {.fd = PQsocket(conn), .events = events};
        const int64_t left_ms = sql_remaining_ms(s);
        const int n = poll(&p, 1, (int)(left_ms < 60000 ? left_ms : 60000));
        if (!left_ms || (n < 0 && errno != EINTR))
            return false; /* even if there is more: a server that never stops is no better than a silent one
                           */
        if (n > 0)
            return true;
    }
}

static int refused(const PGconn *conn, struct gb_err *err)
{
    const char *words = "it did not answer as it should",
               *text = conn ? PQerrorMessage(conn) : "out of memory";
    for (size_t i = 0; i < ARRAY_LEN(failures); i++)
        if (strstr(text, failures[i].sign)) {
            words = failures[i].words;
            break;
        }
    return gb_err_set(err, GB_ERR_UPSTREAM, 0, "the database cannot be reached: %s", words);
}

/* A server's notices are for nobody here; libpq would print them. */
static void drop_notice(void *ctx, const char *message)
{
    (void)ctx;
    (void)message;
}

static int finish(const struct sql *s, PGconn *conn, struct gb_err *err)
{
    PostgresPollingStatusType state = PGRES_POLLING_WRITING;
    if (!conn || PQstatus(conn) == CONNECTION_BAD)
        return refused(conn, err);
    PQsetNoticeProcessor(conn, drop_notice, NULL);
    while (state == PGRES_POLLING_READING || state == PGRES_POLLING_WRITING) {
        if (!sql_connect_wait(s, conn, state == PGRES_POLLING_READING ? POLLIN : POLLOUT))
            return gb_err_set(err, GB_ERR_UPSTREAM, ETIMEDOUT, "the database cannot be reached");
        state = PQconnectPoll(conn);
    }
    if (state != PGRES_POLLING_OK)
        return refused(conn, err);
    const char *encoding = PQparameterStatus(conn, "client_encoding");
    if (!encoding || strcmp(encoding, "UTF8") != 0)
        return gb_err_set(err, GB_ERR_UPSTREAM, 0, "the database does not speak UTF-8");
    return 0;
}

int sql_connect(struct sql *s, const char *conninfo, PGconn **ret, struct gb_err *err)
{
    AUTO_OPTIONS options = {0};
    AUTO_CONN conn = NULL;
    char timeout[32];
    PQconninfoOption *parsed = PQconninfoParse(conninfo, NULL);
    if (!parsed) /* libpq's text would show it */
        return gb_err_set(err, GB_ERR_CONFIG, 0, "sql: `postgresql` is no connection string");
    /* Whole seconds, and less than two count as two; our own deadline is exact. */
    snprintf(timeout, sizeof(timeout), "%lld", (long long)sql_remaining_ms(s) / 1000 + 1);
    int r = build(s, parsed, timeout, &options, err);
    if (!r) {
        clear_environment();
        conn = PQconnectStartParams(options.keywords, options.values, 0);
        r = finish(s, conn, err);
    }
    PQconninfoFree(parsed);
    if (!r)
        *ret = TAKE_PTR(conn);
    return r;
}
