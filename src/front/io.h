/* Bytes from and to a client: over its socket as it is, or by TLS (OpenSSL). */
#pragma once

#include "front/conn.h"

/* A server context from PEM texts. */
int io_tls_context(const char *certificate_pem, const char *key_pem, SSL_CTX **ret, struct gb_err *err);
int io_begin(struct conn *c); /* 0 or -ENOMEM */
/* Bytes, 0 at the end, -EAGAIN (c->want_write says for what), or another negative errno. */
ssize_t io_read(struct conn *c, void *data, size_t len);
ssize_t io_write(struct conn *c, const void *data, size_t len);
/* Are there bytes inside that no event will tell of? */
bool io_pending(const struct conn *c);
void io_end(struct conn *c);
