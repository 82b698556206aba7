#include "cli/client.h"

#include "base/auto.h"
#include "base/text.h"
#include "config/config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#define REPLY_MOST ((size_t)300 << 20)
#define KEY_MOST   512
#define PORT       "8640"

int client_option(void *context, const struct option_row *row, const char *value)
{
    struct client *c = context;
    if (!strcmp(row->name, "--url"))
        c->url = value;
    else if (!strcmp(row->name, "--key-file"))
        c->key_file = value;
    else
        *(strcmp(row->name, "--json") ? &c->help : &c->json) = true;
    return 0;
}

void client_done(struct client_reply *reply)
{
    json_decref(TAKE_PTR(reply->json));
    gb_buf_done(&reply->body);
}

/* --- where it is --- */

/* The service's own socket before its port: no key can be overheard there, nor another program take its
 * place. */
static int configured(char *buf, size_t size)
{
    struct gb_err err = {0};
    AUTO_CONFIG config = NULL;
    const char *found = NULL;
    if (gb_config_load(NULL, NULL, 0, &config, &err))
        return complain("%s; or say where the service is: --url unix:/path/glovebox.sock", err.text);
    for (size_t i = 0; i < config->listen_count; i++)
        if (!found || (!strncmp(config->listen[i], "unix:", 5) && strncmp(found, "unix:", 5) != 0))
            found = config->listen[i];
    if (!found)
        return complain("the configuration names no address; say where the service is: --url URL");
    if (config->tls_certificate && strncmp(found, "unix:", 5) != 0)
        return complain(
                "the service speaks TLS, which this command does not: let it listen on a unix socket, too");
    snprintf(buf, size, "%s%s", strncmp(found, "unix:", 5) ? "http://" : "", found);
    return 0;
}

/* "http://localhost/" means 127.0.0.1:8640: names are not looked up, so no resolver decides who gets the key.
 */
static int parse_http(const char *url, bool has_key, struct gb_config_address *ret)
{
    char text[256];
    struct gb_err err = {0};
    const size_t len = strcspn(url, "/");
    const char *local = !strncasecmp(url, "localhost", 9) ? url + 9 : NULL;
    if (url[len] && url[len + 1])
        return complain("--url takes no path: http://127.0.0.1:" PORT);
    if (local && *local != ':' && *local != '/' && *local)
        local = NULL;
    snprintf(text, sizeof(text), "%s%.*s", local ? "127.0.0.1" : "", (int)(local ? len - 9 : len),
             local ? local : url);
    const char *port = strrchr(text, ':');
    if (!port || strchr(port, ']'))
        snprintf(text + strlen(text), sizeof(text) - strlen(text), ":" PORT);
    if (gb_config_parse_address(text, ret, &err))
        return complain("--url %.100s: %s", url, err.text);
    if (!ret->loopback && has_key)
        return complain("--url %.100s: a key is not sent to another host without TLS", url);
    return 0;
}

static int parse_unix(const char *path, struct gb_config_address *ret)
{
    struct sockaddr_un *sun = (struct sockaddr_un *)(void *)&ret->addr;
    *ret = (struct gb_config_address){.loopback = true, .len = sizeof(*sun)};
    sun->sun_family = AF_UNIX;
    if (*path != '/' || strlen(path) >= sizeof(sun->sun_path))
        return complain("--url unix:%.120s: must be an absolute path of at most %zu bytes", path,
                        sizeof(sun->sun_path) - 1);
    snprintf(sun->sun_path, sizeof(sun->sun_path), "%s", path);
    return 0;
}

/* A descriptor, or -1 after a message. */
static int connect_to(const struct client *c, bool has_key)
{
    char buf[256] = "";
    const char *url = c->url ? c->url : getenv("GLOVEBOX_URL");
    struct gb_config_address to = {0};
    if (!url && configured(buf, sizeof(buf)))
        return -1;
    url = url ? url : buf;
    const bool http = !strncmp(url, "http://", 7), is_unix = !strncmp(url, "unix:", 5);
    if (!http && !is_unix && *url != '/') {
        complain("--url takes unix:/path or http://127.0.0.1:" PORT ", not '%.100s'", url);
        return -1;
    }
    if (http ? parse_http(url + 7, has_key, &to) : parse_unix(url + (is_unix ? 5 : 0), &to))
        return -1;
    AUTO_FD fd = socket(to.addr.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&to.addr, to.len)) {
        complain("cannot reach the service at %.200s: %s; `glovebox serve` starts one", url, strerror(errno));
        return -1;
    }
    return TAKE_FD(fd);
}

/* --- the key --- */

static int read_key(const struct client *c, char ret[KEY_MOST + 1])
{
    const char *value = getenv("GLOVEBOX_KEY");
    struct stat st;
    *ret = '\0';
    if (c->key_file) {
        AUTO_FD fd = open(c->key_file, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 || fstat(fd, &st) ? -1 : read(fd, ret, KEY_MOST);
        if (n < 0)
            return complain("--key-file %.200s: %s", c->key_file, strerror(errno));
        if (S_ISREG(st.st_mode) && st.st_mode & 077)
            return complain("--key-file %.200s: others can read it; chmod 600 it", c->key_file);
        ret[n] = '\0';
        ret[strcspn(ret, "\r\n")] = '\0';
    } else if (value) {
        snprintf(ret, KEY_MOST + 1, "%s", value);
    }
    for (const char *p = ret; *p; p++)
        if (*p <= 0x20 || *p >= 0x7f)
            return complain("the key must be visible ASCII characters only");
    if (c->key_file && !*ret)
        return complain("--key-file %.200s: is empty", c->key_file);
    return 0;
}

/* --- the exchange --- */

static int send_all(int fd, const struct gb_buf *text)
{
    for (size_t at = 0; at < text->len;) {
        ssize_t n = send(fd, text->data + at, text->len - at, MSG_NOSIGNAL);
        if (n < 0 && errno != EINTR)
            return -errno;
        at += n > 0 ? (size_t)n : 0;
    }
    return 0;
}

/* Up to its end: we asked for one reply and nothing behind it. */
static int receive_all(int fd, struct gb_buf *ret)
{
    char chunk[65536];
    ssize_t n;
    while ((n = recv(fd, chunk, sizeof(chunk), 0)) != 0) {
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (gb_buf_add(ret, chunk, (size_t)n) != (size_t)n)
            return -EMSGSIZE;
    }
    return gb_buf_add(ret, "", 1) == 1 ? 0 : -EMSGSIZE; /* text from here on */
}

/* The value of a header, up to the end of its line; NULL if it is not there. */
static const char *header(const char *head, const char *name)
{
    const size_t len = strlen(name);
    for (const char *line = strstr(head, "\r\n"); line && line[2] != '\r'; line = strstr(line + 2, "\r\n"))
        if (!strncasecmp(line + 2, name, len) && line[2 + len] == ':')
            return line + 3 + len + strspn(line + 3 + len, " \t");
    return NULL;
}

/* Chunks, as a proxy on the way may make them. In place; -EPROTO if they are none. */
static ssize_t join_chunks(char *data, size_t len)
{
    size_t in = 0, out = 0;
    for (;;) {
        uint64_t size = 0;
        size_t digits = strspn(data + in, "0123456789abcdefABCDEF");
        const char *end = memchr(data + in, '\n', len - in);
        if (!digits || digits > 8 || !end)
            return -EPROTO;
        for (size_t i = 0; i < digits; i++) {
            const int c = data[in + i] | 0x20;
            size = size * 16 + (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
        }
        in = (size_t)(end - data) + 1;
        if (!size)
            return (ssize_t)out;
        if (size + 2 > len - in)
            return -EPROTO;
        memmove(data + out, data + in, size);
        out += size;
        in += size + 2;
    }
}

/* Splits head and body; what was cut off on the way is no reply. */
static int read_reply(struct gb_buf *raw, struct client_reply *ret)
{
    const char *end = strstr(raw->data, "\r\n\r\n");
    int status = 0;
    if (!end || sscanf(raw->data, "HTTP/1.%*1[01] %3d", &status) != 1 || status < 200)
        return -EPROTO;
    const size_t head = (size_t)(end - raw->data) + 4;
    char *body = raw->data + head;
    ssize_t len = (ssize_t)(raw->len - 1 - head);
    raw->data[head - 2] = '\0';
    const char *length = header(raw->data, "Content-Length"),
               *coding = header(raw->data, "Transfer-Encoding");
    char number[24] = "";
    int64_t told = len;
    if (length)
        snprintf(number, sizeof(number), "%.*s", (int)strcspn(length, "\r\n "), length);
    if (coding)
        len = strncasecmp(coding, "chunked", 7) ? -EPROTO : join_chunks(body, (size_t)len);
    else if (length && (gb_text_parse_decimal(number, 0, &told) || told != len))
        len = -EPROTO;
    if (len < 0)
        return -EPROTO;
    ret->status = status;
    ret->body.max = (size_t)len + 1;
    gb_buf_add(&ret->body, body, (size_t)len);
    gb_buf_add(&ret->body, "", 1);
    ret->body.len -= ret->body.len > 0;
    (void)gb_json_read(body, (size_t)len, &ret->json, NULL);
    return ret->body.failed ? -ENOMEM : 0;
}

static int exchange(int fd, const struct gb_buf *request, struct client_reply *ret)
{
    AUTO_BUF raw = {.max = REPLY_MOST};
    int r = send_all(fd, request);
    int s = receive_all(fd, &raw); /* a refusal may have come before we said all */
    if (!s && raw.len > 1)
        r = read_reply(&raw, ret);
    else if (!r)
        r = s ? s : -ECONNRESET;
    return r;
}

int client_ask(const struct client *c, const char *method, const char *path, const char *body,
               struct client_reply *ret)
{
    char key[KEY_MOST + 1];
    AUTO_BUF text = {.max = REPLY_MOST};
    *ret = (struct client_reply){0};
    if (read_key(c, key))
        return EXIT_GLOVEBOX;
    AUTO_FD fd = connect_to(c, *key);
    if (fd < 0)
        return EXIT_GLOVEBOX;
    gb_buf_printf(&text,
                  "%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAccept: application/json\r\n",
                  method, path);
    if (*key)
        gb_buf_printf(&text, "Authorization: Bearer %s\r\n", key);
    if (body)
        gb_buf_printf(&text, "Content-Type: application/json\r\nContent-Length: %zu\r\n", strlen(body));
    gb_buf_puts(&text, "\r\n");
    gb_buf_puts(&text, body ? body : "");
    int r = text.failed || gb_buf_truncated(&text) ? -ENOMEM : exchange(fd, &text, ret);
    explicit_bzero(key, sizeof(key));
    if (text.data)
        explicit_bzero(text.data, text.len);
    if (!r)
        return 0;
    client_done(ret);
    return complain(r == -EPROTO ? "what answered is no Glovebox service: %s"
                                 : "the service did not answer: %s",
                    r == -EPROTO ? "its reply is not HTTP, or was cut off" : strerror(-r));
}

int client_refused(const struct client_reply *reply)
{
    char code[64], detail[600];
    if (reply->status < 300 && reply->json)
        return 0;
    client_text(reply->json, "code", code, sizeof(code));
    client_text(reply->json, "detail", detail, sizeof(detail));
    return reply->json ? complain("%s (%s)", detail, code)
                       : complain("the service answered with status %d and no JSON", reply->status);
}

/* --- printing --- */

int client_print_json(const struct client_reply *reply)
{
    AUTO_FREE char *text =
            isatty(STDOUT_FILENO)
                    ? json_dumps(reply->json, JSON_INDENT(2) | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(15))
                    : NULL;
    const char *out = text ? text : reply->body.data ? reply->body.data : "";
    const size_t len = strlen(out);
    fputs(out, stdout);
    if (!len || out[len - 1] != '\n')
        putchar('\n');
    return finish_output();
}

const char *client_text(const json_t *object, const char *name, char *buf, size_t size)
{
    const json_t *value = json_object_get(object, name);
    const char *text = json_string_value(value);
    snprintf(buf, size, "%s", text ? text : "-");
    gb_text_defuse(buf);
    return buf;
}

void client_print_value(const json_t *value)
{
    AUTO_FREE char *text =
            json_dumps(value, JSON_ENCODE_ANY | JSON_INDENT(2) | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(15));
    printf("%s\n", text ? text : "null");
}
