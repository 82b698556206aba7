/* JSON Schema, 2020-12 and draft-07, on jansson values: compiled once, then used for any number of values.
 *
 * Compiling refuses what could not be kept: keywords that are not of the schema's own draft or vocabulary,
 * references to anything that is neither in the schema nor among the documents given (nothing is ever
 * fetched), patterns that PCRE2 or our limits refuse. Validation is linear in the size of the value for a
 * given schema, bounded in depth and in steps; what cannot be decided within the bounds is not valid.
 *
 * Errors are for a model to act on: the path in the arguments and what was expected. */
#pragma once

#include "base/err.h"
#include "json/json.h"

#include <stdbool.h>
#include <stdint.h>

#define GB_SCHEMA_PROBLEMS 8

struct gb_schema;

struct gb_schema_options {
    /* Unknown keywords, in a user's schema most often a misspelt one, are refused; the official tests have
     * some that must be ignored. */
    bool ignore_unknown;
    /* A tool takes what it names: unless the top of the schema says something about further members
     * ("additionalProperties", "unevaluatedProperties"), those are refused that nothing which applies to the
     * whole value names, be it there, in an allOf, a fitting anyOf or oneOf, or by a reference. */
    bool closed;
    /* format is an assertion for the formats that we know, not only a remark. */
    bool assert_format;
    /* URL -> schema, besides the two drafts' own; NULL: none. */
    const json_t *documents;
};

struct gb_schema_problem {
    char path[160]; /* "arguments.items[3].name": `root` and then members and indices */
    char text[256]; /* "must be a whole number, at most 10; it is 50" */
};

/* The error has the code GB_ERR_CONFIG and names the place in the schema as a JSON pointer. Keeps its own
 * copy of the schema. */
int gb_schema_new(const json_t *schema, const struct gb_schema_options *options, struct gb_schema **ret,
                  struct gb_err *err);
void gb_schema_free(struct gb_schema *s);
/* Returns how many problems were found, at most GB_SCHEMA_PROBLEMS, and fills them in; 0: the value is valid.
 * root: what the value is called in paths. */
size_t gb_schema_check(const struct gb_schema *s, const json_t *value, const char *root,
                       struct gb_schema_problem ret[GB_SCHEMA_PROBLEMS]);
/* The same, and how many steps it took: what tests of its bounds count. */
size_t gb_schema_check_steps(const struct gb_schema *s, const json_t *value, const char *root,
                             struct gb_schema_problem ret[GB_SCHEMA_PROBLEMS], uint64_t *ret_steps);

/* Whether it is certain that the value does not fit. What cannot be decided within the bounds is not certain:
 * for schemas that say when to be careful, where gb_schema_check would be careless. */
bool gb_schema_excludes(const struct gb_schema *s, const json_t *value);

static inline void gb_auto_schema(struct gb_schema **s)
{
    gb_schema_free(*s);
}
#define AUTO_SCHEMA __attribute__((cleanup(gb_auto_schema))) struct gb_schema *
