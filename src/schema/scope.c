#include "schema/tree.h"

#include <stdlib.h>
#include <string.h>

#define SCOPES_MOST 256

const struct gb_anchor *gb_scope_find(const struct gb_schema *s, uint32_t scope, const char *name,
                                      uint32_t *ret_resource)
{
    const struct gb_scope *sc = &s->scopes[scope];
    for (size_t i = 0; i < sc->count; i++)
        if (!strcmp(sc->anchors[i]->name, name)) {
            *ret_resource = sc->resources[i];
            return sc->anchors[i];
        }
    return NULL;
}

static int add(struct gb_schema *s, const struct gb_scope *scope, uint32_t *ret_scope, struct gb_err *err)
{
    for (uint32_t i = 0; i < s->scope_count; i++)
        if (s->scopes[i].count == scope->count &&
            (!scope->count ||
             !memcmp(s->scopes[i].resources, scope->resources, scope->count * sizeof(uint32_t))) &&
            (!scope->count ||
             !memcmp(s->scopes[i].anchors, scope->anchors, scope->count * sizeof(struct gb_anchor *)))) {
            *ret_scope = i;
            return 0;
        }
    if (s->scope_count >= SCOPES_MOST)
        return gb_keyword_refuse(err, "", "more than %d ways in which dynamic anchors hide each other",
                                 SCOPES_MOST);
    if (!s->scopes) {
        s->scopes = gb_arena_new(s, SCOPES_MOST * sizeof(*s->scopes));
        if (!s->scopes)
            return gb_arena_error(err);
    }
    *ret_scope = (uint32_t)s->scope_count;
    s->scopes[s->scope_count++] = *scope;
    return 0;
}

int gb_scope_enter(struct gb_schema *s, uint32_t scope, uint32_t resource, uint32_t *ret_scope,
                   struct gb_err *err)
{
    const struct gb_scope none = {0};
    size_t more = 0;
    uint32_t ignored;
    if (!s->scope_count) {
        const int r = add(s, &none, &ignored, err); /* the first scope has no anchors */
        if (r)
            return r;
    }
    for (const struct gb_anchor *a = s->resources[resource].anchors; a; a = a->next)
        more += a->dynamic && !gb_scope_find(s, scope, a->name, &ignored);
    *ret_scope = scope;
    if (!more)
        return 0;
    const struct gb_scope *outer = &s->scopes[scope];
    struct gb_scope inner = {.count = outer->count};
    inner.anchors = gb_arena_new(s, (outer->count + more) * sizeof(struct gb_anchor *));
    inner.resources = gb_arena_new(s, (outer->count + more) * sizeof(inner.resources[0]));
    if (!inner.anchors || !inner.resources)
        return gb_arena_error(err);
    if (outer->count) {
        memcpy(inner.anchors, outer->anchors, outer->count * sizeof(struct gb_anchor *));
        memcpy(inner.resources, outer->resources, outer->count * sizeof(inner.resources[0]));
    }
    for (const struct gb_anchor *a = s->resources[resource].anchors; a; a = a->next)
        if (a->dynamic && !gb_scope_find(s, scope, a->name, &ignored)) {
            inner.anchors[inner.count] = a;
            inner.resources[inner.count++] = resource;
        }
    return add(s, &inner, ret_scope, err);
}
