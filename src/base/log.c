#include "base/log.h"

#include "base/auto.h"
#include "base/buf.h"
#include "base/json_write.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define LINE_BYTES  4096 /* a pipe takes this much in one piece (PIPE_BUF) */
#define FIELD_BYTES 512

/* The one thing in a library that is not an argument: a program has one log, and threads it through nothing.
 */
static struct {
    const char *program;
    enum gb_log_level least;
    bool json, asked, terminal;
} log_state = {.program = "glovebox", .least = GB_LOG_INFO, .json = true};

static const char *const level_names[] = {"debug", "info", "warn", "error"};

void gb_log_init(const char *program, enum gb_log_level least, enum gb_log_format format)
{
    log_state.program = program;
    log_state.least = least;
    /* Asked once: a process that is confined by now may not ask any more. */
    if (!log_state.asked)
        log_state.terminal = isatty(STDERR_FILENO);
    log_state.asked = true;
    log_state.json = format == GB_LOG_JSON || (format == GB_LOG_AUTO && !log_state.terminal);
}

static void add_json(struct gb_buf *line, const char *when, enum gb_log_level level, const char *message,
                     const struct gb_log_field *f)
{
    struct gb_json j = {.out = line, .first = true};
    gb_json_open(&j, NULL, '{');
    gb_json_text(&j, "ts", when);
    gb_json_text(&j, "level", level_names[level]);
    gb_json_text(&j, "program", log_state.program);
    gb_json_text(&j, "msg", message);
    for (; f->name; f++) {
        if (f->text)
            gb_json_bytes(&j, f->name, f->text, strnlen(f->text, FIELD_BYTES));
        else
            gb_json_int(&j, f->name, f->number);
    }
    gb_json_close(&j, '}');
}

static void add_text(struct gb_buf *line, const char *when, enum gb_log_level level, const char *message,
                     const struct gb_log_field *f)
{
    char value[FIELD_BYTES];
    gb_buf_printf(line, "%.8s %-5s %s: %s", when + 11, level_names[level], log_state.program, message);
    for (; f->name; f++) {
        if (f->text)
            snprintf(value, sizeof(value), "%s", f->text);
        else
            snprintf(value, sizeof(value), "%lld", (long long)f->number);
        gb_text_defuse(value);
        gb_buf_puts(line, " ");
        gb_buf_puts(line, f->name);
        gb_buf_puts(line, "=");
        gb_buf_puts(line, value);
    }
}

void gb_log_fields(enum gb_log_level level, const char *message, const struct gb_log_field *fields)
{
    char when[GB_TIME_BYTES];
    if (level < log_state.least)
        return;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    gb_text_time((int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000, when, sizeof(when));
    static char bytes[LINE_BYTES + 1]; /* a process that may not allocate can still log */
    struct gb_buf line = {.data = bytes, .size = sizeof(bytes), .max = LINE_BYTES};
    (log_state.json ? add_json : add_text)(&line, when, level, message, fields);
    /* Too long for one piece: a shorter line is better than half a JSON object. */
    if (gb_buf_truncated(&line)) {
        line.len = 0;
        line.seen = 0;
        const struct gb_log_field none = {NULL, NULL, 0};
        (log_state.json ? add_json : add_text)(&line, when, level, message, &none);
    }
    gb_buf_puts(&line, "\n");
    (void)!write(STDERR_FILENO, line.data, line.len);
}
