/* Verbs that ask a running service: one request over HTTP/1.1, to its unix socket or to loopback. */
#pragma once

#include "cli/cli.h"

#include "base/buf.h"
#include "json/json.h"

/* What every such verb takes. First member of the context of its options. */
struct client {
    const char *url;      /* unix:/path, or http://127.0.0.1:8640; NULL: $GLOVEBOX_URL, else as configured */
    const char *key_file; /* NULL: $GLOVEBOX_KEY, else none */
    bool json, help;
};

/* For the rows of --url, --key-file, --json, --help and -h. */
int client_option(void *context, const struct option_row *row, const char *value);

struct client_reply {
    int status;
    json_t *json; /* NULL: the body is not JSON */
    struct gb_buf body;
};
void client_done(struct client_reply *reply);

/* 0, or EXIT_GLOVEBOX after a message: nobody is there, or what came is no reply. body: JSON, or NULL. */
int client_ask(const struct client *c, const char *method, const char *path, const char *body,
               struct client_reply *ret);
/* Says what the service has against it, if it has: 0, or EXIT_GLOVEBOX after a message. */
int client_refused(const struct client_reply *reply);

/* The body as it came; for a terminal, without characters that could steer it. */
int client_print_json(const struct client_reply *reply);
/* A text from the service, for a terminal or a table: a copy in buf, cut to fit, that steers nothing. */
const char *client_text(const json_t *object, const char *name, char *buf, size_t size);
/* A value as lines of JSON in ASCII. */
void client_print_value(const json_t *value);
