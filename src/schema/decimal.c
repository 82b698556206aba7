#include "schema/decimal.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

__extension__ typedef unsigned __int128 wide;

#define DIGITS_MOST 20 /* of a uint64_t */

static struct gb_decimal normal(bool negative, uint64_t digits, int32_t exponent)
{
    if (!digits)
        return (struct gb_decimal){0};
    for (; digits % 10 == 0; digits /= 10)
        exponent++;
    return (struct gb_decimal){negative, digits, exponent};
}

/* Reads what %e wrote, whatever the locale puts for the point. */
static struct gb_decimal read_scientific(const char *text)
{
    uint64_t digits = 0;
    int32_t behind = 0, exponent = 0;
    bool point = false;
    const bool negative = *text == '-';
    const char *p = text + negative;
    for (; *p && *p != 'e'; p++) {
        if (*p < '0' || *p > '9') {
            point = true;
            continue;
        }
        digits = digits * 10 + (uint64_t)(*p - '0');
        behind += point;
    }
    const bool small = *p && p[1] == '-';
    for (p += *p ? 2 : 0; *p; p++)
        exponent = exponent * 10 + (*p - '0');
    return normal(negative, digits, (small ? -exponent : exponent) - behind);
}

static struct gb_decimal shortest(double value)
{
    struct gb_decimal found = {0};
    /* Any 15 digits come back, but for the smallest numbers, which have fewer. */
    for (int precision = fabs(value) < DBL_MIN ? 1 : 15; precision <= 17; precision++) {
        char text[48];
        snprintf(text, sizeof(text), "%.*e", precision - 1, value);
        found = read_scientific(text);
        snprintf(text, sizeof(text), "%s%llue%d", found.negative ? "-" : "", (unsigned long long)found.digits,
                 found.exponent);
        if (strtod(text, NULL) == value) /* NOLINT: there is no point in it that a locale could change */
            break;
    }
    return found;
}

struct gb_decimal gb_decimal_of(const json_t *number)
{
    if (!json_is_integer(number))
        return shortest(json_real_value(number));
    const json_int_t value = json_integer_value(number);
    return normal(value < 0, value < 0 ? 0 - (uint64_t)value : (uint64_t)value, 0);
}

static int count_digits(uint64_t digits)
{
    int n = 0;
    for (; digits; digits /= 10)
        n++;
    return n;
}

static int compare_sizes(const struct gb_decimal *a, const struct gb_decimal *b)
{
    const int a_count = count_digits(a->digits), b_count = count_digits(b->digits);
    if (!a->digits || !b->digits)
        return (a->digits != 0) - (b->digits != 0);
    const int32_t a_top = a_count + a->exponent, b_top = b_count + b->exponent;
    if (a_top != b_top)
        return a_top < b_top ? -1 : 1;
    wide a_wide = a->digits, b_wide = b->digits;
    for (int i = a_count; i < DIGITS_MOST; i++)
        a_wide *= 10;
    for (int i = b_count; i < DIGITS_MOST; i++)
        b_wide *= 10;
    return (a_wide > b_wide) - (a_wide < b_wide);
}

int gb_decimal_compare(const struct gb_decimal *a, const struct gb_decimal *b)
{
    if (a->negative != b->negative)
        return a->negative ? -1 : 1;
    return a->negative ? compare_sizes(b, a) : compare_sizes(a, b);
}

bool gb_decimal_is_integer(const struct gb_decimal *a)
{
    return a->exponent >= 0;
}

bool gb_decimal_is_multiple(const struct gb_decimal *a, const struct gb_decimal *b)
{
    int32_t shift = a->exponent - b->exponent;
    wide rest = a->digits, divisor = b->digits;
    if (shift < -DIGITS_MOST)
        return !a->digits; /* b has more digits before its end than a has at all */
    for (; shift < 0; shift++)
        divisor *= 10;
    for (rest %= divisor; shift > 0 && rest; shift--)
        rest = rest * 10 % divisor;
    return rest == 0;
}

bool gb_decimal_is_count(const struct gb_decimal *a, size_t *ret_count)
{
    wide value = a->digits;
    if (a->negative || a->exponent < 0 || a->exponent > DIGITS_MOST)
        return false;
    for (int32_t i = 0; i < a->exponent; i++)
        value *= 10;
    if (value > SIZE_MAX)
        return false;
    *ret_count = (size_t)value;
    return true;
}
