/* TLS by OpenSSL, over non-blocking sockets; and the same calls for plain ones. */
#pragma once

#include "front/conn.h"

/* A server context from PEM texts. */
int tls_context(const char *certificate_pem, const char *key_pem, SSL_CTX **ret, struct gb_err *err);
int tls_begin(struct conn *c); /* 0 or -ENOMEM */
/* Bytes, 0 at the end, -EAGAIN (c->want_write says for what), or another negative errno. */
ssize_t tls_read(struct conn *c, void *data, size_t len);
ssize_t tls_write(struct conn *c, const void *data, size_t len);
/* Are there bytes inside that no event will tell of? */
bool tls_pending(const struct conn *c);
void tls_end(struct conn *c);
