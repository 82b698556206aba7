#include "backend/backend.h"

#include "base/auto.h"

#include <string.h>

static const struct gb_backend *const backends[] = {&gb_backend_native};

const struct gb_backend *gb_backend_find(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(backends); i++)
        if (!strcmp(backends[i]->name, name))
            return backends[i];
    return NULL;
}
