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

/* Is there the tool that the line calls, and does it take Python at once? A list of tools may have none, or
 * one of that name that is something else. */
static bool takes_python(const json_t *tools)
{
    size_t i = 0;
    json_t *tool = NULL;
    json_array_foreach(tools, i, tool) {
        const json_t *name = json_object_get(tool, "name"), *code = json_object_get(tool, "code");
        const json_t *language = json_object_get(code, "language");
        if (!json_is_string(name) || strcmp(json_string_value(name), "execute_code") != 0)
            continue;
        return code && !json_object_get(tool, "approval") && !json_object_get(tool, "parameters") &&
               (!language || strcmp(json_string_value(language), "python") == 0);
    }
    return !tools;
}

/* The line must work when it is pasted: TLS, keys and the uid rule are in it, and what there is to call. */
static void add_try(const struct gb_service *s, const struct gb_listen *l, struct gb_buf *out)
{
    const bool tls = s->config->tls_certificate && is_tcp(l);
    const bool python = takes_python(s->config->tools);
    gb_buf_puts(out, "Try:  curl -s ");
    if (is_tcp(l))
        gb_buf_printf(out, "%s%s://%s", tls ? "-k " : "", tls ? "https" : "http", l->text);
    else
        gb_buf_printf(out, "--unix-socket %s http://localhost", l->text + strlen("unix:"));
    gb_buf_puts(out, python ? "/execute -H 'content-type: application/json'" : "/v1/tools");
    if (s->config->key_count)
        gb_buf_puts(out, " -H \"authorization: Bearer $KEY\"");
    gb_buf_puts(out, python ? " -d " BODY "\n" : "\n");
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
