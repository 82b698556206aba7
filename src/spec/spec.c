#include "spec/spec.h"

#include "base/auto.h"
#include "base/text.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

const char *const gb_spec_env[] = {
        "PATH=" GB_BOX_PATH, "HOME=" GB_WORKDIR, "USER=sandbox",  "LOGNAME=sandbox",
        "LANG=C.UTF-8",      "TMPDIR=/tmp",      "SHELL=/bin/sh", NULL};
const size_t gb_spec_env_count = ARRAY_LEN(gb_spec_env) - 1;

bool gb_spec_is_env_name(const char *name, size_t len)
{
    bool good = len > 0 && !isdigit((unsigned char)name[0]);
    for (size_t i = 0; i < len; i++)
        good = good && (isalnum((unsigned char)name[i]) || name[i] == '_');
    return good;
}

const struct gb_runtime gb_runtimes[] = {
#define GB_RUNTIME(name, script, extension, program, option) {name, script, extension, program, option},
#include "spec/runtimes.def"
#undef GB_RUNTIME
};
const size_t gb_runtime_count = ARRAY_LEN(gb_runtimes);

const struct gb_runtime *gb_runtime_find(const char *name)
{
    for (size_t i = 0; i < gb_runtime_count; i++)
        if (!strcmp(gb_runtimes[i].name, name))
            return &gb_runtimes[i];
    return NULL;
}

const struct gb_runtime *gb_runtime_by_extension(const char *file_name)
{
    const char *dot = strrchr(file_name, '.');
    for (size_t i = 0; dot && i < gb_runtime_count; i++)
        if (!strcmp(gb_runtimes[i].extension, dot))
            return &gb_runtimes[i];
    return NULL;
}

int gb_runtime_check_code(const char *code, size_t len, struct gb_err *err)
{
    if (len > GB_CODE_BYTES)
        return gb_err_set(err, GB_ERR_INPUT, 0, "the code is larger than the %d bytes that are allowed",
                          GB_CODE_BYTES);
    size_t at = gb_text_find_binary(code, len);
    if (at < len)
        return gb_err_set(err, GB_ERR_INPUT, 0,
                          "the code is not text: byte %zu (0x%02x) is not valid UTF-8 or is NUL", at,
                          (unsigned)(unsigned char)code[at]);
    return 0;
}
