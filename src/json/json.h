/* The one JSON reader: RFC 8259 to the letter by jansson, with our caps. Refused besides bad syntax: more
 * than GB_JSON_DEPTH levels or GB_JSON_VALUES values, duplicate keys, invalid UTF-8, lone surrogates, numbers
 * that fit neither int64 nor a double, anything behind the value. Linear in time, and in memory by those
 * caps. */
#pragma once

#include "base/err.h"

#include <jansson.h>
#include <stddef.h>

#define GB_JSON_DEPTH 64
#define GB_JSON_VALUES                                                                                       \
    200000 /* a value of two bytes can cost 300 bytes of memory: this bounds it to some 60 MB */

/* Reads one value. The error (GB_ERR_SYNTAX) says what was wrong and where (line, column), without control
 * characters. Any top-level value is taken. String values may hold NUL, so take their length; keys never do:
 * in a key, \u0000 reads as U+FFFD. */
int gb_json_read(const char *data, size_t len, json_t **ret_value, struct gb_err *err);

/* Seeds the hash of objects from the kernel, so that nobody can make keys that collide. gb_json_read does so
 * by itself; a program that builds objects before, or that confines itself, calls it first. */
void gb_json_seed(void);

static inline void gb_auto_json(json_t **j)
{
    json_decref(*j);
}
#define AUTO_JSON __attribute__((cleanup(gb_auto_json))) json_t *
