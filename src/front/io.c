#include "front/io.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <sys/socket.h>
#include <unistd.h>

static int failed(struct gb_err *err, const char *what)
{
    const unsigned long code = ERR_get_error();
    const char *reason = ERR_reason_error_string(code);
    ERR_clear_error();
    return gb_err_set(err, GB_ERR_CONFIG, 0, "%s: %s", what, reason ? reason : "unknown");
}

/* The first certificate is ours, those behind it are the chain. */
static int use_certificates(SSL_CTX *ctx, const char *pem, struct gb_err *err)
{
    BIO *bio = BIO_new_mem_buf(pem, -1);
    X509 *cert = bio ? PEM_read_bio_X509_AUX(bio, NULL, NULL, NULL) : NULL;
    int r = cert && SSL_CTX_use_certificate(ctx, cert) == 1 ? 0 : failed(err, "tls.certificate");
    X509_free(cert);
    for (X509 *more; !r && (more = PEM_read_bio_X509(bio, NULL, NULL, NULL));)
        if (SSL_CTX_add0_chain_cert(ctx, more) != 1) {
            X509_free(more);
            r = failed(err, "tls.certificate: the chain");
        }
    ERR_clear_error(); /* the end of the file is told as an error */
    BIO_free(bio);
    return r;
}

static int use_key(SSL_CTX *ctx, const char *pem, struct gb_err *err)
{
    BIO *bio = BIO_new_mem_buf(pem, -1);
    EVP_PKEY *key = bio ? PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL) : NULL;
    int r = key && SSL_CTX_use_PrivateKey(ctx, key) == 1 && SSL_CTX_check_private_key(ctx) == 1
                    ? 0
                    : failed(err, "tls.key");
    EVP_PKEY_free(key);
    BIO_free(bio);
    return r;
}

/* HTTP/1.1 is all we speak; a client that offers something else only is told at once. */
static int select_protocol(SSL *ssl, const unsigned char **out, unsigned char *out_len,
                           const unsigned char *in, unsigned in_len, void *context)
{
    (void)ssl;
    (void)context;
    static const unsigned char ours[] = "\x08http/1.1";
    unsigned char *choice = NULL;
    if (SSL_select_next_proto(&choice, out_len, ours, sizeof(ours) - 1, in, in_len) != OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *out = choice;
    return SSL_TLSEXT_ERR_OK;
}

int io_tls_context(const char *certificate_pem, const char *key_pem, SSL_CTX **ret, struct gb_err *err)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
    if (!ctx)
        return failed(err, "prepare TLS");
    SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION);
    SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_NO_TICKET |
                                     SSL_OP_IGNORE_UNEXPECTED_EOF);
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                  SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_alpn_select_cb(ctx, select_protocol, NULL);
    int r = use_certificates(ctx, certificate_pem, err);
    if (!r)
        r = use_key(ctx, key_pem, err);
    if (r) {
        SSL_CTX_free(ctx);
        return r;
    }
    *ret = ctx;
    return 0;
}

int io_begin(struct conn *c)
{
    if (!c->policy->tls || c->listener->is_unix)
        return 0;
    c->tls = SSL_new(c->policy->tls);
    if (!c->tls || SSL_set_fd(c->tls, c->source.fd) != 1)
        return -ENOMEM;
    SSL_set_accept_state(c->tls);
    return 0;
}

static ssize_t outcome(struct conn *c, int n)
{
    c->want_write = false;
    if (n > 0)
        return n;
    const int error = SSL_get_error(c->tls, n);
    ERR_clear_error();
    if (error == SSL_ERROR_ZERO_RETURN)
        return 0;
    if (error == SSL_ERROR_WANT_READ)
        return -EAGAIN;
    if (error == SSL_ERROR_WANT_WRITE) {
        c->want_write = true;
        return -EAGAIN;
    }
    return -ECONNRESET;
}

ssize_t io_read(struct conn *c, void *data, size_t len)
{
    if (c->tls)
        return outcome(c, SSL_read(c->tls, data, len > INT32_MAX ? INT32_MAX : (int)len));
    ssize_t n;
    do
        n = recv(c->source.fd, data, len, 0);
    while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : n;
}

ssize_t io_write(struct conn *c, const void *data, size_t len)
{
    if (c->tls) {
        ssize_t n = outcome(c, SSL_write(c->tls, data, len > INT32_MAX ? INT32_MAX : (int)len));
        return n == 0 ? -ECONNRESET : n;
    }
    ssize_t n;
    do
        n = send(c->source.fd, data, len, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : n;
}

bool io_pending(const struct conn *c)
{
    return c->tls && SSL_pending(c->tls) > 0;
}

void io_end(struct conn *c)
{
    if (c->tls) {
        SSL_shutdown(c->tls); /* tells the client that nothing was cut off; we do not wait for the answer */
        ERR_clear_error();
        SSL_free(c->tls);
        c->tls = NULL;
    }
}
