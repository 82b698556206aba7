/* Inside src/schema: what a schema is compiled to, and what compiling keeps in hand.
 *
 * A node is a subschema seen from one dynamic scope: `$dynamicRef` is decided when the schema is compiled, by
 * making a node for each set of anchors that are in force where the subschema is used. So a check needs no
 * scope, and its result depends on node and value alone. Edges lead to the nodes of subschemas and
 * references; those that stay at the same value never form a circle. */
#pragma once

#include "schema/decimal.h"
#include "schema/ecma.h"
#include "schema/map.h"
#include "schema/same.h"
#include "schema/schema.h"

enum gb_draft { GB_DRAFT_7 = 1, GB_DRAFT_2020 = 2 };

enum {
    GB_VOCAB_CORE = 1,
    GB_VOCAB_APPLICATOR = 2,
    GB_VOCAB_UNEVALUATED = 4,
    GB_VOCAB_VALIDATION = 8,
    GB_VOCAB_METADATA = 16,
    GB_VOCAB_FORMAT = 32,
    GB_VOCAB_CONTENT = 64,
    GB_VOCAB_ALL = 127,
    GB_VOCAB_FORMAT_ASSERTION = 128,
};

enum gb_form {
    GB_FORM_ANY,
    GB_FORM_TEXT,
    GB_FORM_BOOL,
    GB_FORM_NUMBER,
    GB_FORM_POSITIVE,
    GB_FORM_COUNT,
    GB_FORM_OBJECT,
    GB_FORM_ARRAY,
    GB_FORM_TEXTS,
    GB_FORM_TEXTS_MAP,
    GB_FORM_TYPES,
    GB_FORM_SCHEMA,
    GB_FORM_SCHEMAS,
    GB_FORM_SCHEMA_MAP,
    GB_FORM_ITEMS,
    GB_FORM_DEPENDENCIES,
};

/* Bits of the JSON types; a number that is whole has both of its bits. */
enum {
    GB_TYPE_NULL = 1,
    GB_TYPE_BOOLEAN = 2,
    GB_TYPE_OBJECT = 4,
    GB_TYPE_ARRAY = 8,
    GB_TYPE_NUMBER = 16,
    GB_TYPE_STRING = 32,
    GB_TYPE_INTEGER = 64,
};

struct gb_run;
struct gb_place;
struct gb_format;
struct gb_node;

/* An assertion about the value itself. */
struct gb_rule {
    bool (*check)(struct gb_run *run, const struct gb_rule *rule, const json_t *value,
                  const struct gb_place *place);
    const char *keyword;
    const json_t *arg;
    struct gb_decimal number;
    size_t count;
    struct gb_ecma *pattern;
    struct gb_same_set *set;
    const struct gb_format *format;
    struct gb_rule *next;
};

struct gb_edge {
    struct gb_node *to;
    bool same_value;
    struct gb_edge *next;
};

struct gb_nodes {
    struct gb_node **list;
    size_t count;
};

/* Members that a pattern matches, or (pattern NULL) that stand beside a given one. */
struct gb_named_node {
    const char *name;
    struct gb_ecma *pattern;
    struct gb_node *node;
    struct gb_named_node *next;
};

struct gb_node {
    const json_t *json;
    const char *where; /* JSON pointer to it, behind its URL if it is not in the schema itself */
    uint32_t resource, scope;
    bool fixed, verdict; /* true and false as schemas */
    bool shared;         /* many edges lead here: results are worth keeping */
    uint32_t edges_in, height;
    struct gb_edge *edges;

    unsigned types; /* 0: any */
    struct gb_rule *rules;

    struct gb_node *ref, *dynamic_ref, *not_, *if_, *then_, *else_;
    struct gb_nodes all_of, any_of, one_of;
    struct gb_named_node *dependents;

    json_t *names; /* name -> its index in properties; NULL: none */
    struct gb_nodes properties;
    struct gb_named_node *patterns;
    struct gb_node *additional, *property_names, *unevaluated_properties;

    struct gb_nodes prefix;
    struct gb_node *items, *contains, *unevaluated_items;
    size_t min_contains, max_contains;
};

struct gb_anchor {
    const char *name;
    const json_t *json;
    const char *where;
    bool dynamic;
    struct gb_anchor *next;
};

struct gb_resource {
    const char *uri;
    const json_t *root;
    const char *where;
    enum gb_draft draft;
    unsigned vocabulary;
    struct gb_anchor *anchors;
};

/* The dynamic anchors in force: name -> the outermost resource that has it. */
struct gb_scope {
    const struct gb_anchor **anchors;
    uint32_t *resources;
    size_t count;
};

struct gb_block;

struct gb_schema {
    struct gb_schema_options options;
    struct gb_block *blocks; /* every allocation that lives as long as the schema */
    json_t *source, *documents;
    json_t *metaschemas; /* those in use */
    struct gb_same_key key;
    struct gb_node **nodes;
    size_t node_count, node_room;
    struct gb_resource *resources;
    size_t resource_count, resource_room;
    struct gb_scope *scopes;
    size_t scope_count, scope_room;
    json_t *uris;          /* URL -> index of its resource */
    struct gb_map by_json; /* root of a resource -> its index */
    struct gb_map by_node; /* subschema and scope -> node */
    struct gb_node *root;
};

struct gb_keyword {
    const char *name;
    unsigned drafts, vocabulary;
    enum gb_form form;
    /* where: of the keyword itself */
    int (*compile)(struct gb_schema *s, struct gb_node *node, const char *keyword, const json_t *arg,
                   const char *where, struct gb_err *err);
};

/* --- keyword.c --- */
const struct gb_keyword *gb_keyword_find(enum gb_draft draft, const char *name);
/* How the name was most probably meant, as a hint: "; did you mean ...?", or "". */
void gb_keyword_hint(enum gb_draft draft, const char *name, char *ret_hint, size_t size);
/* Is the keyword's value of its form? */
int gb_keyword_check(const struct gb_keyword *k, const json_t *value, const char *where, struct gb_err *err);
extern const struct gb_keyword gb_keywords[];
extern const size_t gb_keywords_count;
const char *gb_keyword_draft_name(enum gb_draft draft);
/* Says what is wrong with the schema, and where. */
int gb_keyword_refuse(struct gb_err *err, const char *where, const char *fmt, ...)
        __attribute__((format(printf, 3, 4)));

/* --- arena.c: NULL if there is no memory --- */
void *gb_arena_new(struct gb_schema *s, size_t size);
const char *gb_arena_print(struct gb_schema *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* where + "/" + name, escaped as a JSON pointer. */
const char *gb_arena_below(struct gb_schema *s, const char *where, const char *name);
void gb_arena_free(struct gb_schema *s);
int gb_arena_error(struct gb_err *err);

/* --- resource.c --- */
/* Makes a document known: it, and what has an $id or $anchor in it. draft: if it does not say so itself. */
int gb_resource_add(struct gb_schema *s, const json_t *root, const char *uri, const char *where,
                    enum gb_draft draft, uint32_t *ret_resource, struct gb_err *err);
struct gb_target {
    const json_t *json;
    const char *where;
    uint32_t resource;
    const struct gb_anchor *anchor; /* by which it was found; NULL: by a JSON pointer */
};
/* What the reference leads to from a place in the resource. */
int gb_resource_find(struct gb_schema *s, uint32_t from, const char *ref, const char *where,
                     struct gb_target *ret, struct gb_err *err);
/* The resource that a subschema of `resource` is in: its own if it has an $id. */
uint32_t gb_resource_of(const struct gb_schema *s, const json_t *json, uint32_t resource);
bool gb_resource_ignores_siblings(const json_t *json, enum gb_draft draft);

/* --- scope.c --- */
/* The scope inside the resource, come to from `scope`. */
int gb_scope_enter(struct gb_schema *s, uint32_t scope, uint32_t resource, uint32_t *ret_scope,
                   struct gb_err *err);
/* The anchor of that name that is outermost, or NULL. */
const struct gb_anchor *gb_scope_find(const struct gb_schema *s, uint32_t scope, const char *name,
                                      uint32_t *ret_resource);

/* --- compile.c --- */
int gb_compile(struct gb_schema *s, struct gb_err *err);
/* The node of a subschema, compiled later if it is new. resource: of the place that leads there. */
int gb_compile_want(struct gb_schema *s, const json_t *json, uint32_t resource, uint32_t scope,
                    const char *where, struct gb_node **ret, struct gb_err *err);
/* --- graph.c: refuses circles; finds out what is shared --- */
int gb_graph_check(struct gb_schema *s, struct gb_err *err);

/* --- meta.c --- */
json_t *gb_meta_read(const char *uri);

/* --- rule.c, place.c: the compilers of keywords --- */
#define GB_COMPILER(name)                                                                                    \
    int name(struct gb_schema *s, struct gb_node *node, const char *keyword, const json_t *arg,              \
             const char *where, struct gb_err *err)
GB_COMPILER(gb_rule_type);
GB_COMPILER(gb_rule_enum);
GB_COMPILER(gb_rule_const);
GB_COMPILER(gb_rule_number);
GB_COMPILER(gb_rule_count);
GB_COMPILER(gb_rule_pattern);
GB_COMPILER(gb_rule_unique);
GB_COMPILER(gb_rule_required);
GB_COMPILER(gb_rule_dependent);
GB_COMPILER(gb_rule_format);
GB_COMPILER(gb_place_ref);
GB_COMPILER(gb_place_dynamic_ref);
GB_COMPILER(gb_place_definitions);
GB_COMPILER(gb_place_definition);
GB_COMPILER(gb_place_all_of);
GB_COMPILER(gb_place_any_of);
GB_COMPILER(gb_place_one_of);
GB_COMPILER(gb_place_not);
GB_COMPILER(gb_place_if);
GB_COMPILER(gb_place_then);
GB_COMPILER(gb_place_else);
GB_COMPILER(gb_place_dependent_schemas);
GB_COMPILER(gb_place_dependencies);
GB_COMPILER(gb_place_properties);
GB_COMPILER(gb_place_pattern_properties);
GB_COMPILER(gb_place_additional_properties);
GB_COMPILER(gb_place_property_names);
GB_COMPILER(gb_place_prefix_items);
GB_COMPILER(gb_place_items);
GB_COMPILER(gb_place_additional_items);
GB_COMPILER(gb_place_contains);
GB_COMPILER(gb_place_max_contains);
GB_COMPILER(gb_place_min_contains);
GB_COMPILER(gb_place_unevaluated_properties);
GB_COMPILER(gb_place_unevaluated_items);
