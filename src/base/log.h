/* One line per event on standard error: a JSON object, or text on a terminal. Fields are name-value pairs;
 * values are escaped, so that nothing a caller sends can end a line or steer a terminal. One write(2) per
 * line. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum gb_log_level { GB_LOG_DEBUG, GB_LOG_INFO, GB_LOG_WARN, GB_LOG_ERROR };
enum gb_log_format { GB_LOG_AUTO, GB_LOG_JSON, GB_LOG_TEXT };

/* `program` appears in every line. */
void gb_log_init(const char *program, enum gb_log_level least, enum gb_log_format format);

/* gb_log(GB_LOG_INFO, "call done", GB_S("id", id), GB_I("status", 200)); */
struct gb_log_field {
    const char *name;
    const char *text; /* NULL: a number */
    int64_t number;
};
static inline struct gb_log_field gb_log_text(const char *name, const char *text)
{
    return (struct gb_log_field){name, text ? text : "", 0};
}
#define GB_S(name, text)   gb_log_text((name), (text))
#define GB_I(name, number) ((struct gb_log_field){(name), NULL, (number)})
#define gb_log(level, message, ...)                                                                          \
    gb_log_fields(                                                                                           \
            (level), (message),                                                                              \
            (const struct gb_log_field[]){__VA_ARGS__ __VA_OPT__(, )(struct gb_log_field){NULL, NULL, 0}})
void gb_log_fields(enum gb_log_level level, const char *message, const struct gb_log_field *fields);
static inline void gb_log_plain(enum gb_log_level level, const char *message)
{
    gb_log_fields(level, message, &(const struct gb_log_field){NULL, NULL, 0});
}
