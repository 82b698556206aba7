/* Replies as bytes: into the buffer of the connection, which writes them as the client takes them. Whoever
 * makes a reply outside of the connection's own handlers calls conn_advance afterwards. */
#pragma once

#include "front/conn.h"

/* A whole reply. `headers` is "" or lines that end with CRLF. */
void send_reply(struct conn *c, int status, const char *type, const char *headers, const char *body,
                size_t len);
/* A reply in pieces. */
void send_stream_start(struct conn *c, const char *type);
void send_stream_add(struct conn *c, const char *data, size_t len);
void send_stream_end(struct conn *c);
