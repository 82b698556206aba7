#include "broker/sql_check.h"

#include "base/auto.h"
#include "base/buf.h"
#include "broker/sql_walk.h"

#include <stdlib.h>
#include <string.h>

/* The parser's tree has, at worst, one level for each of these, and libpg_query goes over it by recursion
 * with 2 KB for each: 6 of the stack's 8 MB. */
#define MAX_SIGNS   3000
#define MAX_REWRITE ((size_t)1 << 20)
#define MAX_PARAMS  256

struct tokens {
    PgQuery__ScanResult *all;
};

static void tokens_done(struct tokens *t)
{
    if (t->all)
        pg_query__scan_result__free_unpacked(t->all, NULL);
}
#define AUTO_TOKENS __attribute__((cleanup(tokens_done))) struct tokens

static void tree_done(PgQuery__ParseResult **tree)
{
    if (*tree)
        pg_query__parse_result__free_unpacked(*tree, NULL);
}
#define AUTO_TREE __attribute__((cleanup(tree_done))) PgQuery__ParseResult *

static void say_error(struct sql *s, const PgQueryError *error)
{
    if (error->cursorpos > 0)
        sql_fail(s, "%s (character %d)", error->message, error->cursorpos);
    else
        sql_fail(s, "%s", error->message);
}

static bool scan(struct sql *s, const char *text, struct tokens *ret)
{
    PgQueryScanResult scanned = pg_query_scan(text);
    if (scanned.error)
        say_error(s, scanned.error);
    else
        ret->all = pg_query__scan_result__unpack(NULL, scanned.pbuf.len, (const uint8_t *)scanned.pbuf.data);
    pg_query_free_scan_result(scanned);
    if (!ret->all && !sql_answered(s))
        sql_fail(s, "the statement cannot be read");
    return ret->all;
}

static bool parse(struct sql *s, const char *text, PgQuery__ParseResult **ret)
{
    PgQueryProtobufParseResult parsed = pg_query_parse_protobuf(text);
    if (parsed.error)
        say_error(s, parsed.error);
    else
        *ret = pg_query__parse_result__unpack(NULL, parsed.parse_tree.len,
                                              (const uint8_t *)parsed.parse_tree.data);
    pg_query_free_protobuf_parse_result(parsed);
    if (!*ret && !sql_answered(s))
        sql_fail(s, "the statement cannot be read");
    return *ret;
}

/* --- :name in the policy's own statements --- */

static size_t param_number(json_t *params, const char *name, size_t len)
{
    size_t i;
    const json_t *known;
    json_array_foreach(params, i, known)
        if (json_string_length(known) == len && !memcmp(json_string_value(known), name, len))
            return i + 1;
    json_array_append_new(params, json_stringn(name, len));
    return json_array_size(params);
}

/* A colon with a word directly behind it becomes $n. (In a slice, [1 : n], there is a space.) */
static bool number_params(struct sql *s, const struct tokens *tokens, json_t *params, struct gb_buf *out)
{
    size_t done = 0;
    for (size_t i = 0; i + 1 < tokens->all->n_tokens; i++) {
        const PgQuery__ScanToken *colon = tokens->all->tokens[i], *name = tokens->all->tokens[i + 1];
        if (colon->token != PG_QUERY__TOKEN__ASCII_58 || name->start != colon->end ||
            (name->token != PG_QUERY__TOKEN__IDENT &&
             name->keyword_kind == PG_QUERY__KEYWORD_KIND__NO_KEYWORD))
            continue;
        gb_buf_add(out, s->text + done, (size_t)colon->start - done);
        gb_buf_printf(out, "$%zu",
                      param_number(params, s->text + name->start, (size_t)(name->end - name->start)));
        done = (size_t)name->end;
    }
    gb_buf_puts(out, s->text + done);
    gb_buf_add(out, "", 1);
    if (out->failed || gb_buf_truncated(out) || json_array_size(params) > MAX_PARAMS) {
        sql_fail(s, "the tool's statement is too long or has more than %d parameters", MAX_PARAMS);
        return false;
    }
    return true;
}

/* --- the text that runs --- */

static int by_position(const void *a, const void *b)
{
    const struct sql_place *x = a, *y = b;
    return (x->at > y->at) - (x->at < y->at);
}

static void quote(struct gb_buf *out, const char *name)
{
    gb_buf_puts(out, "\"");
    for (; *name; name++) {
        if (*name == '"')
            gb_buf_puts(out, "\"");
        gb_buf_add(out, name, 1);
    }
    gb_buf_puts(out, "\"");
}

static bool is_comment(const PgQuery__ScanToken *t)
{
    return t->token == PG_QUERY__TOKEN__SQL_COMMENT || t->token == PG_QUERY__TOKEN__C_COMMENT;
}

/* The token that is `steps` behind token i, comments not counted, or NULL. */
static const PgQuery__ScanToken *token_after(const struct tokens *t, size_t i, int steps)
{
    for (; i < t->all->n_tokens; i++)
        if (!is_comment(t->all->tokens[i]) && steps-- == 0)
            return t->all->tokens[i];
    return NULL;
}

/* Where the name of a table ends; 0 if it is not written as a plain or quoted name. */
static size_t name_end(const struct tokens *t, const struct sql_place *p)
{
    size_t i = 0;
    while (i < t->all->n_tokens && t->all->tokens[i]->start != p->at)
        i++;
    const int steps = p->qualified ? 2 : 0;
    const PgQuery__ScanToken *first = token_after(t, i, 0), *dot = token_after(t, i, 1),
                             *last = token_after(t, i, steps), *next = token_after(t, i, steps + 1);
    if (!first || !last || first->start != p->at || first->token == PG_QUERY__TOKEN__UIDENT ||
        last->token == PG_QUERY__TOKEN__UIDENT)
        return 0;
    if (p->qualified && dot->token != PG_QUERY__TOKEN__ASCII_46)
        return 0;
    /* In `FROM t *` the star says "and those that inherit from it", which is so anyway. */
    if (next && (next->token == PG_QUERY__TOKEN__ASCII_46 || next->token == PG_QUERY__TOKEN__ASCII_42))
        return 0;
    return (size_t)last->end;
}

static void put_table(const struct sql_walk *w, const struct sql_place *p, struct gb_buf *out)
{
    const bool narrow = p->columns && !p->target;
    size_t i;
    const json_t *column;
    gb_buf_puts(out, narrow ? "(SELECT " : "");
    if (narrow)
        json_array_foreach(p->columns, i, column) {
            gb_buf_puts(out, i ? ", " : "");
            quote(out, json_string_value(column));
        }
    gb_buf_puts(out, narrow ? " FROM " : "");
    quote(out, w->schema);
    gb_buf_puts(out, ".");
    quote(out, p->table);
    gb_buf_puts(out, narrow ? ")" : "");
    if (narrow && !p->aliased) {
        gb_buf_puts(out, " AS ");
        quote(out, p->table);
    }
}

static bool rewrite(struct sql_walk *w, const char *text, const struct tokens *tokens, struct gb_buf *out)
{
    size_t done = 0;
    qsort(w->places, w->place_count, sizeof(w->places[0]), by_position);
    for (size_t i = 0; i < w->place_count; i++) {
        const struct sql_place *p = &w->places[i];
        const size_t end = name_end(tokens, p);
        if (!end || (size_t)p->at < done) {
            sql_deny(w->s, NULL, "write the name of table %.63s plainly, as in FROM %.63s", p->table,
                     p->table);
            return false;
        }
        gb_buf_add(out, text + done, (size_t)p->at - done);
        put_table(w, p, out);
        done = end;
    }
    gb_buf_puts(out, text + done);
    gb_buf_add(out, "", 1);
    if (out->failed || gb_buf_truncated(out)) {
        sql_deny(w->s, "use fewer tables", "the statement is too long");
        return false;
    }
    return true;
}

/* The same questions again, about the text that will run. It must come out with no table left to rewrite. */
static bool check_again(struct sql_walk *w, const char *text)
{
    AUTO_TREE tree = NULL;
    struct sql_walk *again = calloc(1, sizeof(*again));
    bool ok = again && parse(w->s, text, &tree);
    if (again && !ok) { /* TABLE t, and whatever else takes a name but no query */
        json_decref(w->s->call->result);
        w->s->call->result = NULL;
        w->s->call->failed = false;
        sql_deny(w->s, "write SELECT ... FROM the table",
                 "this form cannot be used with the listed columns of a table");
    }
    if (ok) {
        *again = (struct sql_walk){.s = w->s, .schema = w->schema, .params = w->params, .strict = true};
        sql_walk_tree(again, tree);
        ok = !sql_answered(w->s) && again->writes == w->writes && !again->place_count;
    }
    free(again);
    return ok;
}

static bool take(struct sql_walk *w, struct gb_buf *text, struct sql_checked *ret)
{
    ret->names = json_array();
    for (size_t i = 0; i < w->name_count; i++)
        json_array_append_new(ret->names, sql_text(w->names[i], strlen(w->names[i])));
    if (json_array_size(ret->names) != w->name_count) {
        sql_fail(w->s, "out of memory");
        return false;
    }
    ret->writes = w->writes;
    ret->text = TAKE_PTR(text->data);
    return true;
}

/* All but names, constants and commas: what nests. */
static size_t count_signs(const struct tokens *t)
{
    static const PgQuery__Token flat[] = {PG_QUERY__TOKEN__IDENT, PG_QUERY__TOKEN__ICONST,
                                          PG_QUERY__TOKEN__FCONST, PG_QUERY__TOKEN__SCONST,
                                          PG_QUERY__TOKEN__ASCII_44};
    size_t count = t->all->n_tokens;
    for (size_t i = 0; i < t->all->n_tokens; i++)
        for (size_t k = 0; k < ARRAY_LEN(flat); k++)
            count -= t->all->tokens[i]->token == flat[k];
    return count;
}

static bool check_text(struct sql_walk *w, const char *text, struct sql_checked *ret)
{
    AUTO_TOKENS tokens = {0};
    AUTO_TREE tree = NULL;
    AUTO_BUF out = {.max = MAX_REWRITE};
    if (!scan(w->s, text, &tokens))
        return false;
    if (count_signs(&tokens) > MAX_SIGNS) {
        sql_deny(w->s, "split it into smaller parts", "the statement has more than %d keywords and signs",
                 MAX_SIGNS);
        return false;
    }
    if (!parse(w->s, text, &tree))
        return false;
    sql_walk_tree(w, tree);
    if (sql_answered(w->s) || !rewrite(w, text, &tokens, &out))
        return false;
    if (!check_again(w, out.data)) {
        if (!sql_answered(w->s))
            sql_deny(w->s, NULL, "the statement is not understood well enough to be allowed");
        return false;
    }
    return take(w, &out, ret);
}

bool sql_check(struct sql *s, const char *schema, struct sql_checked *ret)
{
    AUTO_BUF numbered = {.max = SQL_TEXT_BYTES + MAX_PARAMS};
    AUTO_TOKENS tokens = {0};
    AUTO_FREE struct sql_walk *w = calloc(1, sizeof(*w));
    ret->params = json_array();
    if (!w || !ret->params) {
        sql_fail(s, "out of memory");
        return false;
    }
    *w = (struct sql_walk){.s = s, .schema = schema};
    if (!s->fixed)
        return check_text(w, s->text, ret);
    if (!scan(s, s->text, &tokens) || !number_params(s, &tokens, ret->params, &numbered))
        return false;
    w->params = json_array_size(ret->params);
    return check_text(w, numbered.data, ret);
}

void sql_check_done(struct sql_checked *c)
{
    free(c->text);
    json_decref(c->names);
    json_decref(c->params);
}
