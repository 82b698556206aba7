/* tool_email: one mail to one listed recipient. The text goes out as base64, so that nothing in it can be
 * taken for SMTP or for a header. */
#include "broker/tool.h"

#include "base/auto.h"
#include "base/clock.h"
#include "base/text.h"
#include "broker/dial.h"
#include "broker/fill.h"
#include "wire/id.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#define SUBJECT_MOST 255
#define MAIL_BYTES   100000
#define LINE         57 /* bytes that make 76 characters */
#define CONNECT_MS   15000L

struct email {
    struct tool_call *call;
    const json_t *spec;
    const char *recipient, *subject, *body;
    size_t body_len;
    struct gb_host_url server;
    char message_id[128];
    struct gb_buf mail;
    size_t sent;
    CURL *curl;
    struct dial dial;
    struct curl_slist *to;
};

/* --- what is asked --- */

static int deny(struct email *e, enum gb_denial_code code, const char *hint, const char *reason)
{
    gb_denial_add(e->call->denials, &e->call->denial_count, code, hint, "%s", reason);
    return -EINVAL;
}

/* A text without NUL; NULL if it is none. */
static const char *argument(const struct email *e, const char *name, size_t *ret_len)
{
    const json_t *value = json_object_get(e->call->arguments, name);
    const char *text = json_string_value(value);
    *ret_len = json_string_length(value);
    return text && strlen(text) == *ret_len ? text : NULL;
}

/* Byte for byte: what only looks like a listed address, or has more behind it, is another. */
static bool is_listed(const struct email *e)
{
    const json_t *list = json_object_get(e->spec, "recipients");
    for (size_t i = 0; i < json_array_size(list); i++)
        if (!strcmp(json_string_value(json_array_get(list, i)), e->recipient))
            return true;
    return false;
}

static void list_recipients(const struct email *e, char *hint, size_t size)
{
    const json_t *list = json_object_get(e->spec, "recipients");
    snprintf(hint, size, "send only to: ");
    for (size_t i = 0; i < json_array_size(list); i++)
        snprintf(hint + strlen(hint), size - strlen(hint), "%s%s", i ? ", " : "",
                 json_string_value(json_array_get(list, i)));
}

/* Line and paragraph separators (U+0085, 2028, 2029), and what turns the direction of writing (200E, 200F,
 * 202A to 202E, 2066 to 2069). */
static bool is_hidden(const unsigned char *p)
{
    if (p[0] == 0xc2)
        return p[1] == 0x85;
    if (p[0] != 0xe2)
        return false;
    return p[1] == 0x80 ? p[2] == 0x8e || p[2] == 0x8f || (p[2] >= 0xa8 && p[2] <= 0xae)
                        : p[1] == 0x81 && p[2] >= 0xa6 && p[2] <= 0xa9;
}

/* One line that every reader shows as it is. */
static bool is_line(const char *text)
{
    for (const unsigned char *p = (const unsigned char *)text; *p; p++)
        if (*p < ' ' || *p == 0x7f || is_hidden(p))
            return false;
    return true;
}

static int check(struct email *e)
{
    size_t recipient, subject;
    char hint[256];
    const json_t *most = json_object_get(e->spec, "max_bytes");
    const size_t bytes = most ? (size_t)json_integer_value(most) : MAIL_BYTES;
    e->recipient = argument(e, "recipient", &recipient);
    e->subject = argument(e, "subject", &subject);
    e->body = argument(e, "body", &e->body_len);
    if (!e->recipient || !e->subject || !e->body)
        return deny(e, GB_DENIAL_ARGUMENTS, NULL, "recipient, subject and body must be texts without NUL");
    list_recipients(e, hint, sizeof(hint));
    if (!is_listed(e))
        return deny(e, GB_DENIAL_RECIPIENT, hint, "arguments.recipient: is not one of the listed recipients");
    if (!is_line(e->subject) || subject > SUBJECT_MOST)
        return deny(e, GB_DENIAL_MAIL, NULL,
                    "arguments.subject: must be one line of up to 255 bytes, without control or direction "
                    "characters");
    if (subject + e->body_len > bytes)
        return deny(e, GB_DENIAL_MAIL, "send less", "arguments.body: is longer than the tool's max_bytes");
    return 0;
}

/* --- the mail --- */

static void add_base64(struct gb_buf *out, const char *data, size_t len)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < len; i += 3) {
        const size_t n = len - i < 3 ? len - i : 3;
        const unsigned v = (unsigned)(unsigned char)data[i] << 16 |
                           (n > 1 ? (unsigned)(unsigned char)data[i + 1] << 8 : 0) |
                           (n > 2 ? (unsigned char)data[i + 2] : 0);
        char four[4] = {digits[v >> 18], digits[v >> 12 & 63], '=', '='};
        if (n > 1)
            four[2] = digits[v >> 6 & 63];
        if (n > 2)
            four[3] = digits[v & 63];
        gb_buf_add(out, four, sizeof(four));
    }
}

/* RFC 2047: words of whole characters, each short enough for a line. */
static void add_subject(struct gb_buf *out, const char *subject)
{
    const size_t len = strlen(subject);
    for (size_t at = 0; at < len || !at;) {
        size_t n = 0;
        while (at + n < len) {
            const size_t character = gb_text_utf8_len(subject + at + n, len - at - n);
            if (n + character > 42 || !character)
                break;
            n += character;
        }
        gb_buf_puts(out, at ? "\r\n =?UTF-8?B?" : "=?UTF-8?B?");
        add_base64(out, subject + at, n);
        gb_buf_puts(out, "?=");
        if (!n)
            break;
        at += n;
    }
}

/* As mail has its line ends: CR LF, whatever came. */
static void add_body(struct gb_buf *out, const char *body, size_t len)
{
    AUTO_BUF text = {.max = 2 * len + 2};
    for (size_t i = 0; i < len; i++) {
        if (body[i] == '\r' && i + 1 < len && body[i + 1] == '\n')
            continue;
        if (body[i] == '\n' || body[i] == '\r')
            gb_buf_puts(&text, "\r\n");
        else
            gb_buf_add(&text, body + i, 1);
    }
    for (size_t i = 0; i < text.len; i += LINE) {
        add_base64(out, text.data + i, text.len - i < LINE ? text.len - i : LINE);
        gb_buf_puts(out, "\r\n");
    }
    out->failed |= text.failed;
}

static int build(struct email *e)
{
    const char *from = json_string_value(json_object_get(e->spec, "from")), *at = strrchr(from, '@');
    char id[GB_ID_CHARS + 1], date[64];
    struct tm tm;
    const time_t now = time(NULL);
    gb_id_new(id);
    snprintf(e->message_id, sizeof(e->message_id), "<%s@%.80s>", id, at ? at + 1 : "localhost");
    gmtime_r(&now, &tm);
    strftime(date, sizeof(date), "%a, %d %b %Y %H:%M:%S +0000", &tm); /* in the C locale: no other is set */
    e->mail.max = 4 * (e->body_len + 4096);
    gb_buf_printf(&e->mail, "Date: %s\r\nFrom: <%s>\r\nTo: <%s>\r\nMessage-ID: %s\r\nSubject: ", date, from,
                  e->recipient, e->message_id);
    add_subject(&e->mail, e->subject);
    gb_buf_puts(&e->mail, "\r\nMIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\n"
                          "Content-Transfer-Encoding: base64\r\nAuto-Submitted: auto-generated\r\n\r\n");
    add_body(&e->mail, e->body, e->body_len);
    return e->mail.failed || gb_buf_truncated(&e->mail) ? -ENOMEM : 0;
}

/* --- sending --- */

static size_t give(char *data, size_t size, size_t count, void *context)
{
    struct email *e = context;
    const size_t left = e->mail.len - e->sent, n = size * count < left ? size * count : left;
    memcpy(data, e->mail.data + e->sent, n);
    e->sent += n;
    return n;
}

/* curl's own time does not count while it waits for the answer to QUIT, after a failure. This does. */
static int is_late(void *context, curl_off_t down_total, curl_off_t down, curl_off_t up_total, curl_off_t up)
{
    const struct email *e = context;
    (void)down_total, (void)down, (void)up_total, (void)up;
    return gb_clock_us() >= e->call->deadline_us;
}

/* A password goes over TLS, or to this very host, or not at all. */
static long tls_level(const struct email *e)
{
    const char *tls = json_string_value(json_object_get(e->spec, "tls"));
    const bool password = json_object_get(e->spec, "password") != NULL;
    const bool here = !strcmp(e->server.host.name, "127.0.0.1") || !strcmp(e->server.host.name, "::1") ||
                      !strcmp(e->server.host.name, "localhost");
    if (!tls || !strcmp(tls, "required") || (password && !here))
        return CURLUSESSL_ALL;
    return !strcmp(tls, "try") ? CURLUSESSL_TRY : CURLUSESSL_NONE;
}

static int set_login(struct email *e)
{
    static const struct {
        const char *member;
        CURLoption option;
    } rows[] = {{"username", CURLOPT_USERNAME}, {"password", CURLOPT_PASSWORD}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const json_t *text = json_object_get(e->spec, rows[i].member);
        AUTO_BUF filled = {.max = 65536};
        if (!text)
            continue;
        int r = fill_text(e->call, json_string_value(text), FILL_TEXT, &filled, NULL, NULL);
        if (!r && curl_easy_setopt(e->curl, rows[i].option, filled.data ? filled.data : ""))
            r = -ENOMEM;
        if (filled.data)
            explicit_bzero(filled.data, filled.size);
        if (r)
            return r;
    }
    return 0;
}

static int set_options(struct email *e)
{
    const char *server = json_string_value(json_object_get(e->spec, "server"));
    const char *from = json_string_value(json_object_get(e->spec, "from"));
    const int64_t left_ms = (e->call->deadline_us - gb_clock_us()) / 1000;
    CURL *c = e->curl;
    char sender[300], recipient[300];
    snprintf(sender, sizeof(sender), "<%s>", from);
    snprintf(recipient, sizeof(recipient), "<%s>", e->recipient);
    e->to = curl_slist_append(NULL, recipient);
    const bool good =
            e->to && !curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "smtp,smtps") &&
            !curl_easy_setopt(c, CURLOPT_PROXY, "") && !curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L) &&
            !curl_easy_setopt(c, CURLOPT_URL, server) &&
            !curl_easy_setopt(c, CURLOPT_USE_SSL, tls_level(e)) &&
            !curl_easy_setopt(c, CURLOPT_MAIL_FROM, sender) &&
            !curl_easy_setopt(c, CURLOPT_MAIL_RCPT, e->to) && !curl_easy_setopt(c, CURLOPT_UPLOAD, 1L) &&
            !curl_easy_setopt(c, CURLOPT_READFUNCTION, give) && !curl_easy_setopt(c, CURLOPT_READDATA, e) &&
            !curl_easy_setopt(c, CURLOPT_NOPROGRESS, 0L) &&
            !curl_easy_setopt(c, CURLOPT_XFERINFOFUNCTION, is_late) &&
            !curl_easy_setopt(c, CURLOPT_XFERINFODATA, e) &&
            !curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS) &&
            !curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, left_ms > 0 ? (long)left_ms : 1L);
    return good ? set_login(e) : -ENOMEM;
}

static int transmit(struct email *e)
{
    long status = 0;
    CURLcode code = curl_easy_perform(e->curl);
    if (code == CURLE_ABORTED_BY_CALLBACK) /* is_late */
        code = CURLE_OPERATION_TIMEDOUT;
    curl_easy_getinfo(e->curl, CURLINFO_RESPONSE_CODE, &status);
    if (code == CURLE_OK) {
        e->call->result = json_pack("{s:s, s:s, s:s}", "status", "sent", "recipient", e->recipient,
                                    "message_id", e->message_id);
        return e->call->result ? 0 : -ENOMEM;
    }
    if (status >= 400)
        return dial_failed(e->call, "the mail server refused the mail with %ld", status);
    if (e->sent == e->mail.len) /* all of it was on its way, and nobody has said yes or no */
        return dial_failed(e->call, "the mail may have been sent: the server did not confirm it (%s)",
                           curl_easy_strerror(code));
    return dial_failed(e->call, "the mail was not sent: %s", curl_easy_strerror(code));
}

static int run(struct email *e, struct gb_err *err)
{
    const char *why;
    int r = check(e);
    if (!r && gb_host_parse_url(json_string_value(json_object_get(e->spec, "server")), &e->server, &why))
        r = -EINVAL;
    r = r ? r : build(e);
    e->curl = r || curl_global_init(CURL_GLOBAL_DEFAULT) ? NULL : curl_easy_init();
    if (!r && !e->curl)
        r = -ENOMEM;
    /* The operator names the server by writing it down; most are at private addresses. */
    r = r ? r : dial_prepare(&e->dial, e->curl, &e->server.host, true, e->call, err);
    if (r == -ENOENT)
        return 0;
    r = r ? r : set_options(e);
    return r ? r : transmit(e);
}

/* curl says QUIT, and would wait two minutes for the answer, whatever the mail's deadline was. What there is
 * to say has been said: nothing more is read. */
static void hang_up(const struct email *e)
{
    curl_socket_t fd = CURL_SOCKET_BAD;
    if (e->curl && !curl_easy_getinfo(e->curl, CURLINFO_ACTIVESOCKET, &fd) && fd != CURL_SOCKET_BAD)
        (void)shutdown(fd, SHUT_RD);
    curl_easy_cleanup(e->curl);
}

int tool_email(struct tool_call *call, struct gb_err *err)
{
    struct email e = {.call = call, .spec = call->tool->spec};
    int r = run(&e, err);
    hang_up(&e);
    dial_done(&e.dial);
    curl_slist_free_all(e.to);
    gb_buf_done(&e.mail);
    if (r && call->denial_count)
        return 0; /* refused: that is an answer */
    return r && err->code == GB_ERR_NONE ? gb_err_set(err, GB_ERR_INTERNAL, -r, "send the mail") : r;
}
