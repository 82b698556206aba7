#include "broker/sql_walk.h"

#include "base/auto.h"

#include <ctype.h>
#include <string.h>

#define MAX_DEPTH 1000

/* --- reading messages by their descriptors --- */

const void *sql_walk_value(const ProtobufCMessage *m, const ProtobufCFieldDescriptor *f)
{
    return (const char *)m + f->offset;
}

size_t sql_walk_count(const ProtobufCMessage *m, const ProtobufCFieldDescriptor *f)
{
    const void *at = (const char *)m + f->quantifier_offset;
    return *(const size_t *)at;
}

/* Of the fields of which a message has one: is it this? */
static bool is_chosen(const ProtobufCMessage *m, const ProtobufCFieldDescriptor *f)
{
    const void *at = (const char *)m + f->quantifier_offset;
    return !(f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) || *(const uint32_t *)at == f->id;
}

static int position(const ProtobufCMessage *m)
{
    for (unsigned i = 0; i < m->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &m->descriptor->fields[i];
        if (!strcmp(f->name, "location") && f->type == PROTOBUF_C_TYPE_INT32)
            return *(const int32_t *)sql_walk_value(m, f);
    }
    return -1;
}

// NOLINTNEXTLINE(misc-no-recursion): a tree; sql_walk_node keeps to MAX_DEPTH
static void walk_field(struct sql_walk *w, const ProtobufCMessage *m, const ProtobufCFieldDescriptor *f)
{
    const void *at = sql_walk_value(m, f);
    if (f->type != PROTOBUF_C_TYPE_MESSAGE)
        return;
    if (f->label == PROTOBUF_C_LABEL_REPEATED) {
        for (size_t i = 0; i < sql_walk_count(m, f); i++)
            sql_walk_node(w, (*(ProtobufCMessage *const *const *)at)[i]);
    } else if (is_chosen(m, f) && *(const ProtobufCMessage *const *)at) {
        sql_walk_node(w, *(const ProtobufCMessage *const *)at);
    }
}

// NOLINTNEXTLINE(misc-no-recursion): likewise
void sql_walk_fields(struct sql_walk *w, const ProtobufCMessage *m, const char *but)
{
    for (unsigned i = 0; i < m->descriptor->n_fields; i++)
        if (!but || strcmp(m->descriptor->fields[i].name, but) != 0)
            walk_field(w, m, &m->descriptor->fields[i]);
}

void sql_walk_list(struct sql_walk *w, size_t count, PgQuery__Node *const *list)
{
    for (size_t i = 0; i < count; i++)
        sql_walk_node(w, &list[i]->base);
}

const char *sql_walk_word(const PgQuery__Node *node)
{
    return node->node_case == PG_QUERY__NODE__NODE_STRING ? node->string->sval : NULL;
}

/* --- refusals --- */

const char *sql_walk_where(const struct sql_walk *w, int at, char buf[32])
{
    buf[0] = '\0';
    if (at >= 0 && !w->strict)
        snprintf(buf, 32, " (character %d)", at + 1);
    return buf;
}

/* "CreateFunctionStmt" as CREATE FUNCTION; a few have better names. */
static void name_node(const char *name, char *buf, size_t size)
{
    static const char *const names[][2] = {
            {"VariableSetStmt", "SET"},
            {"VariableShowStmt", "SHOW"},
            {"TransactionStmt", "BEGIN, COMMIT or ROLLBACK"},
            {"LockingClause", "FOR UPDATE or FOR SHARE"},
            {"IntoClause", "SELECT INTO"},
            {"RangeTableSample", "TABLESAMPLE"},
            {"RangeTableFunc", "XMLTABLE"},
            {"CurrentOfExpr", "WHERE CURRENT OF"},
            {"DropdbStmt", "DROP DATABASE"},
            {"CreatedbStmt", "CREATE DATABASE"},
            {"RenameStmt", "ALTER"},
            {"DeclareCursorStmt", "DECLARE CURSOR"},
    };
    size_t len = 0, end = strlen(name);
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (!strcmp(names[i][0], name)) {
            snprintf(buf, size, "%s", names[i][1]);
            return;
        }
    if (end > 4 && !strcmp(name + end - 4, "Stmt"))
        end -= 4;
    for (size_t i = 0; i < end && len + 2 < size; i++) {
        if (i && isupper((unsigned char)name[i]) && islower((unsigned char)name[i - 1]))
            buf[len++] = ' ';
        buf[len++] = (char)toupper((unsigned char)name[i]);
    }
    buf[len] = '\0';
}

/* --- names --- */

static bool add_name(struct sql_walk *w, const char *name, int at)
{
    for (size_t i = 0; i < w->name_count; i++)
        if (!strcmp(w->names[i], name))
            return true;
    if (w->name_count == SQL_NAMES)
        return SQL_REFUSE(w, at, "use fewer", "there are more than %d different column names", SQL_NAMES);
    w->names[w->name_count++] = name;
    return true;
}

/* What stands for a row of the table that is changed: its name, that of the row which ON CONFLICT keeps out,
 * and those of the rows before and after, which RETURNING has since PostgreSQL 18. */
static bool is_target_row(const struct sql_walk *w, const char *name)
{
    return !strcmp(name, w->target_name) || !strcmp(name, "excluded") || !strcmp(name, "old") ||
           !strcmp(name, "new");
}

/* Where a table that is changed is in sight, all of its columns are; so names must be listed ones, or belong
 * to another table. */
static bool check_in_sight(struct sql_walk *w, const PgQuery__ColumnRef *ref)
{
    const char *first = sql_walk_word(ref->fields[0]), *last = sql_walk_word(ref->fields[ref->n_fields - 1]);
    if (!w->target_columns)
        return true;
    if (ref->n_fields == 2 && !is_target_row(w, first))
        return true;
    if (ref->n_fields == 1 && !last && !w->returning)
        return true; /* the * of a query inside */
    if (!last)
        return SQL_REFUSE(w, ref->location, NULL, "%s is not allowed here: name the columns", "*");
    if (ref->n_fields == 1 && is_target_row(w, last) && !sql_has_column(w->target_columns, last, false))
        return SQL_REFUSE(w, ref->location, NULL, "the whole row of %.63s is not allowed", last);
    if (!sql_has_column(w->target_columns, last, false))
        return SQL_REFUSE(w, ref->location, NULL,
                          "column %.63s is not allowed; write table.column for other tables", last);
    return true;
}

static bool visit_column(struct sql_walk *w, const ProtobufCMessage *m)
{
    const PgQuery__ColumnRef *ref = (const PgQuery__ColumnRef *)m;
    if (ref->n_fields < 1 || ref->n_fields > 2 || (ref->n_fields == 2 && !sql_walk_word(ref->fields[0])))
        return SQL_REFUSE(w, ref->location, "write table.column", "%s",
                          "a column may have one name before it, not two");
    if (ref->n_fields == 2 && sql_walk_word(ref->fields[1]) &&
        !add_name(w, sql_walk_word(ref->fields[1]), ref->location))
        return false;
    return check_in_sight(w, ref);
}

static bool visit_indirection(struct sql_walk *w, const ProtobufCMessage *m)
{
    const PgQuery__AIndirection *a = (const PgQuery__AIndirection *)m;
    for (size_t i = 0; i < a->n_indirection; i++)
        if (sql_walk_word(a->indirection[i]) && !add_name(w, sql_walk_word(a->indirection[i]), -1))
            return false;
    return true;
}

/* "a" or "pg_catalog"."a": the last name, or NULL. */
static const char *catalog_name(size_t count, PgQuery__Node *const *parts)
{
    if (count < 1 || count > 2 ||
        (count == 2 && (!sql_walk_word(parts[0]) || strcmp(sql_walk_word(parts[0]), "pg_catalog") != 0)))
        return NULL;
    return sql_walk_word(parts[count - 1]);
}

bool sql_walk_is_small(const PgQuery__Node *node)
{
    return node->node_case == PG_QUERY__NODE__NODE_A_CONST &&
           node->a_const->val_case == PG_QUERY__A__CONST__VAL_IVAL && node->a_const->ival->ival >= 0 &&
           node->a_const->ival->ival <= SQL_REPEAT_LIMIT;
}

/* A constant of %s, %I, %L and %%, perhaps with positions (%1$s): no widths, which make any length. */
static bool is_plain_format(const PgQuery__Node *node)
{
    if (node->node_case != PG_QUERY__NODE__NODE_A_CONST ||
        node->a_const->val_case != PG_QUERY__A__CONST__VAL_SVAL)
        return false;
    for (const char *p = strchr(node->a_const->sval->sval, '%'); p; p = strchr(p + 1, '%')) {
        const size_t digits = strspn(p + 1, "0123456789");
        p += digits && p[1 + digits] == '$' ? digits + 2 : 1;
        if (!*p || !strchr("sIL%", *p))
            return false;
    }
    return true;
}

/* Where the result grows with an argument, that must say how far in the statement itself. */
static bool check_growth(struct sql_walk *w, const PgQuery__FuncCall *f, const char *name, int count)
{
    if (count == SQL_FORMAT)
        return (f->n_args && is_plain_format(f->args[0])) ||
               SQL_REFUSE(w, f->location, "use %s, %I and %L, without widths",
                          "the first argument of %.63s must be a text with plain places", name);
    return !count || (f->n_args >= (size_t)count && sql_walk_is_small(f->args[count - 1])) ||
           SQL_REFUSE(w, f->location, NULL, "the length in %.63s must be a number of at most %d", name,
                      SQL_REPEAT_LIMIT);
}

static bool visit_function(struct sql_walk *w, const ProtobufCMessage *m)
{
    const PgQuery__FuncCall *f = (const PgQuery__FuncCall *)m;
    const char *name = catalog_name(f->n_funcname, f->funcname),
               *last = f->n_funcname ? sql_walk_word(f->funcname[f->n_funcname - 1]) : NULL;
    int count;
    /* What the policy adds may be of the tables' schema. */
    if (!name && last && f->n_funcname == 2 && !strcmp(sql_walk_word(f->funcname[0]), w->schema) &&
        sql_function_added(w->s, last))
        return true;
    if (!name || !sql_function_allowed(w->s, SQL_POSTGRESQL, name, &count))
        return SQL_REFUSE(w, f->location, SQL_WORDS_HINT, "function %.63s is not allowed", last ? last : "");
    return check_growth(w, f, name, count);
}

static bool visit_type(struct sql_walk *w, const ProtobufCMessage *m)
{
    static const char *const types[] = {
            "bool",      "int2",    "int4",      "int8",      "float4",      "float8",    "numeric",
            "money",     "text",    "varchar",   "bpchar",    "char",        "name",      "bytea",
            "date",      "time",    "timetz",    "timestamp", "timestamptz", "interval",  "uuid",
            "json",      "jsonb",   "jsonpath",  "inet",      "cidr",        "macaddr",   "macaddr8",
            "bit",       "varbit",  "point",     "line",      "lseg",        "box",       "path",
            "polygon",   "circle",  "tsvector",  "tsquery",   "int4range",   "int8range", "numrange",
            "daterange", "tsrange", "tstzrange",
    };
    const PgQuery__TypeName *t = (const PgQuery__TypeName *)m;
    const char *name = catalog_name(t->n_names, t->names);
    const bool pads = name && (!strcmp(name, "bpchar") || !strcmp(name, "bit"));
    for (size_t i = 0; pads && i < t->n_typmods; i++)
        if (!sql_walk_is_small(t->typmods[i]))
            return SQL_REFUSE(w, t->location, NULL, "the length of type %.63s must be at most %d", name,
                              SQL_REPEAT_LIMIT);
    for (size_t i = 0; name && !t->setof && !t->pct_type && i < ARRAY_LEN(types); i++)
        if (!strcmp(types[i], name))
            return true;
    return SQL_REFUSE(w, t->location, "use the common types for numbers, text, dates and JSON",
                      "type %.63s is not allowed", t->n_names ? sql_walk_word(t->names[t->n_names - 1]) : "");
}

static bool check_operator(struct sql_walk *w, size_t parts, int at)
{
    return parts <= 1 ||
           SQL_REFUSE(w, at, "write the operator alone", "%s is not allowed", "OPERATOR with a schema");
}

static bool visit_expression(struct sql_walk *w, const ProtobufCMessage *m)
{
    return check_operator(w, ((const PgQuery__AExpr *)m)->n_name, position(m));
}

static bool visit_sublink(struct sql_walk *w, const ProtobufCMessage *m)
{
    return check_operator(w, ((const PgQuery__SubLink *)m)->n_oper_name, position(m));
}

static bool visit_sort(struct sql_walk *w, const ProtobufCMessage *m)
{
    return check_operator(w, ((const PgQuery__SortBy *)m)->n_use_op, position(m));
}

static bool visit_collate(struct sql_walk *w, const ProtobufCMessage *m)
{
    const PgQuery__CollateClause *c = (const PgQuery__CollateClause *)m;
    return catalog_name(c->n_collname, c->collname) ||
           SQL_REFUSE(w, c->location, NULL, "%s is not allowed", "a collation with a schema");
}

static bool visit_value_function(struct sql_walk *w, const ProtobufCMessage *m)
{
    const PgQuery__SQLValueFunction *f = (const PgQuery__SQLValueFunction *)m;
    if (f->op >= PG_QUERY__SQLVALUE_FUNCTION_OP__SVFOP_CURRENT_DATE &&
        f->op <= PG_QUERY__SQLVALUE_FUNCTION_OP__SVFOP_LOCALTIMESTAMP_N)
        return true;
    return SQL_REFUSE(w, f->location, SQL_WORDS_HINT, "%s are not allowed",
                      "names of the user, the database or the schema");
}

static bool visit_param(struct sql_walk *w, const ProtobufCMessage *m)
{
    const PgQuery__ParamRef *p = (const PgQuery__ParamRef *)m;
    return (p->number >= 1 && (size_t)p->number <= w->params) ||
           SQL_REFUSE(w, p->location, "write the values into the statement", "%s are not available",
                      "parameters ($1)");
}

static bool pass(struct sql_walk *w, const ProtobufCMessage *m)
{
    (void)w;
    (void)m;
    return true;
}

/* Every kind of node that may be in a statement. */
static const struct {
    const ProtobufCMessageDescriptor *kind;
    sql_rule *visit;
} rules[] = {
        {&pg_query__node__descriptor, pass},
        {&pg_query__raw_stmt__descriptor, pass},
        {&pg_query__parse_result__descriptor, pass},
        {&pg_query__list__descriptor, pass},
        /* constants */
        {&pg_query__a__const__descriptor, pass},
        {&pg_query__integer__descriptor, pass},
        {&pg_query__float__descriptor, pass},
        {&pg_query__boolean__descriptor, pass},
        {&pg_query__string__descriptor, pass},
        {&pg_query__bit_string__descriptor, pass},
        /* statements */
        {&pg_query__select_stmt__descriptor, sql_walk_select},
        {&pg_query__insert_stmt__descriptor, sql_walk_insert},
        {&pg_query__update_stmt__descriptor, sql_walk_update},
        {&pg_query__delete_stmt__descriptor, sql_walk_delete},
        {&pg_query__on_conflict_clause__descriptor, pass},
        {&pg_query__infer_clause__descriptor, sql_walk_infer},
        {&pg_query__index_elem__descriptor, sql_walk_index},
        {&pg_query__multi_assign_ref__descriptor, pass},
        {&pg_query__set_to_default__descriptor, pass},
        /* their parts */
        {&pg_query__common_table_expr__descriptor, sql_walk_cte},
        {&pg_query__ctesearch_clause__descriptor, pass},
        {&pg_query__ctecycle_clause__descriptor, pass},
        {&pg_query__range_var__descriptor, sql_walk_table},
        {&pg_query__range_subselect__descriptor, pass},
        {&pg_query__range_function__descriptor, pass},
        {&pg_query__column_def__descriptor,
         pass}, /* what a function in FROM gives; constraints have no row */
        {&pg_query__join_expr__descriptor, pass},
        {&pg_query__alias__descriptor, pass},
        {&pg_query__res_target__descriptor, pass},
        {&pg_query__sort_by__descriptor, visit_sort},
        {&pg_query__window_def__descriptor, pass},
        {&pg_query__grouping_set__descriptor, pass},
        /* expressions */
        {&pg_query__column_ref__descriptor, visit_column},
        {&pg_query__a__star__descriptor, pass},
        {&pg_query__param_ref__descriptor, visit_param},
        {&pg_query__a__expr__descriptor, visit_expression},
        {&pg_query__bool_expr__descriptor, pass},
        {&pg_query__null_test__descriptor, pass},
        {&pg_query__boolean_test__descriptor, pass},
        {&pg_query__func_call__descriptor, visit_function},
        {&pg_query__named_arg_expr__descriptor, pass},
        {&pg_query__grouping_func__descriptor, pass},
        {&pg_query__sub_link__descriptor, visit_sublink},
        {&pg_query__case_expr__descriptor, pass},
        {&pg_query__case_when__descriptor, pass},
        {&pg_query__coalesce_expr__descriptor, pass},
        {&pg_query__min_max_expr__descriptor, pass},
        {&pg_query__sqlvalue_function__descriptor, visit_value_function},
        {&pg_query__row_expr__descriptor, pass},
        {&pg_query__a__array_expr__descriptor, pass},
        {&pg_query__a__indices__descriptor, pass},
        {&pg_query__a__indirection__descriptor, visit_indirection},
        {&pg_query__type_cast__descriptor, pass},
        {&pg_query__type_name__descriptor, visit_type},
        {&pg_query__collate_clause__descriptor, visit_collate},
};

// NOLINTNEXTLINE(misc-no-recursion): likewise
void sql_walk_node(struct sql_walk *w, const ProtobufCMessage *m)
{
    char name[64];
    if (w->depth == MAX_DEPTH) {
        if (!sql_answered(w->s))
            sql_deny(w->s, "split it into smaller parts", "the statement is nested too deeply");
        return;
    }
    for (size_t i = 0; i < ARRAY_LEN(rules); i++) {
        if (rules[i].kind != m->descriptor)
            continue;
        w->depth++;
        if (rules[i].visit(w, m))
            sql_walk_fields(w, m, NULL);
        w->depth--;
        return;
    }
    name_node(m->descriptor->short_name, name, sizeof(name));
    SQL_REFUSE(w, position(m), w->s->write ? NULL : "write one SELECT statement", "%s is not allowed", name);
}

void sql_walk_tree(struct sql_walk *w, const PgQuery__ParseResult *tree)
{
    if (tree->n_stmts == 0)
        sql_deny(w->s, "write one SELECT statement", "there is no statement, only comments or white space");
    else if (tree->n_stmts > 1)
        sql_deny(w->s, "send each statement in a call of its own", "there are %zu statements", tree->n_stmts);
    else
        sql_walk_node(w, &tree->base);
}
