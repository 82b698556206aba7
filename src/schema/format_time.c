#include "schema/formats.h"

#include <string.h>

struct reader {
    const char *at, *end;
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool take(struct reader *r, const char *one_of)
{
    if (r->at == r->end || !*r->at || !strchr(one_of, *r->at))
        return false;
    r->at++;
    return true;
}

/* Exactly so many digits. */
static bool take_number(struct reader *r, int digits, unsigned *ret_number)
{
    *ret_number = 0;
    for (; digits; digits--) {
        if (r->at == r->end || !is_digit(*r->at))
            return false;
        *ret_number = *ret_number * 10 + (unsigned)(*r->at++ - '0');
    }
    return true;
}

static bool take_digits(struct reader *r)
{
    const char *from = r->at;
    while (r->at < r->end && is_digit(*r->at))
        r->at++;
    return r->at > from;
}

static bool take_date(struct reader *r)
{
    static const unsigned days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    unsigned year, month, day;
    if (!take_number(r, 4, &year) || !take(r, "-") || !take_number(r, 2, &month) || !take(r, "-") ||
        !take_number(r, 2, &day) || month < 1 || month > 12 || day < 1)
        return false;
    const bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    return day <= days[month - 1] + (leap && month == 2);
}

/* A leap second is the last of a day in UTC. */
static bool take_time(struct reader *r)
{
    unsigned hour, minute, second, off_hour = 0, off_minute = 0;
    if (!take_number(r, 2, &hour) || !take(r, ":") || !take_number(r, 2, &minute) || !take(r, ":") ||
        !take_number(r, 2, &second) || hour > 23 || minute > 59 || second > 60)
        return false;
    if (take(r, ".") && !take_digits(r))
        return false;
    int utc = (int)(hour * 60 + minute);
    if (!take(r, "zZ")) {
        const bool east = r->at < r->end && *r->at == '+';
        if (!take(r, "+-") || !take_number(r, 2, &off_hour) || !take(r, ":") ||
            !take_number(r, 2, &off_minute) || off_hour > 23 || off_minute > 59)
            return false;
        const int offset = (int)(off_hour * 60 + off_minute);
        utc = (utc + (east ? -offset : offset) + 24 * 60) % (24 * 60);
    }
    return second < 60 || utc == 24 * 60 - 1;
}

bool gb_formats_date(const char *text, size_t len)
{
    struct reader r = {text, text + len};
    return take_date(&r) && r.at == r.end;
}

bool gb_formats_time(const char *text, size_t len)
{
    struct reader r = {text, text + len};
    return take_time(&r) && r.at == r.end;
}

bool gb_formats_date_time(const char *text, size_t len)
{
    struct reader r = {text, text + len};
    return take_date(&r) && take(&r, "tT") && take_time(&r) && r.at == r.end;
}

/* Numbers with these units, in this order and without a gap. */
static bool take_units(struct reader *r, const char *units)
{
    const char *before = NULL;
    while (r->at < r->end && is_digit(*r->at)) {
        if (!take_digits(r) || r->at == r->end || !*r->at)
            return false;
        const char *unit = strchr(units, *r->at++);
        if (!unit || (before && unit != before + 1))
            return false;
        before = unit;
    }
    return before;
}

bool gb_formats_duration(const char *text, size_t len)
{
    struct reader r = {text, text + len}, weeks;
    if (!take(&r, "P"))
        return false;
    weeks = r;
    if (take_digits(&weeks) && take(&weeks, "W"))
        return weeks.at == weeks.end;
    const bool date = r.at < r.end && *r.at != 'T';
    if (date && !take_units(&r, "YMD"))
        return false;
    if (take(&r, "T"))
        return take_units(&r, "HMS") && r.at == r.end;
    return date && r.at == r.end;
}
