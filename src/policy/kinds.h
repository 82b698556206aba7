/* What the kinds of tools need. Private to src/policy. */
#pragma once

#include "policy/build.h"

/* The parameters of a tool for which none were written; owned by the caller, NULL if memory is short.
 * (parameters.c) */
json_t *gb_kind_parameters(enum gb_tool_kind kind, const json_t *spec);
/* What the parameters say about an argument: its schema, or NULL. It may stand in `properties`, at the top or
 * in a part of allOf, anyOf or oneOf, also behind a $ref. */
const json_t *gb_kind_property(const json_t *parameters, const char *name);
/* It is always there: required, or with a default. */
bool gb_kind_is_sure(const json_t *parameters, const char *name);
/* Could a value of this type be given? Only what `type` says is looked at. */
bool gb_kind_takes(const json_t *property, const char *type);

/* Refuses a tool whose kind's own fields contradict each other, the parameters or the secrets. (kinds.c) */
int gb_kind_check(struct gb_build *b, const struct gb_tool *tool, const char *path);
int gb_kind_check_sql(struct gb_build *b, const struct gb_tool *tool, const char *path);
int gb_kind_check_http(struct gb_build *b, const struct gb_tool *tool, const char *path);
int gb_kind_check_email(struct gb_build *b, const struct gb_tool *tool, const char *path);

/* What a text of the policy may hold. */
enum gb_kind_text {
    GB_TEXT_ARGUMENTS = 1, /* {name} */
    GB_TEXT_SECRETS = 2,   /* {secret:NAME} */
    GB_TEXT_OPTIONAL = 4,  /* a text that is exactly {name} may be left out */
    GB_TEXT_ABSENT = 8,    /* all of it is left out if an argument is absent */
    GB_TEXT_ANY_TYPE = 16, /* a text that is exactly {name} becomes whatever it is */
    GB_TEXT_ONE_LINE = 32, /* no control characters, neither written nor in a secret */
};
int gb_kind_check_text(struct gb_build *b, const struct gb_tool *tool, const char *path, const char *text,
                       unsigned may);
/* The tool's parameters must name this argument, of type text and always there. */
int gb_kind_need_text(struct gb_build *b, const struct gb_tool *tool, const char *path, const char *name);
/* Does any text hold a secret? */
bool gb_kind_has_secret(const char *text);
