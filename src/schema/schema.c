#include "schema/schema.h"

#include "base/auto.h"
#include "base/text.h"
#include "schema/run.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Levels of a value or schema. The JSON reader stops far earlier; this is for values made in other ways. */
#define LEVELS_MOST 200

/* NOLINTNEXTLINE(misc-no-recursion): LEVELS_MOST deep */
static bool is_too_deep(const json_t *value, unsigned left)
{
    size_t i;
    const char *name;
    json_t *item;
    if (!left)
        return true;
    json_array_foreach((json_t *)value, i, item)
        if ((json_is_array(item) || json_is_object(item)) && is_too_deep(item, left - 1))
            return true;
    json_object_foreach((json_t *)value, name, item)
        if ((json_is_array(item) || json_is_object(item)) && is_too_deep(item, left - 1))
            return true;
    return false;
}

static int fill(struct gb_schema *s, const json_t *schema, const struct gb_schema_options *options,
                struct gb_err *err)
{
    s->options = *options;
    s->options.documents = NULL; /* ours is s->documents */
    if (!schema)
        return gb_err_set(err, GB_ERR_CONFIG, 0, "there is no schema");
    if (is_too_deep(schema, LEVELS_MOST) || is_too_deep(options->documents, LEVELS_MOST + 1))
        return gb_err_set(err, GB_ERR_CONFIG, 0, "the schema has more than %d levels", LEVELS_MOST);
    s->source = json_deep_copy(schema);
    s->documents = options->documents ? json_deep_copy(options->documents) : json_object();
    s->metaschemas = json_object();
    s->uris = json_object();
    gb_same_seed(&s->key);
    s->by_json.seed = s->by_node.seed = s->key.k[0];
    if (!s->source || !s->documents || !s->metaschemas || !s->uris)
        return gb_arena_error(err);
    return gb_compile(s, err);
}

int gb_schema_new(const json_t *schema, const struct gb_schema_options *options, struct gb_schema **ret,
                  struct gb_err *err)
{
    static const struct gb_schema_options none = {0};
    struct gb_err own = {0};
    struct gb_schema *s = calloc(1, sizeof(*s));
    err = err ? err : &own;
    if (!s)
        return gb_arena_error(err);
    const int r = fill(s, schema, options ? options : &none, err);
    if (r) {
        gb_text_defuse(err->text); /* it quotes the schema */
        gb_schema_free(s);
        return r;
    }
    *ret = s;
    return 0;
}

static void free_node(struct gb_node *node)
{
    json_decref(node->names);
    for (const struct gb_named_node *p = node->patterns; p; p = p->next)
        gb_ecma_free(p->pattern);
    for (const struct gb_rule *r = node->rules; r; r = r->next) {
        gb_ecma_free(r->pattern);
        gb_same_set_free(r->set);
    }
}

void gb_schema_free(struct gb_schema *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->node_count; i++)
        free_node(s->nodes[i]);
    gb_arena_free(s);
    gb_map_done(&s->by_json);
    gb_map_done(&s->by_node);
    json_decref(s->source);
    json_decref(s->documents);
    json_decref(s->metaschemas);
    json_decref(s->uris);
    free(s);
}

/* First the verdict alone, which is quick; then, if it is bad, why. */
static size_t check(struct gb_run *run, const json_t *value, struct gb_schema_problem *ret)
{
    const struct gb_place top = {0};
    struct gb_report report = {.base = &top};
    const bool good = gb_eval(run, run->schema->root, value, &top, NULL);
    if (good && !run->stop)
        return 0;
    if (!run->stop) {
        run->report = &report;
        run->most += GB_RUN_STEPS_MOST;
        gb_eval(run, run->schema->root, value, &top, NULL);
    }
    run->report = &report;
    if (run->stop && !report.count)
        gb_explain(run, &top, GB_MISS_DETAIL, "cannot be checked: %s", run->stop);
    if (!report.count)
        gb_explain(run, &top, GB_MISS_DETAIL, "does not fit the schema");
    run->report = NULL;
    memcpy(ret, report.list, report.count * sizeof(*ret));
    return report.count;
}

size_t gb_schema_check_steps(const struct gb_schema *s, const json_t *value, const char *root,
                             struct gb_schema_problem ret[GB_SCHEMA_PROBLEMS], uint64_t *ret_steps)
{
    struct gb_run run = {.schema = s, .root = root, .most = GB_RUN_STEPS_MOST, .memory.seed = s->key.k[1]};
    size_t count;
    if (is_too_deep(value, LEVELS_MOST)) {
        snprintf(ret[0].path, sizeof(ret[0].path), "%s", root);
        snprintf(ret[0].text, sizeof(ret[0].text), "has more than %d levels", LEVELS_MOST);
        count = 1;
    } else {
        count = check(&run, value, ret);
    }
    *ret_steps = run.steps;
    gb_eval_done(&run);
    return count;
}

size_t gb_schema_check(const struct gb_schema *s, const json_t *value, const char *root,
                       struct gb_schema_problem ret[GB_SCHEMA_PROBLEMS])
{
    uint64_t steps;
    return gb_schema_check_steps(s, value, root, ret, &steps);
}

bool gb_schema_excludes(const struct gb_schema *s, const json_t *value)
{
    struct gb_run run = {.schema = s, .root = "", .most = GB_RUN_STEPS_MOST, .memory.seed = s->key.k[1]};
    const struct gb_place top = {0};
    const bool good = is_too_deep(value, LEVELS_MOST) || gb_eval(&run, s->root, value, &top, NULL);
    const bool certain = !good && !run.stop;
    gb_eval_done(&run);
    return certain;
}
