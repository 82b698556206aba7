#include "schema/tree.h"

#include "base/auto.h"
#include "schema/uri.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define RESOURCES_MOST 4096
#define ANCHOR_LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_."

static const struct {
    const char *uri;
    enum gb_draft draft;
} dialects[] = {
        {"https://json-schema.org/draft/2020-12/schema", GB_DRAFT_2020},
        {"http://json-schema.org/draft/2020-12/schema", GB_DRAFT_2020},
        {"http://json-schema.org/draft-07/schema", GB_DRAFT_7},
        {"https://json-schema.org/draft-07/schema", GB_DRAFT_7},
};

static const struct {
    const char *name;
    unsigned bit;
} vocabularies[] = {
        {"https://json-schema.org/draft/2020-12/vocab/core", GB_VOCAB_CORE},
        {"https://json-schema.org/draft/2020-12/vocab/applicator", GB_VOCAB_APPLICATOR},
        {"https://json-schema.org/draft/2020-12/vocab/unevaluated", GB_VOCAB_UNEVALUATED},
        {"https://json-schema.org/draft/2020-12/vocab/validation", GB_VOCAB_VALIDATION},
        {"https://json-schema.org/draft/2020-12/vocab/meta-data", GB_VOCAB_METADATA},
        {"https://json-schema.org/draft/2020-12/vocab/format-annotation", GB_VOCAB_FORMAT},
        {"https://json-schema.org/draft/2020-12/vocab/format-assertion",
         GB_VOCAB_FORMAT | GB_VOCAB_FORMAT_ASSERTION},
        {"https://json-schema.org/draft/2020-12/vocab/content", GB_VOCAB_CONTENT},
};

bool gb_resource_ignores_siblings(const json_t *json, enum gb_draft draft)
{
    return draft == GB_DRAFT_7 && json_is_string(json_object_get(json, "$ref"));
}

/* The resolved $id of an object that has one, as text; 0: it has none. */
static int read_id(struct gb_schema *s, const json_t *json, const char *base, enum gb_draft draft,
                   const char *where, const char **ret_uri, struct gb_err *err)
{
    char uri[GB_URI_MOST], fragment[GB_URI_MOST];
    const char *id = json_string_value(json_object_get(json, "$id"));
    *ret_uri = NULL;
    if (!id || gb_resource_ignores_siblings(json, draft))
        return 0;
    if (draft == GB_DRAFT_7 && *id == '#')
        return 0; /* an anchor, in the words of that draft */
    if (gb_uri_resolve(base, id, uri, fragment))
        return gb_keyword_refuse(err, where, "'$id' is no URI of at most %d bytes", GB_URI_MOST);
    if (*fragment)
        return gb_keyword_refuse(err, where, "'$id' must not have a fragment");
    *ret_uri = gb_arena_print(s, "%s", uri);
    return *ret_uri ? 0 : gb_arena_error(err);
}

/* --- $schema --- */

static int read_vocabulary(const json_t *list, const char *where, unsigned *ret_vocabulary,
                           struct gb_err *err)
{
    const char *name;
    json_t *needed;
    unsigned bits = GB_VOCAB_CORE;
    json_object_foreach((json_t *)list, name, needed) {
        unsigned bit = 0;
        for (size_t i = 0; i < ARRAY_LEN(vocabularies); i++)
            if (!strcmp(vocabularies[i].name, name))
                bit = vocabularies[i].bit;
        if (!bit && json_is_true(needed))
            return gb_keyword_refuse(
                    err, where, "its metaschema needs the vocabulary '%.120s', which is not known", name);
        bits |= bit;
    }
    *ret_vocabulary = bits;
    return 0;
}

/* A metaschema of somebody's own, from the documents given: which vocabularies it has. */
static int read_own_dialect(const struct gb_schema *s, const char *uri, const char *where,
                            struct gb_resource *ret, struct gb_err *err)
{
    const json_t *meta = json_object_get(s->documents, uri);
    const json_t *list = json_object_get(meta, "$vocabulary");
    if (!meta)
        return gb_keyword_refuse(err, where, "'$schema' is '%.120s'; known are %s and %s", uri,
                                 dialects[0].uri, dialects[2].uri);
    const char *own = json_string_value(json_object_get(meta, "$schema"));
    ret->draft = own && strstr(own, "draft-07") ? GB_DRAFT_7 : GB_DRAFT_2020;
    ret->vocabulary = GB_VOCAB_ALL;
    return list && ret->draft == GB_DRAFT_2020 ? read_vocabulary(list, where, &ret->vocabulary, err) : 0;
}

static int read_dialect(const struct gb_schema *s, const json_t *json, const char *where,
                        struct gb_resource *ret, struct gb_err *err)
{
    char uri[GB_URI_MOST], fragment[GB_URI_MOST];
    const char *text = json_string_value(json_object_get(json, "$schema"));
    if (!text)
        return 0;
    if (gb_uri_resolve("", text, uri, fragment))
        return gb_keyword_refuse(err, where, "'$schema' is no URI of at most %d bytes", GB_URI_MOST);
    for (size_t i = 0; i < ARRAY_LEN(dialects); i++)
        if (!strcmp(dialects[i].uri, uri)) {
            ret->draft = dialects[i].draft;
            ret->vocabulary = GB_VOCAB_ALL;
            return 0;
        }
    return read_own_dialect(s, uri, where, ret, err);
}

/* --- what a document holds --- */

struct scan {
    struct gb_schema *s;
    struct gb_err *err;
};

static int add_resource(const struct scan *scan, const json_t *root, const char *uri, const char *where,
                        const struct gb_resource *outer, uint32_t *ret_resource)
{
    struct gb_schema *s = scan->s;
    struct gb_resource new = {.uri = uri, .root = root, .where = where};
    new.draft = outer->draft;
    new.vocabulary = outer->vocabulary;
    const int r = read_dialect(s, root, where, &new, scan->err);
    if (r)
        return r;
    if (json_object_get(s->uris, uri))
        return gb_keyword_refuse(scan->err, where, "a second schema is called '%.160s'", uri);
    if (s->resource_count >= RESOURCES_MOST)
        return gb_keyword_refuse(scan->err, where, "more than %d schemas with an '$id'", RESOURCES_MOST);
    if (s->resource_count >= s->resource_room) {
        const size_t room = s->resource_room ? s->resource_room * 2 : 16;
        struct gb_resource *more = gb_arena_new(s, room * sizeof(*more));
        if (!more)
            return gb_arena_error(scan->err);
        if (s->resource_count)
            memcpy(more, s->resources, s->resource_count * sizeof(*more));
        s->resources = more;
        s->resource_room = room;
    }
    *ret_resource = (uint32_t)s->resource_count;
    if (json_object_set_new(s->uris, uri, json_integer((json_int_t)*ret_resource)) ||
        (json_is_object(root) && gb_map_put(&s->by_json, (uintptr_t)root, 0, *ret_resource)))
        return gb_arena_error(scan->err);
    s->resources[s->resource_count++] = new;
    return 0;
}

static int add_anchor(const struct scan *scan, uint32_t resource, const char *name, const json_t *json,
                      const char *where, bool dynamic)
{
    struct gb_resource *r = &scan->s->resources[resource];
    if (!*name || name[strspn(name, ANCHOR_LETTERS)] || strchr("0123456789-.", *name))
        return gb_keyword_refuse(scan->err, where,
                                 "the anchor '%.80s' must begin with a letter or '_' and go on with these, "
                                 "digits, '-' or '.'",
                                 name);
    for (const struct gb_anchor *a = r->anchors; a; a = a->next)
        if (!strcmp(a->name, name) && a->json != json)
            return gb_keyword_refuse(scan->err, where, "a second anchor '%.80s', besides the one at %.160s",
                                     name, *a->where ? a->where : "the top");
    struct gb_anchor *new = gb_arena_new(scan->s, sizeof(*new));
    if (!new)
        return gb_arena_error(scan->err);
    *new = (struct gb_anchor){name, json, where, dynamic, r->anchors};
    r->anchors = new;
    return 0;
}

static int scan_anchors(const struct scan *scan, uint32_t resource, const json_t *json, const char *where)
{
    const enum gb_draft draft = scan->s->resources[resource].draft;
    const char *id = json_string_value(json_object_get(json, "$id"));
    if (draft == GB_DRAFT_7)
        return id && *id == '#' && id[1] && !gb_resource_ignores_siblings(json, draft)
                       ? add_anchor(scan, resource, id + 1, json, where, false)
                       : 0;
    const char *plain = json_string_value(json_object_get(json, "$anchor"));
    const char *dynamic = json_string_value(json_object_get(json, "$dynamicAnchor"));
    int r = dynamic ? add_anchor(scan, resource, dynamic, json, where, true) : 0;
    if (!r && plain && !(dynamic && !strcmp(plain, dynamic)))
        r = add_anchor(scan, resource, plain, json, where, false);
    return r;
}

/* NOLINTBEGIN(misc-no-recursion): as deep as gb_schema_new allows */
static int scan_schema(const struct scan *scan, uint32_t resource, const json_t *json, const char *where);

static int scan_each(const struct scan *scan, uint32_t resource, const json_t *json, const char *where)
{
    size_t i;
    const char *name;
    json_t *item;
    int r = 0;
    json_array_foreach((json_t *)json, i, item) {
        const char *below = json_is_object(item) ? gb_arena_print(scan->s, "%s/%zu", where, i) : where;
        r = below ? scan_schema(scan, resource, item, below) : gb_arena_error(scan->err);
        if (r)
            return r;
    }
    json_object_foreach((json_t *)json, name, item) {
        const char *below = json_is_object(item) ? gb_arena_below(scan->s, where, name) : where;
        r = below ? scan_schema(scan, resource, item, below) : gb_arena_error(scan->err);
        if (r)
            return r;
    }
    return 0;
}

/* Where subschemas are, by the form of the keyword. */
static int scan_keyword(const struct scan *scan, uint32_t resource, const struct gb_keyword *k,
                        const json_t *value, const char *where)
{
    switch (k->form) {
    case GB_FORM_SCHEMA:
        return scan_schema(scan, resource, value, where);
    case GB_FORM_ITEMS:
        return json_is_array(value) ? scan_each(scan, resource, value, where)
                                    : scan_schema(scan, resource, value, where);
    case GB_FORM_SCHEMAS:
    case GB_FORM_SCHEMA_MAP:
    case GB_FORM_DEPENDENCIES:
        return scan_each(scan, resource, value, where);
    default:
        return 0;
    }
}

static int scan_schema(const struct scan *scan, uint32_t resource, const json_t *json, const char *where)
{
    const char *uri = NULL, *name;
    json_t *value;
    if (!json_is_object(json))
        return 0;
    const struct gb_resource *outer = &scan->s->resources[resource];
    int r = outer->root == json ? 0
                                : read_id(scan->s, json, outer->uri, outer->draft, where, &uri, scan->err);
    if (!r && uri)
        r = add_resource(scan, json, uri, where, outer, &resource);
    if (!r)
        r = scan_anchors(scan, resource, json, where);
    if (r)
        return r;
    json_object_foreach((json_t *)json, name, value) {
        const struct gb_keyword *k = gb_keyword_find(scan->s->resources[resource].draft, name);
        if (!k || k->form < GB_FORM_SCHEMA)
            continue;
        const char *below = gb_arena_below(scan->s, where, name);
        r = below ? scan_keyword(scan, resource, k, value, below) : gb_arena_error(scan->err);
        if (r)
            return r;
    }
    return 0;
}

/* NOLINTEND(misc-no-recursion) */

int gb_resource_add(struct gb_schema *s, const json_t *root, const char *uri, const char *where,
                    enum gb_draft draft, uint32_t *ret_resource, struct gb_err *err)
{
    const struct scan scan = {s, err};
    struct gb_resource own = {.draft = draft, .vocabulary = GB_VOCAB_ALL};
    const char *id = NULL;
    int r = read_dialect(s, root, where, &own, err);
    if (!r)
        r = read_id(s, root, uri, own.draft, where, &id, err);
    if (r)
        return r;
    r = add_resource(&scan, root, id ? id : uri, where, &own, ret_resource);
    if (!r && id && strcmp(id, uri) &&
        json_object_set_new(s->uris, uri, json_integer((json_int_t)*ret_resource)))
        r = gb_arena_error(err); /* found by both names */
    return r ? r : scan_schema(&scan, *ret_resource, root, where);
}

uint32_t gb_resource_of(const struct gb_schema *s, const json_t *json, uint32_t resource)
{
    const struct gb_map_entry *e = json_is_object(json) ? gb_map_get(&s->by_json, (uintptr_t)json, 0) : NULL;
    return e ? (uint32_t)e->value : resource;
}

/* --- references --- */

/* One token of a JSON pointer, in place. */
static void unescape(char *token)
{
    char *out = token;
    for (const char *in = token; *in; in++)
        if (*in == '~' && (in[1] == '0' || in[1] == '1'))
            *out++ = *++in == '0' ? '~' : '/';
        else
            *out++ = *in;
    *out = '\0';
}

static const json_t *step(const json_t *json, const char *token)
{
    char *end = NULL;
    if (json_is_object(json))
        return json_object_get(json, token);
    if (!json_is_array(json) || !*token || token[strspn(token, "0123456789")] || (*token == '0' && token[1]))
        return NULL;
    errno = 0;
    const unsigned long long index = strtoull(token, &end, 10);
    return errno || *end ? NULL : json_array_get(json, (size_t)index);
}

static int follow_pointer(struct gb_schema *s, char *pointer, struct gb_target *t, struct gb_err *err)
{
    char *rest = pointer + 1;
    while (rest && t->json) {
        char *token = strsep(&rest, "/");
        unescape(token);
        t->json = step(t->json, token);
        t->where = gb_arena_below(s, t->where, token);
        if (!t->where)
            return gb_arena_error(err);
        if (t->json)
            t->resource = gb_resource_of(s, t->json, t->resource);
    }
    return 0;
}

/* The resource of that name, loading it if it is one of the documents or metaschemas. */
static int find_resource(struct gb_schema *s, uint32_t from, const char *uri, uint32_t *ret,
                         struct gb_err *err)
{
    const json_t *known = json_object_get(s->uris, uri);
    if (known) {
        *ret = (uint32_t)json_integer_value(known);
        return 0;
    }
    const json_t *document = json_object_get(s->documents, uri);
    if (!document) {
        json_t *meta = gb_meta_read(uri);
        if (meta && json_object_set_new(s->metaschemas, uri, meta))
            return gb_arena_error(err);
        document = meta;
    }
    if (!document)
        return -ENOENT;
    const char *name = gb_arena_print(s, "%s", uri), *where = gb_arena_print(s, "%s#", uri);
    if (!name || !where)
        return gb_arena_error(err);
    return gb_resource_add(s, document, name, where, s->resources[from].draft, ret, err);
}

int gb_resource_find(struct gb_schema *s, uint32_t from, const char *ref, const char *where,
                     struct gb_target *ret, struct gb_err *err)
{
    char uri[GB_URI_MOST], fragment[GB_URI_MOST];
    uint32_t found = 0;
    if (gb_uri_resolve(s->resources[from].uri, ref, uri, fragment))
        return gb_keyword_refuse(err, where, "is no URI reference of at most %d bytes", GB_URI_MOST);
    int r = find_resource(s, from, uri, &found, err);
    if (r == -ENOENT)
        return gb_keyword_refuse(err, where,
                                 "refers to '%.160s', which is neither in the schema nor among the documents "
                                 "given; nothing is fetched",
                                 uri);
    if (r)
        return r;
    const struct gb_resource *resource = &s->resources[found];
    struct gb_target t = {resource->root, resource->where, found, NULL};
    if (*fragment == '/') {
        r = follow_pointer(s, fragment, &t, err);
        if (r)
            return r;
    } else if (*fragment) {
        for (t.anchor = resource->anchors; t.anchor && strcmp(t.anchor->name, fragment);)
            t.anchor = t.anchor->next;
        t.json = t.anchor ? t.anchor->json : NULL;
        t.where = t.anchor ? t.anchor->where : NULL;
    }
    if (!t.json)
        return gb_keyword_refuse(err, where, "refers to '%.200s', but there is no such place", ref);
    *ret = t;
    return 0;
}
