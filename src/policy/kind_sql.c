/* Tools of the kind sql. */
#include "policy/kinds.h"

#include "base/auto.h"
#include "policy/template.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

static bool begins_with(const char *text, const char *word)
{
    const size_t len = strlen(word);
    return !strncasecmp(text, word, len) && !isalnum((unsigned char)text[len]) && text[len] != '_';
}

static bool is_any(const char *text, const char *const *words)
{
    while (*words && !begins_with(text, *words))
        words++;
    return *words != NULL;
}

static int check_tables(struct gb_build *b, const json_t *spec, const char *path)
{
    const char *name, *other;
    json_t *unused;
    json_object_foreach((json_t *)json_object_get(spec, "tables"), name, unused) {
        const char *where = gb_build_path(b, "%s.sql.tables.%s", path, name);
        json_t *unused_too;
        if (!strncasecmp(name, "sqlite_", 7) || !strncasecmp(name, "pg_", 3) ||
            !strcasecmp(name, "information_schema"))
            return gb_build_fail(b, where,
                                 "this is a table of the database system itself, which nobody may read");
        json_object_foreach((json_t *)json_object_get(spec, "tables"), other, unused_too)
            if (other != name && strcmp(other, name) < 0 && !strcasecmp(other, name))
                return gb_build_fail(b, where, "it is there as '%s', too; databases do not tell them apart",
                                     other);
    }
    return 0;
}

/* A connection string would be shown by `glovebox config show`, and a password in it as well. */
static int check_connection(struct gb_build *b, const struct gb_tool *tool, const char *text,
                            const char *path)
{
    const char *where = gb_build_path(b, "%s.sql.postgresql", path);
    static const char advice[] = "put the password under `secrets`, and {secret:NAME} here";
    char kept[GB_BUILD_PATH];
    snprintf(kept, sizeof(kept), "%s", where);
    for (const char *p = strcasestr(text, "password"); p; p = strcasestr(p + 1, "password")) {
        const char *value = p + strlen("password");
        value += strspn(value, " \t");
        if (*value != '=')
            continue;
        value += 1 + strspn(value + 1, " \t'");
        if (strncmp(value, "{secret:", strlen("{secret:")) != 0)
            return gb_build_fail(b, kept, "it holds a password; %s", advice);
    }
    const char *user = strstr(text, "://");
    user = user ? user + strlen("://") : NULL;
    const char *at = user ? memrchr(user, '@', strcspn(user, "/?")) : NULL;
    const char *colon = at ? memchr(user, ':', (size_t)(at - user)) : NULL;
    if (colon && strncmp(colon + 1, "{secret:", strlen("{secret:")) != 0)
        return gb_build_fail(b, kept, "it holds a password; %s", advice);
    return gb_kind_check_text(b, tool, kept, text, GB_TEXT_SECRETS | GB_TEXT_ONE_LINE);
}

/* Only what can be told from the first word: the engine is asked about the rest at every call. */
static int check_statement(struct gb_build *b, const struct gb_tool *tool, const char *text, const char *path)
{
    static const char *const writes[] = {"insert", "update", "delete", "replace", "merge", "truncate", NULL};
    static const char *const reads[] = {"select", "values", "table", NULL};
    const bool write = json_is_true(json_object_get(tool->spec, "write"));
    struct gb_template_item item;
    char where[GB_BUILD_PATH], other[300];
    snprintf(where, sizeof(where), "%s.sql.write", path);
    gb_build_other(b, where, other, sizeof(other));
    snprintf(where, sizeof(where), "%s.sql.statement", path);
    text += strspn(text, " \t\r\n");
    if (!*text)
        return gb_build_fail(b, where, "it is empty; leave it out to take the argument `query`");
    if (!write && is_any(text, writes))
        return gb_build_fail(b, where, "it changes rows, and the tool may only read; add write: true");
    if (write && is_any(text, reads))
        return gb_build_fail(b, where, "it only reads, but %s says write: true; leave that out", other);
    for (size_t at = 0; gb_template_next_sql(text, &at, &item);) {
        char word[GB_TEMPLATE_NAME + 2];
        snprintf(word, sizeof(word), "{%s}", item.name); /* the same checks as for a text that is just this */
        int r = gb_kind_check_text(b, tool, where, word, GB_TEXT_ARGUMENTS);
        if (r)
            return r;
    }
    return 0;
}

int gb_kind_check_sql(struct gb_build *b, const struct gb_tool *tool, const char *path)
{
    const char *connection = json_string_value(json_object_get(tool->spec, "postgresql"));
    const char *statement = json_string_value(json_object_get(tool->spec, "statement"));
    if (!connection && json_object_get(tool->spec, "schema"))
        return gb_build_fail(b, gb_build_path(b, "%s.sql.schema", path),
                             "SQLite has no schemas; leave it out");
    int r = check_tables(b, tool->spec, path);
    if (!r && connection)
        r = check_connection(b, tool, connection, path);
    if (r)
        return r;
    return statement ? check_statement(b, tool, statement, path) : gb_kind_need_text(b, tool, path, "query");
}
