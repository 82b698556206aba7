/* Tables, WITH, SELECT, and the statements that write. */
#include "broker/sql_walk.h"

#include "base/auto.h"

#include <string.h>

/* --- tables --- */

static bool is_cte(const struct sql_walk *w, const char *name)
{
    for (size_t i = 0; i < w->cte_count; i++)
        if (!strcmp(w->ctes[i], name))
            return true;
    return false;
}

static bool add_place(struct sql_walk *w, const PgQuery__RangeVar *v, const json_t *columns, bool target)
{
    if (w->place_count == SQL_PLACES)
        return SQL_REFUSE(w, v->location, "use fewer tables", "there are more than %d tables", SQL_PLACES);
    w->places[w->place_count++] = (struct sql_place){
            .at = v->location,
            .table = v->relname,
            .columns = columns,
            .qualified = *v->schemaname,
            .target = target,
            .aliased = v->alias,
    };
    return true;
}

static bool check_table(struct sql_walk *w, const PgQuery__RangeVar *v, bool target,
                        const json_t **ret_columns)
{
    const bool ours = !strcmp(v->schemaname, w->schema);
    *ret_columns = NULL;
    if (*v->catalogname || (*v->schemaname && !ours))
        return SQL_REFUSE(w, v->location, NULL, "schema %.63s is not allowed", v->schemaname);
    if (!v->inh)
        return SQL_REFUSE(w, v->location, NULL, "%s is not allowed", "ONLY");
    if (!sql_listed(w->s, v->relname, false, ret_columns))
        return SQL_REFUSE(w, v->location, NULL, "table %.63s is not allowed", v->relname);
    if (!w->strict)
        return add_place(w, v, *ret_columns, target);
    if (!ours || (*ret_columns && !target))
        return SQL_REFUSE(w, v->location, NULL, "table %.63s cannot be used in this form", v->relname);
    return true;
}

bool sql_walk_table(struct sql_walk *w, const ProtobufCMessage *m)
{
    const PgQuery__RangeVar *v = (const PgQuery__RangeVar *)m;
    const json_t *columns;
    if (!*v->schemaname && !*v->catalogname && is_cte(w, v->relname))
        return true;
    return check_table(w, v, false, &columns);
}

/* Has it nothing but these two lists? */
static bool has_only(const ProtobufCMessage *m, const char *one, const char *other)
{
    for (unsigned i = 0; i < m->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &m->descriptor->fields[i];
        if (f->type != PROTOBUF_C_TYPE_MESSAGE || !strcmp(f->name, one) || !strcmp(f->name, other))
            continue;
        if (f->label == PROTOBUF_C_LABEL_REPEATED ? sql_walk_count(m, f) != 0
                                                  : *(void *const *)sql_walk_value(m, f) != NULL)
            return false;
    }
    return true;
}

static bool is_listed_column(const PgQuery__Node *node, const json_t *columns)
{
    const PgQuery__ResTarget *target = node->res_target;
    if (node->node_case != PG_QUERY__NODE__NODE_RES_TARGET || target->n_indirection || !target->val ||
        target->val->node_case != PG_QUERY__NODE__NODE_COLUMN_REF)
        return false;
    const PgQuery__ColumnRef *ref = target->val->column_ref;
    return ref->n_fields == 1 && sql_walk_word(ref->fields[0]) &&
           sql_has_column(columns, sql_walk_word(ref->fields[0]), false);
}

/* The form that sql_check.c gives to a table of which only some columns are listed, and nothing more. */
static bool is_narrow_form(const struct sql_walk *w, const PgQuery__SelectStmt *s)
{
    const json_t *columns = NULL;
    if (s->n_from_clause != 1 || s->from_clause[0]->node_case != PG_QUERY__NODE__NODE_RANGE_VAR)
        return false;
    const PgQuery__RangeVar *v = s->from_clause[0]->range_var;
    if (strcmp(v->schemaname, w->schema) != 0 || *v->catalogname || v->alias || !v->inh ||
        !sql_listed(w->s, v->relname, false, &columns) || !columns)
        return false;
    for (size_t i = 0; i < s->n_target_list; i++)
        if (!is_listed_column(s->target_list[i], columns))
            return false;
    return s->op == PG_QUERY__SET_OPERATION__SETOP_NONE && has_only(&s->base, "from_clause", "target_list");
}

/* --- WITH and the statements that may have it --- */

static bool add_cte(struct sql_walk *w, const PgQuery__Node *node)
{
    const PgQuery__CommonTableExpr *cte = node->common_table_expr;
    if (node->node_case != PG_QUERY__NODE__NODE_COMMON_TABLE_EXPR)
        return false;
    /* A name that is no table of ours is looked up in pg_catalog: it must not be one of there. */
    if (!strncmp(cte->ctename, "pg_", 3))
        return SQL_REFUSE(w, cte->location, "choose another name", "the name %.63s is reserved",
                          cte->ctename);
    if (w->cte_count == SQL_NAMES)
        return SQL_REFUSE(w, cte->location, "use fewer", "there are more than %d WITH clauses", SQL_NAMES);
    w->ctes[w->cte_count++] = cte->ctename;
    return true;
}

static void enter_with(struct sql_walk *w, const PgQuery__WithClause *with)
{
    for (size_t i = 0; with && with->recursive && i < with->n_ctes; i++)
        add_cte(w, with->ctes[i]);
    for (size_t i = 0; with && i < with->n_ctes; i++) {
        sql_walk_node(w, &with->ctes[i]->base);
        if (!with->recursive)
            add_cte(w, with->ctes[i]);
    }
}

bool sql_walk_cte(struct sql_walk *w, const ProtobufCMessage *m)
{
    const PgQuery__CommonTableExpr *cte = (const PgQuery__CommonTableExpr *)m;
    if (cte->ctequery && cte->ctequery->node_case == PG_QUERY__NODE__NODE_SELECT_STMT)
        return true;
    return SQL_REFUSE(w, cte->location, NULL, "WITH %.63s: only SELECT is allowed there", cte->ctename);
}

bool sql_walk_select(struct sql_walk *w, const ProtobufCMessage *m)
{
    const PgQuery__SelectStmt *s = (const PgQuery__SelectStmt *)m;
    const size_t outer = w->cte_count;
    if (w->strict && is_narrow_form(w, s))
        return false;
    enter_with(w, s->with_clause);
    sql_walk_fields(w, m, "with_clause");
    w->cte_count = outer;
    return false;
}

/* --- statements that write --- */

static bool begin_write(struct sql_walk *w, const PgQuery__RangeVar *v, const char *words)
{
    const json_t *columns;
    if (!w->s->write)
        return SQL_REFUSE(w, -1, NULL, "the tool only reads: %s is not allowed", words);
    if (w->depth > 4) /* result, raw statement, node, statement */
        return SQL_REFUSE(w, -1, NULL, "%s is allowed as the whole statement only", words);
    w->writes = true;
    if (!check_table(w, v, true, &columns))
        return false;
    w->target_columns = columns;
    w->target_name = v->alias ? v->alias->aliasname : v->relname;
    return true;
}

/* Setting a[n] makes an array of n, and likewise in JSON, where '5' is a number too. */
static bool is_small_subscript(const PgQuery__Node *node)
{
    const PgQuery__Node *const ends[] = {node->a_indices->lidx, node->a_indices->uidx};
    for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
        const PgQuery__AConst *c =
                ends[i] && ends[i]->node_case == PG_QUERY__NODE__NODE_A_CONST ? ends[i]->a_const : NULL;
        const bool key =
                c && c->val_case == PG_QUERY__A__CONST__VAL_SVAL && !strpbrk(c->sval->sval, "0123456789");
        if (ends[i] && !key && !sql_walk_is_small(ends[i]))
            return false;
    }
    return true;
}

static void check_subscripts(struct sql_walk *w, const PgQuery__ResTarget *target)
{
    for (size_t i = 0; i < target->n_indirection; i++)
        if (target->indirection[i]->node_case == PG_QUERY__NODE__NODE_A_INDICES &&
            !is_small_subscript(target->indirection[i]))
            SQL_REFUSE(w, target->location, NULL,
                       "the subscript of %.63s must be a number of at most %d, or a key without digits",
                       target->name, SQL_REPEAT_LIMIT);
}

/* What is set must be listed. */
static void check_set(struct sql_walk *w, const json_t *columns, size_t count, PgQuery__Node *const *list)
{
    for (size_t i = 0; i < count; i++)
        if (list[i]->node_case != PG_QUERY__NODE__NODE_RES_TARGET ||
            !sql_has_column(columns, list[i]->res_target->name, false))
            SQL_REFUSE(w,
                       list[i]->node_case == PG_QUERY__NODE__NODE_RES_TARGET ? list[i]->res_target->location
                                                                             : -1,
                       NULL, "column %.63s is not allowed",
                       list[i]->node_case == PG_QUERY__NODE__NODE_RES_TARGET ? list[i]->res_target->name
                                                                             : "");
        else
            check_subscripts(w, list[i]->res_target);
}

static void walk_returning(struct sql_walk *w, size_t count, PgQuery__Node *const *list)
{
    w->returning = true;
    sql_walk_list(w, count, list);
    w->returning = false;
}

bool sql_walk_insert(struct sql_walk *w, const ProtobufCMessage *m)
{
    const PgQuery__InsertStmt *s = (const PgQuery__InsertStmt *)m;
    const PgQuery__OnConflictClause *conflict = s->on_conflict_clause;
    if (!begin_write(w, s->relation, "INSERT"))
        return false;
    const json_t *columns = w->target_columns;
    if (columns && s->select_stmt && !s->n_cols)
        return SQL_REFUSE(w, s->relation->location, NULL, "INSERT must name the columns of %.63s",
                          s->relation->relname);
    check_set(w, columns, s->n_cols, s->cols);
    if (conflict)
        check_set(w, columns, conflict->n_target_list, conflict->target_list);
    w->target_columns = NULL; /* not in sight of WITH and SELECT */
    enter_with(w, s->with_clause);
    if (s->select_stmt)
        sql_walk_node(w, &s->select_stmt->base);
    w->target_columns = columns;
    sql_walk_list(w, s->n_cols, s->cols);
    if (conflict)
        sql_walk_node(w, &conflict->base);
    walk_returning(w, s->n_returning_list, s->returning_list);
    return false;
}

bool sql_walk_update(struct sql_walk *w, const ProtobufCMessage *m)
{
    const PgQuery__UpdateStmt *s = (const PgQuery__UpdateStmt *)m;
    if (!begin_write(w, s->relation, "UPDATE"))
        return false;
    check_set(w, w->target_columns, s->n_target_list, s->target_list);
    enter_with(w, s->with_clause);
    sql_walk_list(w, s->n_target_list, s->target_list);
    sql_walk_list(w, s->n_from_clause, s->from_clause);
    if (s->where_clause)
        sql_walk_node(w, &s->where_clause->base);
    walk_returning(w, s->n_returning_list, s->returning_list);
    return false;
}

bool sql_walk_delete(struct sql_walk *w, const ProtobufCMessage *m)
{
    const PgQuery__DeleteStmt *s = (const PgQuery__DeleteStmt *)m;
    if (!begin_write(w, s->relation, "DELETE"))
        return false;
    if (w->target_columns)
        return SQL_REFUSE(w, s->relation->location, SQL_ROWS_HINT, SQL_ROWS_REASON, "DELETE",
                          s->relation->relname);
    enter_with(w, s->with_clause);
    sql_walk_list(w, s->n_using_clause, s->using_clause);
    if (s->where_clause)
        sql_walk_node(w, &s->where_clause->base);
    walk_returning(w, s->n_returning_list, s->returning_list);
    return false;
}

bool sql_walk_infer(struct sql_walk *w, const ProtobufCMessage *m)
{
    const PgQuery__InferClause *infer = (const PgQuery__InferClause *)m;
    return !*infer->conname || SQL_REFUSE(w, infer->location, NULL, "%s is not allowed", "ON CONSTRAINT");
}

bool sql_walk_index(struct sql_walk *w, const ProtobufCMessage *m)
{
    const PgQuery__IndexElem *index = (const PgQuery__IndexElem *)m;
    if (index->n_opclass || index->n_opclassopts || index->n_collation)
        return SQL_REFUSE(w, -1, NULL, "%s is not allowed in ON CONFLICT", "an operator class or collation");
    if (*index->name && !sql_has_column(w->target_columns, index->name, false))
        return SQL_REFUSE(w, -1, NULL, "column %.63s is not allowed", index->name);
    return true;
}
