/* The numbers of JSON as what was written, not as the nearest double: digits * 10^exponent. So 0.0075 is a
 * multiple of 0.0001, 1.0 is an integer, and 2^63 - 1 differs from its neighbours. A double stands for the
 * shortest text that reads as it. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* One form for each number: no zeros at the end of digits, zero is all zeros. */
struct gb_decimal {
    bool negative;
    uint64_t digits;
    int32_t exponent;
};

/* Of an integer or a real. */
struct gb_decimal gb_decimal_of(const json_t *number);
/* Below, at or above zero, as a is less than, equal to or more than b. */
int gb_decimal_compare(const struct gb_decimal *a, const struct gb_decimal *b);
bool gb_decimal_is_integer(const struct gb_decimal *a);
/* b must not be zero. */
bool gb_decimal_is_multiple(const struct gb_decimal *a, const struct gb_decimal *b);
/* The number if it is one from 0 to SIZE_MAX; false otherwise. */
bool gb_decimal_is_count(const struct gb_decimal *a, size_t *ret_count);
