#include "config/table.h"

#include "base/auto.h"
#include "base/log.h"
#include "base/text.h"

#include <string.h>

#define AT(member) offsetof(struct gb_config, member)

/* Choices are stored through an int. */
_Static_assert(sizeof(enum gb_screen_action) == sizeof(int), "an enum is an int");

const struct gb_setting gb_settings[] = {
#define GB_NUMBER(p, member, decimals_, unit_, def_, least_, most_, meaning)                                 \
    {.path = (p),                                                                                            \
     .kind = GB_KIND_NUMBER,                                                                                 \
     .offset = AT(member),                                                                                   \
     .decimals = (decimals_),                                                                                \
     .unit = (unit_),                                                                                        \
     .def = (def_),                                                                                          \
     .least = (least_),                                                                                      \
     .most = (most_)},
#define GB_BOOL(p, member, def_, meaning)                                                                    \
    {.path = (p), .kind = GB_KIND_BOOL, .offset = AT(member), .def = (def_)},
#define GB_CHOICE(p, member, words_, def_, meaning)                                                          \
    {.path = (p), .kind = GB_KIND_CHOICE, .offset = AT(member), .words = (words_), .def = (def_)},
#define GB_TEXT(p, member, form_, meaning)                                                                   \
    {.path = (p), .kind = GB_KIND_TEXT, .offset = AT(member), .most = 4096, .form = gb_form_##form_},
#define GB_HANDED(p, member, form_)                                                                          \
    {.path = (p),                                                                                            \
     .kind = GB_KIND_TEXT,                                                                                   \
     .handed = true,                                                                                         \
     .offset = AT(member),                                                                                   \
     .most = GB_CONFIG_BYTES,                                                                                \
     .form = gb_form_##form_},
#define GB_LIST(p, member, count, most_, form_, meaning)                                                     \
    {.path = (p),                                                                                            \
     .kind = GB_KIND_LIST,                                                                                   \
     .offset = AT(member),                                                                                   \
     .count_offset = AT(count),                                                                              \
     .most = (most_),                                                                                        \
     .form = gb_form_##form_},
#define GB_WORDS(p, member, most_, form_, meaning)                                                           \
    {.path = (p), .kind = GB_KIND_WORDS, .offset = AT(member), .most = (most_), .form = gb_form_##form_},
#define GB_KEYS(p, meaning)         {.path = (p), .kind = GB_KIND_KEYS},
#define GB_TREE(p, member, meaning) {.path = (p), .kind = GB_KIND_TREE, .offset = AT(member)},
#define GB_KEY_NUMBER(...)
#include "config/config.def"
#define GB_LIMIT(field, key, decimals_, def_, least_, usual, ceiling, reached)                               \
    {.path = "limits." key,                                                                                  \
     .kind = GB_KIND_NUMBER,                                                                                 \
     .offset = AT(limits.field),                                                                             \
     .decimals = (decimals_),                                                                                \
     .unit = 1,                                                                                              \
     .def = (def_),                                                                                          \
     .least = (least_),                                                                                      \
     .most = (ceiling)},
#include "spec/limits.def"
#undef GB_LIMIT
#define GB_LIMIT(field, key, decimals_, def_, least_, usual, ceiling, reached)                               \
    {.path = "ceilings." key,                                                                                \
     .kind = GB_KIND_NUMBER,                                                                                 \
     .offset = AT(ceilings.field),                                                                           \
     .decimals = (decimals_),                                                                                \
     .unit = 1,                                                                                              \
     .def = (usual),                                                                                         \
     .least = (least_),                                                                                      \
     .most = (ceiling)},
#include "spec/limits.def"
#undef GB_LIMIT
};
const size_t gb_setting_count = ARRAY_LEN(gb_settings);

const struct gb_setting *gb_setting_find(const char *path)
{
    for (size_t i = 0; i < gb_setting_count; i++)
        if (!strcmp(gb_settings[i].path, path))
            return &gb_settings[i];
    return NULL;
}

bool gb_setting_is_section(const char *name)
{
    const size_t len = strlen(name);
    for (size_t i = 0; i < gb_setting_count; i++)
        if (!strncmp(gb_settings[i].path, name, len) && gb_settings[i].path[len] == '.')
            return true;
    return false;
}

#define LONGEST 64 /* of a section; no setting is longer */

/* The path as a whole, or only its last part, which may have been written in the wrong section. */
static const struct gb_setting *nearest(const char *path)
{
    const struct gb_setting *best = NULL;
    const char *leaf = strrchr(path, '.');
    leaf = leaf ? leaf + 1 : path;
    size_t least = strlen(leaf) / 3 + 1;
    for (size_t i = 0; i < gb_setting_count; i++) {
        const struct gb_setting *row = &gb_settings[i];
        const char *row_leaf = strrchr(row->path, '.');
        if (row->handed)
            continue;
        size_t far = gb_text_distance(path, row->path);
        const size_t leaf_far = gb_text_distance(leaf, row_leaf ? row_leaf + 1 : row->path);
        far = leaf_far < far ? leaf_far : far;
        if (far < least) {
            best = row;
            least = far;
        }
    }
    return best;
}

/* Of the section that the path names, with its dot; 0 if there is none of that name. */
static size_t section_len(const char *path)
{
    char name[LONGEST];
    const char *dot = strchr(path, '.');
    snprintf(name, sizeof(name), "%.*s", dot ? (int)(dot - path) : 0, path);
    return dot && gb_setting_is_section(name) ? (size_t)(dot - path) + 1 : 0;
}

int gb_setting_unknown(const char *path, struct gb_err *err)
{
    const struct gb_setting *like = nearest(path);
    const size_t section = section_len(path);
    int r = gb_err_set(err, GB_ERR_CONFIG, 0,
                       "there is no such setting%s%s%s there are: ", like ? "; did you mean " : ";",
                       like ? like->path : "", like ? "?" : "");
    const char *last = "";
    size_t last_len = 0;
    for (size_t i = 0; err && i < gb_setting_count; i++) {
        if (gb_settings[i].handed || strncmp(gb_settings[i].path, path, section) != 0)
            continue;
        const char *name = gb_settings[i].path + section;
        const size_t len = strcspn(name, ".");
        if (len == last_len && !strncmp(name, last, len))
            continue; /* of the same section as the one before */
        const size_t used = strlen(err->text);
        snprintf(err->text + used, sizeof(err->text) - used, "%s%.*s", last_len ? ", " : "", (int)len, name);
        last = name;
        last_len = len;
    }
    return r;
}
