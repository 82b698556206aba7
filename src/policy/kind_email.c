/* Tools of the kind email. */
#include "policy/kinds.h"

#include "base/auto.h"
#include "policy/host.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

/* local@domain in plain ASCII: no quotes, no comments, no names, so that an address has one form only. */
static bool is_address(const char *text)
{
    const char *at = strchr(text, '@');
    struct gb_host host;
    if (!at || at == text || at - text > 64 || strlen(text) > 254)
        return false;
    for (const char *p = text; p < at; p++)
        if (!isalnum((unsigned char)*p) &&
            (!strchr("!#$%&'*+/=?^_`{|}~.-", *p) || (*p == '.' && (p == text || p[1] == '.' || p + 1 == at))))
            return false;
    return !strchr(at, ':') && !gb_host_parse(at + 1, strlen(at + 1), &host) && !host.is_address;
}

static int check_recipients(struct gb_build *b, const struct gb_tool *tool, const char *path)
{
    const json_t *list = json_object_get(tool->spec, "recipients");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *text = json_string_value(json_array_get(list, i));
        const char *where = gb_build_path(b, "%s.email.recipients[%zu]", path, i);
        if (!is_address(text))
            return gb_build_fail(
                    b, where, "'%.100s' is no address; it takes exactly one, such as help@example.com", text);
        for (size_t k = 0; k < i; k++)
            if (!strcasecmp(text, json_string_value(json_array_get(list, k))))
                return gb_build_fail(b, where, "it is there twice");
    }
    return 0;
}

static bool is_listed(const json_t *list, const char *text)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        if (!strcmp(json_string_value(json_array_get(list, i)), text))
            return true;
    return false;
}

/* Who is offered to the model must be one that mail can go to. */
static int check_offered(struct gb_build *b, const struct gb_tool *tool, const char *path)
{
    const json_t *recipients = json_object_get(tool->spec, "recipients");
    const json_t *property = gb_kind_property(tool->parameters, "recipient");
    const json_t *offered = json_object_get(property, "enum");
    const char *only = json_string_value(json_object_get(property, "const"));
    char where[GB_BUILD_PATH], other[300];
    snprintf(where, sizeof(where), "%s.email.recipients", path);
    gb_build_other(b, where, other, sizeof(other));
    for (size_t i = 0; i < json_array_size(offered); i++) {
        const char *text = json_string_value(json_array_get(offered, i));
        if (text && !is_listed(recipients, text))
            return gb_build_fail(b, gb_build_path(b, "%s.parameters.properties.recipient.enum[%zu]", path, i),
                                 "'%.100s' is not in %s", text, other);
    }
    if (only && !is_listed(recipients, only))
        return gb_build_fail(b, gb_build_path(b, "%s.parameters.properties.recipient.const", path),
                             "'%.100s' is not in %s", only, other);
    return 0;
}

static bool is_loopback(const struct gb_host *host)
{
    return !strcmp(host->name, "localhost") || !strcmp(host->name, "::1") ||
           (host->is_address && !strncmp(host->name, "127.", 4));
}

static int check_login(struct gb_build *b, const struct gb_tool *tool, const char *path,
                       const struct gb_host_url *server)
{
    const char *username = json_string_value(json_object_get(tool->spec, "username"));
    const char *password = json_string_value(json_object_get(tool->spec, "password"));
    const char *tls = json_string_value(json_object_get(tool->spec, "tls"));
    char where[GB_BUILD_PATH];
    snprintf(where, sizeof(where), "%s.email.%s", path, username ? "username" : "password");
    if (!username != !password)
        return gb_build_fail(b, where, "username and password come together; there is no %s",
                             username ? "password" : "username");
    if (!username)
        return 0;
    int r = gb_kind_check_text(b, tool, where, username, GB_TEXT_SECRETS | GB_TEXT_ONE_LINE);
    snprintf(where, sizeof(where), "%s.email.password", path);
    if (!r && !gb_kind_has_secret(password))
        return gb_build_fail(b, where, "put the password under `secrets`, and {secret:NAME} here");
    r = r ? r : gb_kind_check_text(b, tool, where, password, GB_TEXT_SECRETS | GB_TEXT_ONE_LINE);
    if (!r && tls && strcmp(tls, "required") != 0 && !is_loopback(&server->host))
        return gb_build_fail(
                b, gb_build_path(b, "%s.email.tls", path),
                "the password could go over the network unencrypted; write required, or use smtps://");
    return r;
}

int gb_kind_check_email(struct gb_build *b, const struct gb_tool *tool, const char *path)
{
    static const char *const arguments[] = {"recipient", "subject", "body"};
    const char *from = json_string_value(json_object_get(tool->spec, "from")), *why = NULL;
    struct gb_host_url server;
    if (gb_host_parse_url(json_string_value(json_object_get(tool->spec, "server")), &server, &why))
        return gb_build_fail(b, gb_build_path(b, "%s.email.server", path), "%s", why);
    if (!strcmp(server.scheme, "smtps") && json_object_get(tool->spec, "tls"))
        return gb_build_fail(b, gb_build_path(b, "%s.email.tls", path),
                             "smtps:// is TLS from the first byte; tls is about smtp://, leave it out");
    if (!is_address(from))
        return gb_build_fail(b, gb_build_path(b, "%s.email.from", path),
                             "'%.100s' is no address; it takes exactly one, such as agent@example.com", from);
    int r = check_recipients(b, tool, path);
    for (size_t i = 0; !r && i < ARRAY_LEN(arguments); i++)
        r = gb_kind_need_text(b, tool, path, arguments[i]);
    r = r ? r : check_offered(b, tool, path);
    return r ? r : check_login(b, tool, path, &server);
}
