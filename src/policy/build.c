#include "policy/build.h"

#include "base/auto.h"
#include "base/text.h"
#include "policy/owned.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <strings.h>

/* --- what belongs to the policy --- */

static int no_memory(struct gb_build *b)
{
    return gb_err_set(b->err, GB_ERR_INTERNAL, ENOMEM, "build the policy");
}

void *gb_build_alloc(struct gb_build *b, size_t count, size_t size)
{
    struct gb_owned *owned = b->p->owned;
    void *block = calloc(count ? count : 1, size);
    if (owned->count == owned->size && block) {
        const size_t room = owned->size ? 2 * owned->size : 64;
        void **more = reallocarray(owned->blocks, room, sizeof(*more));
        if (!more) {
            free(block);
            block = NULL;
        } else {
            owned->blocks = more;
            owned->size = room;
        }
    }
    if (block)
        owned->blocks[owned->count++] = block;
    else
        no_memory(b);
    return block;
}

json_t *gb_build_keep(struct gb_build *b, json_t *value)
{
    struct gb_owned *owned = b->p->owned;
    if (value && !json_array_append_new(owned->trees, value))
        return value;
    no_memory(b);
    return NULL;
}

const char **gb_build_texts(struct gb_build *b, const json_t *array)
{
    const size_t count = json_array_size(array);
    const char **texts = gb_build_alloc(b, count + 1, sizeof(*texts));
    for (size_t i = 0; texts && i < count; i++)
        texts[i] = json_string_value(json_array_get(array, i));
    return texts;
}

/* --- errors --- */

const char *gb_build_path(struct gb_build *b, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(b->path, sizeof(b->path), fmt, args);
    va_end(args);
    return b->path;
}

int gb_build_fail_with(struct gb_build *b, const char *path)
{
    char place[256];
    gb_config_place(b->config, path, place, sizeof(place));
    gb_err_wrap(b->err, "%s%s%.160s", place, *place ? ": " : "", path);
    if (b->err && b->err->code != GB_ERR_INTERNAL)
        b->err->code = GB_ERR_CONFIG; /* whoever it was that complained */
    return -EINVAL;
}

int gb_build_fail(struct gb_build *b, const char *path, const char *fmt, ...)
{
    char text[400];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    gb_err_set(b->err, GB_ERR_CONFIG, 0, "%s", text);
    return gb_build_fail_with(b, path);
}

void gb_build_other(struct gb_build *b, const char *path, char *buf, size_t size)
{
    char place[256];
    gb_config_place(b->config, path, place, sizeof(place));
    snprintf(buf, size, "%.100s%s%s%s", path, *place ? " (" : "", place, *place ? ")" : "");
}

/* --- names --- */

void gb_build_names_add(struct gb_build_names *names, const char *name)
{
    if (names->count < ARRAY_LEN(names->name))
        names->name[names->count++] = name;
}

int gb_build_unknown(struct gb_build *b, const char *path, const char *what, const char *given,
                     const struct gb_build_names *names)
{
    const char *best = NULL;
    size_t least = strlen(given) / 3 + 2;
    char list[200] = "";
    bool full = false;
    for (size_t i = 0; i < names->count; i++) {
        const bool same = !strcasecmp(given, names->name[i]); /* but for the size of the letters */
        const size_t far = same ? 0 : gb_text_distance(given, names->name[i]);
        if (far < least) {
            least = far;
            best = names->name[i];
        }
        const size_t used = strlen(list);
        if (!full && used + strlen(names->name[i]) + sizeof(", , …") < sizeof(list))
            snprintf(list + used, sizeof(list) - used, "%s%s", used ? ", " : "", names->name[i]);
        else if (!full)
            full = snprintf(list + used, sizeof(list) - used, ", …") > 0;
    }
    return gb_build_fail(b, path, "there is no %s '%.64s'%s%s%s %s%s", what, given,
                         best ? "; did you mean '" : ";", best ? best : "", best ? "'?" : "",
                         names->count ? "there are: " : "there are none", list);
}
