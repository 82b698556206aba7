/* Secrets, and the rules of screening and sanitising. */
#include "policy/build.h"

#include "base/auto.h"
#include "spec/spec.h"

#include <errno.h>
#include <string.h>

/* --- secrets --- */

static char *copy_text(struct gb_build *b, const char *text)
{
    const size_t size = strlen(text) + 1;
    char *copy = gb_build_alloc(b, size, 1);
    return copy ? memcpy(copy, text, size) : NULL;
}

int gb_build_secrets(struct gb_build *b)
{
    const char *name;
    json_t *unused;
    struct gb_policy *p = b->p;
    p->secrets = gb_build_alloc(b, json_object_size(b->config->secrets), sizeof(*p->secrets));
    if (!p->secrets)
        return -ENOMEM;
    json_object_foreach(b->config->secrets, name, unused) {
        const char *value = gb_config_secret(b->config, name);
        const char *path = gb_build_path(b, "secrets.%s", name);
        if (!value)
            return gb_build_fail(b, path, "nobody has read the file or variable that holds it");
        /* A shorter one could not be told from other text, and would have to stay in what tools answer. */
        if (strlen(value) < GB_SECRET_LEAST)
            return gb_build_fail(b, path,
                                 "it has %zu bytes; it takes %d or more, so that it can be found in output",
                                 strlen(value), GB_SECRET_LEAST);
        struct gb_secret own = {copy_text(b, name), copy_text(b, value)};
        if (!own.name || !own.value)
            return -ENOMEM;
        p->secrets[p->secret_count++] = own;
    }
    return 0;
}

/* --- screening --- */

static int unknown_runtime(struct gb_build *b, const char *path, const char *given)
{
    struct gb_build_names names = {0};
    for (size_t i = 0; i < gb_runtime_count; i++)
        gb_build_names_add(&names, gb_runtimes[i].name);
    return gb_build_unknown(b, path, "language", given, &names);
}

static const char *text_of(const json_t *row, const char *name)
{
    return json_string_value(json_object_get(row, name));
}

/* Refuses a name that an earlier row of the list has. */
static int check_twice(struct gb_build *b, const char *list, const json_t *rows, size_t index)
{
    const char *name = text_of(json_array_get(rows, index), "name");
    for (size_t i = 0; i < index; i++) {
        char first[GB_BUILD_PATH], other[300];
        if (strcmp(text_of(json_array_get(rows, i), "name"), name) != 0)
            continue;
        snprintf(first, sizeof(first), "%s[%zu].name", list, i);
        gb_build_other(b, first, other, sizeof(other));
        return gb_build_fail(b, gb_build_path(b, "%s[%zu].name", list, index),
                             "there are two with the name '%s'; the first is %s", name, other);
    }
    return 0;
}

static int action_of(const json_t *row)
{
    const char *word = text_of(row, "action");
    for (int i = GB_SCREEN_BLOCK; word && i <= GB_SCREEN_OFF; i++)
        if (!strcmp(gb_screen_names[i], word))
            return i;
    return -ENOMEM;
}

static int take_screening(struct gb_build *b, size_t index, struct gb_screen_rule *ret)
{
    const json_t *row = json_array_get(b->config->screening, index);
    const json_t *calls = json_object_get(row, "calls"), *imports = json_object_get(row, "imports");
    const char *language = text_of(row, "language");
    int r = check_twice(b, "screening", b->config->screening, index);
    if (r)
        return r;
    if (language && strcmp(language, "*") != 0 && !gb_runtime_find(language))
        return unknown_runtime(b, gb_build_path(b, "screening[%zu].language", index), language);
    if (language && strcmp(language, "*") != 0 && strcmp(language, "python") != 0 && (calls || imports))
        return gb_build_fail(b, gb_build_path(b, "screening[%zu].%s", index, calls ? "calls" : "imports"),
                             "calls and imports can be told in python only, and the rule is for %s",
                             language);
    *ret = (struct gb_screen_rule){.name = text_of(row, "name"),
                                   .language = language ? language : "*",
                                   .pattern = text_of(row, "pattern"),
                                   .calls = calls ? gb_build_texts(b, calls) : NULL,
                                   .imports = imports ? gb_build_texts(b, imports) : NULL,
                                   .hint = text_of(row, "hint"),
                                   .action = action_of(row)};
    return (calls && !ret->calls) || (imports && !ret->imports) ? -ENOMEM : 0;
}

static int make_screen(struct gb_build *b)
{
    const size_t count = json_array_size(b->config->screening);
    struct gb_screen_rule *rules = gb_build_alloc(b, count, sizeof(*rules));
    if (!rules)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++) {
        int r = take_screening(b, i, &rules[i]);
        if (r)
            return r;
    }
    b->p->screen = gb_screen_new(rules, count, b->err);
    if (b->p->screen)
        return 0;
    for (size_t i = 0; i < count; i++) { /* whichever cannot be compiled alone is the one */
        struct gb_screen *alone = gb_screen_new(&rules[i], 1, b->err);
        gb_screen_free(alone);
        if (!alone)
            return gb_build_fail_with(b, gb_build_path(b, "screening[%zu].pattern", i));
    }
    return gb_build_fail(b, "screening", "there may be %d rules together with the built-in ones",
                         GB_SCREEN_RULES);
}

/* --- sanitising --- */

static int check_off(struct gb_build *b)
{
    const json_t *off = b->config->sanitising_off;
    struct gb_build_names names = {0};
    for (size_t i = 0; i < gb_rules_builtin_count(); i++)
        gb_build_names_add(&names, gb_rules_builtin_name(i));
    for (size_t i = 0; i < json_array_size(off); i++) {
        const char *name = json_string_value(json_array_get(off, i));
        size_t known = 0;
        while (known < names.count && strcmp(names.name[known], name) != 0)
            known++;
        if (known == names.count)
            return gb_build_unknown(b, gb_build_path(b, "sanitising_off[%zu]", i), "built-in sanitising rule",
                                    name, &names);
        for (size_t k = 0; k < json_array_size(b->config->sanitising); k++) {
            char path[GB_BUILD_PATH], other[300];
            if (strcmp(text_of(json_array_get(b->config->sanitising, k), "name"), name) != 0)
                continue;
            snprintf(path, sizeof(path), "sanitising[%zu]", k);
            gb_build_other(b, path, other, sizeof(other));
            return gb_build_fail(b, gb_build_path(b, "sanitising_off[%zu]", i),
                                 "'%s' is replaced by %s already; leave it out here", name, other);
        }
    }
    return 0;
}

static struct gb_rule *take_sanitising(struct gb_build *b, size_t count)
{
    struct gb_rule *rules = gb_build_alloc(b, count, sizeof(*rules));
    for (size_t i = 0; rules && i < count; i++) {
        const json_t *row = json_array_get(b->config->sanitising, i);
        const char *mark = text_of(row, "mark");
        if (check_twice(b, "sanitising", b->config->sanitising, i))
            return NULL;
        rules[i] = (struct gb_rule){.name = text_of(row, "name"),
                                    .mark = mark ? mark : "[REDACTED]",
                                    .pattern = text_of(row, "pattern")};
    }
    return rules;
}

static int make_rules(struct gb_build *b)
{
    const size_t count = json_array_size(b->config->sanitising);
    const char **secrets = gb_build_alloc(b, b->p->secret_count, sizeof(*secrets));
    const char **off = gb_build_texts(b, b->config->sanitising_off);
    struct gb_rule *rules = take_sanitising(b, count);
    if (!secrets || !off || !rules)
        return -ENOMEM;
    for (size_t i = 0; i < b->p->secret_count; i++)
        secrets[i] = b->p->secrets[i].value;
    struct gb_rules_options options = {.more = rules,
                                       .more_count = count,
                                       .off = off,
                                       .off_count = json_array_size(b->config->sanitising_off),
                                       .secrets = secrets,
                                       .secret_count = b->p->secret_count};
    b->p->rules = gb_rules_new(&options, b->err);
    if (b->p->rules)
        return 0;
    for (size_t i = 0; i < count; i++) {
        struct gb_rules *alone = gb_rules_compile(&rules[i], 1, b->err);
        gb_rules_free(alone);
        if (!alone)
            return gb_build_fail_with(b, gb_build_path(b, "sanitising[%zu].pattern", i));
    }
    return gb_build_fail_with(b, "sanitising");
}

int gb_build_rules(struct gb_build *b)
{
    if (b->use != GB_POLICY_DECIDE)
        return 0;
    int r = make_screen(b);
    r = r ? r : check_off(b);
    return r ? r : make_rules(b);
}
