#include "schema/tree.h"

#include "base/auto.h"

#include <stdlib.h>

/* In-place steps one inside the other. More than any honest schema has, and few enough for the stack. */
#define HEIGHT_MOST 100

enum { WHITE, GREY, BLACK };

struct visit {
    struct gb_node *node;
    const struct gb_edge *next;
};

struct walk {
    struct gb_schema *s;
    struct visit *stack;
    size_t depth;
    struct gb_map colours;
};

static int colour_of(const struct walk *w, const struct gb_node *n)
{
    const struct gb_map_entry *e = gb_map_get(&w->colours, (uintptr_t)n, 0);
    return e ? (int)e->value : WHITE;
}

static int leave(struct walk *w, struct gb_err *err)
{
    struct gb_node *node = w->stack[--w->depth].node;
    for (const struct gb_edge *e = node->edges; e; e = e->next)
        if (e->same_value && e->to->height + 1 > node->height)
            node->height = e->to->height + 1;
    if (node->height > HEIGHT_MOST)
        return gb_keyword_refuse(err, node->where,
                                 "more than %d references and combinations inside each other", HEIGHT_MOST);
    return gb_map_put(&w->colours, (uintptr_t)node, 0, BLACK) ? gb_arena_error(err) : 0;
}

static int enter(struct walk *w, struct gb_node *node, struct gb_err *err)
{
    w->stack[w->depth++] = (struct visit){node, node->edges};
    return gb_map_put(&w->colours, (uintptr_t)node, 0, GREY) ? gb_arena_error(err) : 0;
}

/* Depth first, with a stack of our own: a chain of references can be as long as there are nodes. */
static int visit_from(struct walk *w, struct gb_node *start, struct gb_err *err)
{
    int r = colour_of(w, start) == WHITE ? enter(w, start, err) : 0;
    while (!r && w->depth) {
        struct visit *top = &w->stack[w->depth - 1];
        const struct gb_edge *e = top->next;
        if (!e) {
            r = leave(w, err);
            continue;
        }
        top->next = e->next;
        if (!e->same_value || colour_of(w, e->to) == BLACK)
            continue;
        if (colour_of(w, e->to) == GREY)
            return gb_keyword_refuse(
                    err, top->node->where,
                    "refers to itself (by way of %.160s) without going deeper into the value: "
                    "checking it would never end",
                    *e->to->where ? e->to->where : "the top");
        r = enter(w, e->to, err);
    }
    return r;
}

int gb_graph_check(struct gb_schema *s, struct gb_err *err)
{
    struct walk w = {.s = s};
    int r = 0;
    w.stack = calloc(s->node_count + 1, sizeof(*w.stack));
    if (!w.stack)
        return gb_arena_error(err);
    for (size_t i = 0; i < s->node_count && !r; i++)
        r = visit_from(&w, s->nodes[i], err);
    free(w.stack);
    gb_map_done(&w.colours);
    s->root->edges_in++; /* the caller's */
    for (size_t i = 0; i < s->node_count; i++)
        for (const struct gb_edge *e = s->nodes[i]->edges; e; e = e->next)
            e->to->edges_in++;
    /* What only looks at the value itself is quicker done again than looked up. */
    for (size_t i = 0; i < s->node_count; i++)
        s->nodes[i]->shared = s->nodes[i]->edges_in > 1 && s->nodes[i]->edges;
    return r;
}
