#include "schema/tree.h"

#include "base/auto.h"

#include <string.h>

static const struct {
    const char *uri, *text;
} metaschemas[] = {
#define GB_META(uri, ...) {uri, #__VA_ARGS__},
#include "schema/meta.def"
#undef GB_META
};

json_t *gb_meta_read(const char *uri)
{
    for (size_t i = 0; i < ARRAY_LEN(metaschemas); i++)
        if (!strcmp(metaschemas[i].uri, uri)) {
            json_t *value = NULL;
            return gb_json_read(metaschemas[i].text, strlen(metaschemas[i].text), &value, NULL) ? NULL
                                                                                                : value;
        }
    return NULL;
}
