/* glovebox audit: reads the record of calls. It never writes to it. */
#include "cli/cli.h"

#include "audit/audit.h"
#include "base/auto.h"
#include "base/json_write.h"
#include "base/text.h"
#include "config/config.h"
#include "json/json.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define EXIT_UNSOUND 1 /* the chain is broken, or there is no such call */
#define LIST_DEFAULT 50
#define LINE_BYTES   ((size_t)8 * GB_AUDIT_BODY) /* of one record as JSON: each byte may become \u0000 */

struct query {
    const char *dir, *principal, *id;
    int64_t limit, since_us;
    uint8_t head[GB_HASH_BYTES];
    bool json, help;
    const struct option_row *table;
    unsigned given;  /* bits of the options, by their place in the table */
    bool plain_json; /* for a terminal: letters beyond ASCII are escaped */
    int64_t rows;    /* printed */
};

/* --- options --- */

static void note(struct query *q, const struct option_row *row)
{
    q->given |= 1U << (row - q->table);
}

static int set_text(void *context, const struct option_row *row, const char *value)
{
    struct query *q = context;
    note(q, row);
    *(strcmp(row->name, "--dir") ? &q->principal : &q->dir) = value;
    return 0;
}

static int set_limit(void *context, const struct option_row *row, const char *value)
{
    struct query *q = context;
    note(q, row);
    if (gb_text_parse_decimal(value, 0, &q->limit) || q->limit < 1) {
        complain("--limit takes a whole number from 1 on, not '%.64s'", value);
        return -1;
    }
    return 0;
}

static int set_flag(void *context, const struct option_row *row, const char *value)
{
    (void)value;
    struct query *q = context;
    note(q, row);
    *(strcmp(row->name, "--json") ? &q->help : &q->json) = true;
    return 0;
}

static int set_head(void *context, const struct option_row *row, const char *value)
{
    struct query *q = context;
    note(q, row);
    if (!gb_text_unhex(value, q->head, sizeof(q->head)))
        return 0;
    complain("--head takes the 64 hexadecimal digits that `glovebox audit verify` prints");
    return -1;
}

/* "90s", "30m", "12h", "7d": that long ago. */
static bool parse_ago(const char *text, int64_t *ret_us)
{
    static const char units[] = "smhd";
    static const int64_t seconds[] = {1, 60, 3600, 86400};
    char number[16];
    const size_t len = strlen(text);
    const char *unit = len > 1 && len < sizeof(number) ? strchr(units, text[len - 1]) : NULL;
    int64_t value;
    snprintf(number, sizeof(number), "%.*s", unit ? (int)len - 1 : 0, text);
    if (!unit || gb_text_parse_decimal(number, 0, &value) || value > 1000000000)
        return false;
    *ret_us = ((int64_t)time(NULL) - value * seconds[unit - units]) * 1000000;
    return true;
}

/* A day, or a moment as we print it. */
static bool parse_moment(const char *text, int64_t *ret_us)
{
    struct tm tm = {0};
    int64_t fraction = 0;
    const char *rest = strptime(text, "%Y-%m-%d", &tm);
    if (rest && *rest) {
        rest = strptime(rest, "T%H:%M:%S", &tm);
        if (rest && *rest == '.') {
            char number[16];
            snprintf(number, sizeof(number), "0.%.*s", (int)strspn(rest + 1, "0123456789"), rest + 1);
            if (gb_text_parse_decimal(number, 6, &fraction))
                return false;
            rest += 1 + strspn(rest + 1, "0123456789");
        }
        if (!rest || strcmp(rest, "Z") != 0)
            return false;
    }
    *ret_us = (int64_t)timegm(&tm) * 1000000 + fraction;
    return rest;
}

static int set_since(void *context, const struct option_row *row, const char *value)
{
    struct query *q = context;
    note(q, row);
    if (parse_ago(value, &q->since_us) || parse_moment(value, &q->since_us))
        return 0;
    complain("--since takes 2026-11-15, 2026-11-15T09:30:00Z (UTC), or 90s, 30m, 12h or 7d ago, not '%.64s'",
             value);
    return -1;
}

static const struct option_row options[] = {
        {"--dir", "DIR", "where audit.db is; else as the configuration says", set_text},
        {"--limit", "N", "how many calls at most (50)", set_limit},
        {"--principal", "NAME", "only calls of this principal", set_text},
        {"--since", "WHEN", "only since then: 2026-11-15, 2026-11-15T09:30:00Z, or 90s, 30m, 12h, 7d ago",
         set_since},
        {"--head", "HASH", "a head that was noted earlier must be in the chain", set_head},
        {"--json", NULL, "print JSON", set_flag},
        {"--help", NULL, "this text (also -h)", set_flag},
        {"-h", NULL, NULL, set_flag},
};
enum { DIR_ = 1, LIMIT = 2, PRINCIPAL = 4, SINCE = 8, HEAD = 16, JSON = 32 }; /* bits of the rows above */

/* --- opening --- */

/* Under root the records belong to the store's own user, and were written by a process that an attacker may
 * have captured. Root reads them as that user, from a root directory that holds nothing else. */
static int become_owner(const char *dir)
{
    struct stat st;
    AUTO_FD fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) || fchdir(fd)) {
        complain("the audit's directory %s: %s", dir, strerror(errno));
        return -EACCES;
    }
    if (geteuid() != 0 || st.st_uid == 0)
        return 0;
    if (chroot(".") || setgroups(0, NULL) || setresgid(st.st_gid, st.st_gid, st.st_gid) ||
        setresuid(st.st_uid, st.st_uid, st.st_uid)) {
        complain("cannot become uid %u, to whom %s belongs: %s", st.st_uid, dir, strerror(errno));
        return -EACCES;
    }
    return 0;
}

static int open_audit(const struct query *q, struct gb_audit **ret_audit)
{
    struct gb_err err = {0};
    char dir[PATH_MAX];
    snprintf(dir, sizeof(dir), "%s", q->dir ? q->dir : "");
    if (!q->dir) {
        AUTO_CONFIG config = NULL;
        if (gb_config_load(NULL, NULL, 0, &config, &err)) {
            complain("%s; or name the audit's directory: --dir DIR", err.text);
            return -EINVAL;
        }
        if (!config->state_dir ||
            snprintf(dir, sizeof(dir), "%s/audit", config->state_dir) >= (int)sizeof(dir)) {
            complain("the configuration names no directory; name the audit's with --dir DIR");
            return -EINVAL;
        }
    }
    int r = become_owner(dir);
    if (r)
        return r;
    r = gb_audit_open(".", false, false, ret_audit, &err);
    if (r == -ENOENT)
        complain("there is no audit in %s: the service has not run yet, or keeps it elsewhere (--dir DIR)",
                 dir);
    else if (r)
        complain("%s: %s", dir, err.text);
    return r;
}

/* --- printing --- */

/* The body as it was hashed, where it fits into a line as it is. */
static void write_body(const struct query *q, struct gb_json *j, const struct gb_audit_record *r)
{
    AUTO_JSON body = NULL;
    if (gb_json_read(r->body, r->body_bytes, &body, NULL)) {
        gb_json_bytes(j, "body_text", r->body, r->body_bytes);
        return;
    }
    if (!q->plain_json && !memchr(r->body, '\n', r->body_bytes) && !memchr(r->body, '\r', r->body_bytes)) {
        gb_json_raw(j, "body", r->body, r->body_bytes);
        return;
    }
    AUTO_FREE char *text =
            json_dumps(body, JSON_ENCODE_ANY | JSON_COMPACT | (q->plain_json ? JSON_ENSURE_ASCII : 0U));
    gb_json_raw(j, "body", text ? text : "null", strlen(text ? text : "null"));
}

static int print_json(struct query *q, const struct gb_audit_record *r, const char *before)
{
    AUTO_BUF buf = {.max = LINE_BYTES};
    struct gb_json j = {.out = &buf, .first = true};
    char when[48], hash[2 * GB_HASH_BYTES + 1];
    gb_text_time(r->time_us, when, sizeof(when));
    gb_text_hex(r->hash, GB_HASH_BYTES, hash);
    gb_json_open(&j, NULL, '{');
    gb_json_int(&j, "seq", r->seq);
    gb_json_text(&j, "time", when);
    gb_json_text(&j, "kind", gb_record_kind_name(r->kind));
    gb_json_text(&j, "id", r->id);
    gb_json_text(&j, "principal", r->principal);
    gb_json_text(&j, "hash", hash);
    write_body(q, &j, r);
    gb_json_close(&j, '}');
    if (buf.failed || gb_buf_truncated(&buf))
        return complain("record %" PRId64 " cannot be printed: out of memory", r->seq);
    printf("%s%.*s\n", before, (int)buf.len, buf.data);
    q->rows++;
    return ferror(stdout) ? EXIT_GLOVEBOX : 0; /* nobody reads on */
}

static int print_line(void *context, const struct gb_audit_record *r)
{
    return print_json(context, r, "");
}

static int print_element(void *context, const struct gb_audit_record *r)
{
    struct query *q = context;
    return print_json(q, r, q->rows ? "," : "");
}

/* A field of the body as text that cannot steer a terminal. */
static const char *field(const json_t *body, const char *name, char *buf, size_t size)
{
    const json_t *value = json_object_get(body, name);
    if (json_is_string(value))
        snprintf(buf, size, "%s", json_string_value(value));
    else if (json_is_integer(value))
        snprintf(buf, size, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    else if (json_is_real(value))
        snprintf(buf, size, "%.1f", json_real_value(value));
    else
        snprintf(buf, size, "-");
    gb_text_defuse(buf);
    return buf;
}

#define ROW "%-20s  %-26s  %-16s  %-16s  %-17s  %4s  %9s\n"

static int print_row(void *context, const struct gb_audit_record *r)
{
    struct query *q = context;
    char when[48], id[GB_ID_BYTES], principal[17], tool[17], status[18], code[8], ms[16];
    AUTO_JSON body = NULL;
    (void)gb_json_read(r->body, r->body_bytes, &body, NULL);
    gb_text_time(r->time_us, when, sizeof(when));
    snprintf(when + strlen("2026-11-15T09:30:00"), 2, "Z");
    snprintf(id, sizeof(id), "%s", r->id);
    snprintf(principal, sizeof(principal), "%s", r->principal);
    gb_text_defuse(id);
    gb_text_defuse(principal);
    if (!q->rows++)
        printf(ROW, "TIME", "ID", "PRINCIPAL", "TOOL", "STATUS", "EXIT", "MS");
    printf(ROW, when, id, principal, field(body, "tool", tool, sizeof(tool)),
           r->kind == GB_RECORD_LOST ? "lost" : field(body, "status", status, sizeof(status)),
           field(body, "exit_code", code, sizeof(code)), field(body, "execution_time_ms", ms, sizeof(ms)));
    return ferror(stdout) ? EXIT_GLOVEBOX : 0;
}

static int print_record(void *context, const struct gb_audit_record *r)
{
    struct query *q = context;
    char when[48], principal[GB_PRINCIPAL], hash[2 * GB_HASH_BYTES + 1];
    AUTO_JSON body = NULL;
    AUTO_FREE char *text = NULL;
    if (!gb_json_read(r->body, r->body_bytes, &body, NULL))
        text = json_dumps(body,
                          JSON_ENCODE_ANY | JSON_INDENT(2) | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(15));
    else
        text = strdup(r->body);
    gb_text_time(r->time_us, when, sizeof(when));
    gb_text_hex(r->hash, GB_HASH_BYTES, hash);
    snprintf(principal, sizeof(principal), "%s", r->principal);
    gb_text_defuse(principal);
    printf("%s%s  record %" PRId64 "  %s%s%s\nhash %s\n", q->rows++ ? "\n" : "", gb_record_kind_name(r->kind),
           r->seq, when, *principal ? "  by " : "", principal, hash);
    char *rest = NULL;
    for (char *line = text ? strtok_r(text, "\n", &rest) : NULL; line; line = strtok_r(NULL, "\n", &rest)) {
        gb_text_defuse(line);
        printf("  %s\n", line);
    }
    return ferror(stdout) ? EXIT_GLOVEBOX : 0;
}

/* --- what it can do --- */

static int read_rows(struct query *q, struct gb_audit *audit, const struct gb_audit_filter *filter,
                     int (*each)(void *context, const struct gb_audit_record *record))
{
    struct gb_err err = {0};
    int r = gb_audit_each(audit, filter, each, q, &err);
    if (r < 0)
        complain("%s", err.text);
    return r;
}

static int list(struct query *q, struct gb_audit *audit)
{
    const struct gb_audit_filter filter = {.principal = q->principal,
                                           .ends = true,
                                           .since_us = q->since_us,
                                           .newest = true,
                                           .most = q->limit ? q->limit : LIST_DEFAULT};
    if (q->json)
        printf("[");
    int r = read_rows(q, audit, &filter, q->json ? print_element : print_row);
    if (q->json)
        printf("]\n");
    else if (!r && !q->rows)
        printf("No calls yet%s.\n", q->given & (PRINCIPAL | SINCE) ? " that match" : "");
    const int output = finish_output();
    return r ? EXIT_GLOVEBOX : output;
}

static int show(struct query *q, struct gb_audit *audit)
{
    const struct gb_audit_filter filter = {.id = q->id};
    if (q->json)
        printf("[");
    int r = read_rows(q, audit, &filter, q->json ? print_element : print_record);
    if (q->json)
        printf("]\n");
    const int output = finish_output();
    if (r || output)
        return EXIT_GLOVEBOX;
    if (!q->rows)
        complain("there is no call %.64s in the audit; `glovebox audit list` shows what there is", q->id);
    return q->rows ? 0 : EXIT_UNSOUND;
}

static int verify(struct query *q, struct gb_audit *audit)
{
    struct gb_err err = {0};
    int64_t count = 0;
    uint8_t head[GB_HASH_BYTES] = {0};
    char hash[2 * GB_HASH_BYTES + 1];
    int r = gb_audit_verify(audit, q->given & HEAD ? q->head : NULL, &count, head, &err);
    gb_text_hex(head, GB_HASH_BYTES, hash);
    if (q->json) {
        AUTO_BUF buf = {.max = 4096};
        struct gb_json j = {.out = &buf, .first = true};
        gb_json_open(&j, NULL, '{');
        gb_json_bool(&j, "sound", r == 0);
        gb_json_int(&j, "records", count);
        gb_json_text(&j, "head", r ? "" : hash);
        gb_json_text(&j, "error", r ? err.text : "");
        gb_json_close(&j, '}');
        printf("%.*s\n", (int)buf.len, buf.data ? buf.data : "");
    } else if (r)
        complain("%s", err.text);
    else
        printf("%" PRId64 " records, chain is sound, head %s\n", count, hash);
    const int output = finish_output();
    return r == -EBADMSG ? EXIT_UNSOUND : r ? EXIT_GLOVEBOX : output;
}

static int export(struct query *q, struct gb_audit *audit)
{
    const struct gb_audit_filter filter = {.principal = q->principal, .since_us = q->since_us};
    int r = read_rows(q, audit, &filter, print_line);
    const int output = finish_output();
    return r ? EXIT_GLOVEBOX : output;
}

static const struct {
    const char *name, *argument, *help;
    unsigned takes;
    int (*run)(struct query *q, struct gb_audit *audit);
} actions[] = {
        {"list", "", "print the newest calls, one line each", DIR_ | LIMIT | PRINCIPAL | SINCE | JSON, list},
        {"show", "ID", "print everything that is recorded of one call", DIR_ | JSON, show},
        {"verify", "", "check every record and the chain that holds them together", DIR_ | HEAD | JSON,
         verify},
        {"export", "", "print all records as JSON, one in a line", DIR_ | PRINCIPAL | SINCE, export},
};

static int help(void)
{
    printf("usage: glovebox audit list|show|verify|export [options]\n\n");
    for (size_t i = 0; i < ARRAY_LEN(actions); i++)
        printf("  %-6s %-21s %s\n", actions[i].name, actions[i].argument, actions[i].help);
    printf("\n");
    options_print(options, ARRAY_LEN(options));
    printf("\nexit code: 0 fine, 1 the chain is not sound or there is no such call, 125 anything else\n");
    return finish_output();
}

static int run_action(size_t action, struct query *q)
{
    for (size_t i = 0; i < ARRAY_LEN(options); i++)
        if (q->given >> i & 1 & ~(actions[action].takes >> i))
            return complain("audit %s does not take %s", actions[action].name, options[i].name);
    if (!*actions[action].argument != !q->id)
        return complain(q->id ? "audit %s takes no argument" : "audit %s takes the ID of a call",
                        actions[action].name);
    struct gb_audit *audit = NULL;
    int r = open_audit(q, &audit);
    if (r) /* for who asks whether the chain is sound, a file that is no database is an answer */
        return r == -EBADMSG && actions[action].run == verify ? EXIT_UNSOUND : EXIT_GLOVEBOX;
    q->plain_json = isatty(STDOUT_FILENO);
    const int code = actions[action].run(q, audit);
    gb_audit_close(audit);
    return code;
}

int verb_audit(int argc, char **argv)
{
    struct query q = {.table = options};
    bool dashes;
    const char *words[2] = {NULL, NULL};
    /* Options may stand before and behind the action. */
    for (int at = 0, count = 0; at < argc; count++) {
        argv[at] = argv[0]; /* what messages call us */
        const int next = options_parse(options, ARRAY_LEN(options), argc - at, argv + at, &q, &dashes);
        if (next < 0)
            return EXIT_GLOVEBOX;
        at += next;
        if (at < argc && count == (int)ARRAY_LEN(words))
            return complain("what is '%.100s'? `glovebox audit --help` shows what it takes", argv[at]);
        if (at < argc)
            words[count] = argv[at];
    }
    if (q.help)
        return help();
    q.id = words[1];
    for (size_t i = 0; words[0] && i < ARRAY_LEN(actions); i++)
        if (!strcmp(words[0], actions[i].name)) {
            fflush(stdout);
            const int code = run_action(i, &q);
            /* Not by return: a leak checker cannot do its work in the directory that we are in now. */
            fflush(stdout);
            _exit(code);
        }
    return complain("audit takes list, show, verify or export; `glovebox audit --help` tells more");
}
