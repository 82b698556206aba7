#include "schema/tree.h"

#include <string.h>

#define NODES_MOST 20000

static int grow(struct gb_schema *s, struct gb_err *err)
{
    const size_t room = s->node_room ? s->node_room * 2 : 64;
    struct gb_node **more = gb_arena_new(s, room * sizeof(struct gb_node *));
    if (!more)
        return gb_arena_error(err);
    if (s->node_count)
        memcpy(more, s->nodes, s->node_count * sizeof(struct gb_node *));
    s->nodes = more;
    s->node_room = room;
    return 0;
}

int gb_compile_want(struct gb_schema *s, const json_t *json, uint32_t resource, uint32_t scope,
                    const char *where, struct gb_node **ret, struct gb_err *err)
{
    if (!json_is_object(json) && !json_is_boolean(json))
        return gb_keyword_refuse(err, where, "must be a schema (an object, true or false)");
    const uint32_t own = gb_resource_of(s, json, resource);
    int r = gb_scope_enter(s, scope, own, &scope, err);
    if (r)
        return r;
    if (json_is_boolean(json))
        scope = 0; /* they are the same everywhere */
    const struct gb_map_entry *known = gb_map_get(&s->by_node, (uintptr_t)json, scope);
    if (known) {
        *ret = s->nodes[known->value];
        return 0;
    }
    if (s->node_count >= NODES_MOST)
        return gb_keyword_refuse(err, where, "more than %d subschemas", NODES_MOST);
    r = s->node_count >= s->node_room ? grow(s, err) : 0;
    if (r)
        return r;
    struct gb_node *node = gb_arena_new(s, sizeof(*node));
    if (!node || gb_map_put(&s->by_node, (uintptr_t)json, scope, s->node_count))
        return gb_arena_error(err);
    *node = (struct gb_node){.json = json,
                             .where = where,
                             .resource = own,
                             .scope = scope,
                             .fixed = json_is_boolean(json),
                             .verdict = json_is_true(json),
                             .min_contains = 1,
                             .max_contains = SIZE_MAX};
    s->nodes[s->node_count++] = node;
    *ret = node;
    return 0;
}

/* In draft-07, whatever stands beside $ref counts for nothing. Remarks and definitions may; of the rest
 * somebody expects something. */
static int check_sibling(const struct gb_schema *s, const struct gb_keyword *k, const char *where,
                         struct gb_err *err)
{
    if (s->options.ignore_unknown || !k->compile || k->form == GB_FORM_SCHEMA_MAP)
        return 0;
    return gb_keyword_refuse(err, where, "has no effect beside '$ref' in draft-07; put both into 'allOf'");
}

static int refuse_unknown(const struct gb_schema *s, const struct gb_node *node, const char *name,
                          struct gb_err *err)
{
    char hint[160];
    const enum gb_draft draft = s->resources[node->resource].draft;
    gb_keyword_hint(draft, name, hint, sizeof(hint));
    return gb_keyword_refuse(err, node->where, "unknown keyword '%.60s' in %s%s", name,
                             gb_keyword_draft_name(draft), hint);
}

static int compile_keyword(struct gb_schema *s, struct gb_node *node, const char *name, const json_t *value,
                           struct gb_err *err)
{
    const struct gb_resource *resource = &s->resources[node->resource];
    const struct gb_keyword *k = gb_keyword_find(resource->draft, name);
    const bool alone = gb_resource_ignores_siblings(node->json, resource->draft);
    if (!k || !(k->vocabulary & resource->vocabulary))
        return s->options.ignore_unknown ? 0 : refuse_unknown(s, node, name, err);
    const char *where = gb_arena_below(s, node->where, name);
    if (!where)
        return gb_arena_error(err);
    int r = gb_keyword_check(k, value, where, err);
    if (!r && alone && strcmp(name, "$ref") != 0) {
        r = check_sibling(s, k, where, err);
        if (r || strcmp(name, "definitions") != 0)
            return r;
    }
    return r || !k->compile ? r : k->compile(s, node, name, value, where, err);
}

static int compile_node(struct gb_schema *s, struct gb_node *node, struct gb_err *err)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)node->json, name, value) {
        const int r = compile_keyword(s, node, name, value, err);
        if (r)
            return r;
    }
    return 0;
}

/* A tool takes what it names: as if the top said "unevaluatedProperties": false, so that members which an
 * allOf or a reference names are taken as well. */
static int close_root(struct gb_schema *s, struct gb_err *err)
{
    struct gb_node *root = s->root, *none = NULL;
    if (root->fixed || root->additional || root->unevaluated_properties)
        return 0;
    const int r = gb_compile_want(s, json_false(), root->resource, root->scope, root->where, &none, err);
    if (!r)
        root->unevaluated_properties = none;
    return r;
}

int gb_compile(struct gb_schema *s, struct gb_err *err)
{
    uint32_t resource = 0;
    int r = gb_resource_add(s, s->source, "", "", GB_DRAFT_2020, &resource, err);
    if (!r)
        r = gb_compile_want(s, s->source, resource, 0, "", &s->root, err);
    for (size_t i = 0; !r && i < s->node_count; i++) /* which adds to them */
        r = compile_node(s, s->nodes[i], err);
    if (!r && s->options.closed)
        r = close_root(s, err);
    return r ? r : gb_graph_check(s, err);
}
