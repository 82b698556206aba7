#include "config/yaml.h"

#include "base/auto.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <yaml.h>

/* A list or map that is being read. */
struct level {
    json_t *container; /* held by the one around it, the first by the reader */
    char *name;        /* of the value that comes next in a map; NULL: a name comes next */
    size_t name_line;
    char path[GB_YAML_PATH];
};

struct reader {
    yaml_parser_t parser;
    const char *file;
    struct gb_err *err;
    json_t *root, *lines;
    struct level levels[GB_YAML_DEPTH];
    size_t depth, values;
};

#define AUTO_EVENT     __attribute__((cleanup(yaml_event_delete))) yaml_event_t
#define TEXT(macro)    TEXT_OF(macro)
#define TEXT_OF(value) #value

static int refuse(struct reader *r, size_t line, const char *what)
{
    if (r->file)
        return gb_err_set(r->err, GB_ERR_CONFIG, 0, "%.200s:%zu: %s", r->file, line + 1, what);
    return gb_err_set(r->err, GB_ERR_CONFIG, 0, "line %zu: %s", line + 1, what);
}

static int no_memory(struct reader *r)
{
    return gb_err_set(r->err, GB_ERR_INTERNAL, ENOMEM, "read YAML");
}

static int next(struct reader *r, yaml_event_t *event)
{
    char text[256];
    if (yaml_parser_parse(&r->parser, event))
        return 0;
    memset(event, 0, sizeof(*event));
    if (r->parser.error == YAML_MEMORY_ERROR)
        return no_memory(r);
    const char *problem = r->parser.problem ? r->parser.problem : "unknown error";
    const char *context = r->parser.context ? r->parser.context : "";
    if (r->parser.error == YAML_READER_ERROR) { /* it knows only the line that it has come to */
        snprintf(text, sizeof(text), "this is not text that YAML allows: %s", problem);
        return refuse(r, r->parser.mark.line, text);
    }
    snprintf(text, sizeof(text), "this is not YAML: %s%s%s", context, *context ? ", " : "", problem);
    return refuse(r, r->parser.problem_mark.line, text);
}

json_t *gb_yaml_scalar(const char *text, size_t len)
{
    json_t *value = NULL;
    if (!len)
        return json_null();
    /* JSON's own reader knows best what JSON's scalars are; it is not asked about brackets and quotes. */
    if (text[0] && strchr("-0123456789ntf", text[0]) && !gb_json_read(text, len, &value, NULL))
        return value;
    return json_stringn(text, len);
}

/* What the value that comes next is called. A path that does not fit names nothing, wherever it was cut. */
static void path_of(const struct level *level, char path[GB_YAML_PATH])
{
    if (level->name)
        snprintf(path, GB_YAML_PATH, "%s%s%s", level->path, *level->path ? "." : "", level->name);
    else
        snprintf(path, GB_YAML_PATH, "%s[%zu]", level->path, json_array_size(level->container));
}

/* The value belongs to the list or map that is being read, or is the whole document. Takes it over, also if
 * it fails. */
static int add(struct reader *r, json_t *value, size_t line)
{
    struct level *level = r->depth ? &r->levels[r->depth - 1] : NULL;
    if (!value)
        return no_memory(r);
    if (!level) {
        r->root = value;
        return 0;
    }
    char path[GB_YAML_PATH];
    path_of(level, path);
    line = level->name ? level->name_line : line;
    int failed = level->name ? json_object_set_new(level->container, level->name, value)
                             : json_array_append_new(level->container, value);
    failed |= json_object_set_new_nocheck(r->lines, path, json_integer((json_int_t)line + 1));
    free(level->name);
    level->name = NULL;
    return failed ? no_memory(r) : 0;
}

/* Into a new list or map. */
static int enter(struct reader *r, json_t *container, size_t line)
{
    const struct level *outer = r->depth ? &r->levels[r->depth - 1] : NULL;
    struct level inner = {.container = container};
    if (r->depth == GB_YAML_DEPTH) {
        json_decref(container);
        return refuse(r, line, "more than " TEXT(GB_YAML_DEPTH) " levels");
    }
    if (outer)
        path_of(outer, inner.path);
    int e = add(r, container, line);
    if (!e)
        r->levels[r->depth++] = inner;
    return e;
}

static int take_name(struct reader *r, const yaml_event_t *event)
{
    struct level *level = &r->levels[r->depth - 1];
    const size_t line = event->start_mark.line;
    const char *name = (const char *)event->data.scalar.value;
    char text[160];
    if (strlen(name) != event->data.scalar.length)
        return refuse(r, line, "a name must not hold NUL");
    if (!strcmp(name, "<<"))
        return refuse(r, line, "merge keys (<<) are not taken; write it out");
    if (json_object_get(level->container, name)) {
        snprintf(text, sizeof(text), "%.100s is there twice", name);
        return refuse(r, line, text);
    }
    level->name_line = line;
    level->name = strdup(name);
    return level->name ? 0 : no_memory(r);
}

static int take_scalar(struct reader *r, const yaml_event_t *event)
{
    const char *text = (const char *)event->data.scalar.value;
    const size_t len = event->data.scalar.length;
    const bool plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    return add(r, plain ? gb_yaml_scalar(text, len) : json_stringn(text, len), event->start_mark.line);
}

static bool is_marked(const yaml_event_t *e)
{
    return (e->type == YAML_SCALAR_EVENT && (e->data.scalar.anchor || e->data.scalar.tag)) ||
           (e->type == YAML_SEQUENCE_START_EVENT &&
            (e->data.sequence_start.anchor || e->data.sequence_start.tag)) ||
           (e->type == YAML_MAPPING_START_EVENT &&
            (e->data.mapping_start.anchor || e->data.mapping_start.tag));
}

/* One event inside the document. */
static int take(struct reader *r, const yaml_event_t *event)
{
    const struct level *level = r->depth ? &r->levels[r->depth - 1] : NULL;
    const bool name_comes = level && json_is_object(level->container) && !level->name;
    const size_t line = event->start_mark.line;
    if (event->type == YAML_SEQUENCE_END_EVENT || event->type == YAML_MAPPING_END_EVENT) {
        r->depth--;
        return 0;
    }
    if (++r->values > GB_YAML_VALUES)
        return refuse(r, line, "more than " TEXT(GB_YAML_VALUES) " names and values");
    if (event->type == YAML_ALIAS_EVENT)
        return refuse(r, line, "aliases (*name) are not taken; write it out");
    if (is_marked(event))
        return refuse(r, line, "anchors (&name) and tags (!name) are not taken; write it out");
    if (event->type == YAML_SCALAR_EVENT)
        return name_comes ? take_name(r, event) : take_scalar(r, event);
    if (name_comes)
        return refuse(r, line, "a name must be text, not a list or map");
    return enter(r, event->type == YAML_SEQUENCE_START_EVENT ? json_array() : json_object(), line);
}

static int take_document(struct reader *r)
{
    do {
        AUTO_EVENT event = {0};
        int e = next(r, &event);
        e = e ? e : take(r, &event);
        if (e)
            return e;
    } while (r->depth);
    return 0;
}

/* From the start of the stream to its end: exactly one document. */
static int take_stream(struct reader *r)
{
    AUTO_EVENT start = {0};
    AUTO_EVENT document = {0};
    AUTO_EVENT end = {0};
    AUTO_EVENT after = {0};
    int e = next(r, &start);
    e = e ? e : next(r, &document);
    if (e)
        return e;
    if (document.type != YAML_DOCUMENT_START_EVENT)
        return refuse(r, 0, "there is nothing in it; to have the defaults, have no file, or write {}");
    if (document.data.document_start.version_directive ||
        document.data.document_start.tag_directives.start != document.data.document_start.tag_directives.end)
        return refuse(r, document.start_mark.line, "directives (%YAML, %TAG) are not taken; leave them out");
    e = take_document(r);
    e = e ? e : next(r, &end);
    e = e ? e : next(r, &after);
    if (!e && after.type != YAML_STREAM_END_EVENT)
        return refuse(r, after.start_mark.line, "a second document begins here; there must be only one");
    return e;
}

int gb_yaml_read(const char *text, size_t len, const char *file, json_t **ret_value, json_t **ret_lines,
                 struct gb_err *err)
{
    struct reader r = {.file = file, .err = err};
    gb_json_seed();
    AUTO_JSON lines = json_object();
    if (!lines || !yaml_parser_initialize(&r.parser))
        return no_memory(&r);
    r.lines = lines;
    /* Left to itself, it would also take UTF-16, and halves of pairs in it. */
    const size_t mark = len >= 3 && !memcmp(text, "\xEF\xBB\xBF", 3) ? 3 : 0;
    yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)text + mark, len - mark);
    int e = take_stream(&r);
    yaml_parser_delete(&r.parser);
    for (size_t i = 0; i < r.depth; i++)
        free(r.levels[i].name);
    AUTO_JSON root = r.root;
    if (e)
        return e;
    *ret_value = TAKE_PTR(root);
    *ret_lines = TAKE_PTR(lines);
    return 0;
}
