/* YAML that is JSON in other clothes: maps, lists and scalars become a JSON value. What would need a second
 * set of rules is refused by name: anchors, aliases, tags, merge keys, directives, several documents,
 * duplicate keys, keys that are not text. A plain scalar is null, true, false or a number as JSON writes
 * them, null if there is nothing, and else text: yes, 0x10 and ~ are text, so that the setting they are meant
 * for can say what to write. */
#pragma once

#include "base/err.h"
#include "json/json.h"

#define GB_YAML_DEPTH  32
#define GB_YAML_PATH   256
#define GB_YAML_VALUES 20000 /* names and values */

/* `file` begins the error texts, before the line; NULL for none. *ret_lines maps paths ("boxes.running",
 * "keys[1].name", "hosts[0]") to the lines where they begin. Errors are GB_ERR_CONFIG. An empty text is an
 * error: nobody means it. */
int gb_yaml_read(const char *text, size_t len, const char *file, json_t **ret_value, json_t **ret_lines,
                 struct gb_err *err);
/* What a plain scalar means; NULL if memory is short or the text is not UTF-8. */
json_t *gb_yaml_scalar(const char *text, size_t len);
