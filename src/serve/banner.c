/* The first words: where the service is, and a line to try it with. */
#include "serve/service.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define BODY "'{\"tool_name\":\"execute_code\",\"code\":\"print(2 + 2)\"}'"

static bool is_tcp(const struct gb_listen *l)
{
    return l->address.addr.ss_family != AF_UNIX;
}

/* The line must work when it is pasted: TLS, keys and the uid rule are in it. */
static void add_try(const struct gb_service *s, const struct gb_listen *l, struct gb_buf *out)
{
    const bool tls = s->config->tls_certificate && is_tcp(l);
    gb_buf_puts(out, "Try:  curl -s ");
    if (is_tcp(l))
        gb_buf_printf(out, "%s%s://%s", tls ? "-k " : "", tls ? "https" : "http", l->text);
    else
        gb_buf_printf(out, "--unix-socket %s http://localhost", l->text + strlen("unix:"));
    gb_buf_puts(out, "/execute -H 'content-type: application/json' ");
    if (s->config->key_count)
        gb_buf_puts(out, "-H \"authorization: Bearer $KEY\" ");
    gb_buf_puts(out, "-d " BODY "\n");
    if (s->config->key_count)
        gb_buf_printf(out, "      with a key of the configuration in $KEY\n");
    else if (geteuid() == 0)
        gb_buf_puts(out,
                    "      as root: without keys, only root and the user that runs the service are served\n");
}

void gb_banner_write(const struct gb_service *s, struct gb_buf *out)
{
    gb_buf_puts(out, "Glovebox " GB_VERSION " is listening on ");
    for (size_t i = 0; i < s->listen_count; i++) {
        const struct gb_listen *l = &s->listen[i];
        gb_buf_printf(out, "%s%s%s",
                      i == 0                    ? ""
                      : i + 1 < s->listen_count ? ", "
                                                : " and ",
                      !is_tcp(l)                   ? ""
                      : s->config->tls_certificate ? "https://"
                                                   : "http://",
                      l->text);
    }
    gb_buf_puts(out, "\n");
    const struct gb_listen *best = &s->listen[0];
    for (size_t i = 0; i < s->listen_count; i++)
        if (is_tcp(&s->listen[i]) && !is_tcp(best))
            best = &s->listen[i];
    add_try(s, best, out);
}
