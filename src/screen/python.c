/* What goes into the box of a Python script so that it is looked at there, and what must not come along. */
#include "screen/rules.h"

#include "base/auto.h"
#include "base/text.h"
#include "spec/spec.h"
#include "wire/payload.h"

#include <string.h>

#define BESIDE(name) GB_PYTHON_DIR "/" name

/* --- what the start-up code is told --- */

static bool has_syntax(const struct gb_screen_rule *rule)
{
    return rule->calls || rule->imports || rule->paths || rule->writes;
}

/* A letter and words. What has white space in it is no name, and nothing could match it. Without printf: it
 * is done for each call. */
static void add_line(struct gb_buf *out, char kind, const char *const *words, size_t count)
{
    gb_buf_add(out, &kind, 1);
    for (size_t i = 0; words && i < count && words[i]; i++) {
        const size_t len = strcspn(words[i], " \t\r\n\v\f");
        if (words[i][len])
            continue;
        gb_buf_add(out, " ", 1);
        gb_buf_add(out, words[i], len);
    }
    gb_buf_add(out, "\n", 1);
}

static void add_rule(struct gb_buf *out, size_t number, const char *action)
{
    char text[24];
    gb_text_decimal((int64_t)number, 0, text, sizeof(text));
    gb_buf_add(out, "R ", 2);
    gb_buf_puts(out, text);
    gb_buf_add(out, " ", 1);
    gb_buf_puts(out, action);
    gb_buf_add(out, "\n", 1);
}

/* start.py's configure reads it. */
bool gb_screen_python_text(const struct gb_screen *screen, const struct gb_screen_actions *actions,
                           const struct gb_screen_python *level, struct gb_buf *out)
{
    const size_t before = out->len;
    for (size_t i = 0; i < gb_screen_rule_count(screen); i++) {
        const struct gb_screen_rule *rule = gb_screen_rule(screen, i);
        if (!has_syntax(rule) || actions->action[i] == GB_SCREEN_OFF)
            continue;
        add_rule(out, i, gb_screen_names[actions->action[i]]);
        if (rule->calls)
            add_line(out, 'C', rule->calls, SIZE_MAX);
        if (rule->imports)
            add_line(out, 'I', rule->imports, SIZE_MAX);
        if (rule->paths)
            add_line(out, 'P', rule->paths, SIZE_MAX);
        if (rule->writes)
            gb_buf_puts(out, "W\n");
    }
    if (level && level->limits_modules)
        add_line(out, 'M', level->modules, level->module_count);
    if (level && level->builtin_count)
        add_line(out, 'B', level->builtins, level->builtin_count);
    return out->len > before || out->failed;
}

/* --- the box --- */

static void add_file(struct gb_buf *payload, const char *name, const void *data, size_t len)
{
    gb_payload_add_text(payload, GB_ITEM_NAME, name);
    gb_payload_add(payload, GB_ITEM_DATA, data, len);
}

/* The second is where `site` looks for packages of the user. Nothing is there: in the box's home directory
 * there could be files of the call, which would run before. The start-up code looks there itself, later. */
void gb_screen_python_env(struct gb_buf *payload)
{
    gb_payload_add_text(payload, GB_ITEM_ENV, "PYTHONPATH=" GB_WORKDIR "/" GB_PYTHON_DIR);
    gb_payload_add_text(payload, GB_ITEM_ENV, "PYTHONUSERBASE=" GB_WORKDIR "/" GB_PYTHON_DIR);
}

void gb_screen_python_files(const struct gb_buf *text, const char *code, size_t len, struct gb_buf *payload)
{
    add_file(payload, BESIDE("main.py"), code, len);
    add_file(payload, BESIDE("start.txt"), text->data, text->len);
}

/* --- what must not come along --- */

/* Variables by which a call could run code before what was checked, have another program run in its place, or
 * write to stderr before the report. A name that ends with * stands for all that begin so. Commands are held
 * against the same list: there it is programs which start others, or load libraries, because a variable says
 * so. */
static const char *const unsafe_env[] = {
        /* The dynamic linker, the C library: what to load first, to take instead, to print, whom to ask. */
        "LD_*", "GLIBC_*", "MALLOC_*", "GCONV_PATH", "LOCPATH", "NLSPATH", "TZDIR", "HOSTALIASES",
        "LOCALDOMAIN", "RESOLV_HOST_CONF", "RES_OPTIONS", "NIS_PATH", "GETCONF_DIR",
        "PATH",    /* which python3; Python finds its library by it, too */
        "PYTHON*", /* but for those below */
        /* Shells. */
        "BASH*", "ENV", "PS4", "SHELLOPTS",
        /* Libraries that programs such as curl use load others. */
        "OPENSSL_*", "SSLKEYLOGFILE", "CURL_HOME", "XDG_CONFIG_*", "KRB5*", "GSS_*", "SASL_*", "LDAP*",
        "P11_KIT_*", "PKCS11_*", "GNUTLS_*", "GIO_*",
        /* Other languages: what to run or load before the program. */
        "NODE_*", "NPM_*", "npm_*", "PERL*", "RUBY*", "LUA_*", "PHP*", "JAVA_*", "_JAVA_*", "JDK_JAVA_*",
        "CLASSPATH", "AWK*", "GAWK_*",
        /* Programs that start others. */
        "GIT_*", "EDITOR", "VISUAL", "PAGER", "LESSOPEN", "LESSCLOSE", "TAR_OPTIONS", "MAKEFLAGS",
        "MAKEFILES", "GCC_*", "COMPILER_PATH", "RSYNC_*", "SSH_*"};
/* What Python itself may be told. Each of these changes how the script runs and neither what runs nor what is
 * on stderr before it; with a value that it does not know Python ends before it begins. All others are
 * refused, those of later versions too. Some that look harmless are not: PYTHONPYCACHEPREFIX finds other code
 * for the start-up code, PYTHONBREAKPOINT gives breakpoint() the meaning of os.system,
 * PYTHONWARNDEFAULTENCODING and PYTHONCOERCECLOCALE write to stderr. */
static const char *const safe_python[] = {
        "PYTHONDONTWRITEBYTECODE", "PYTHONHASHSEED",   "PYTHONIOENCODING", "PYTHONNOUSERSITE",
        "PYTHONOPTIMIZE",          "PYTHONUNBUFFERED", "PYTHONUTF8",
};
/* What curl reads its options from, one of which loads a library: by their last part, since HOME can be any
 * directory of the box. */
static const char *const unsafe_names[] = {".curlrc", "_curlrc", "curlrc"};

bool gb_screen_env_is_safe(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(safe_python); i++)
        if (!strcmp(name, safe_python[i]))
            return true;
    for (size_t i = 0; i < ARRAY_LEN(unsafe_env); i++)
        if (gb_text_is_like(name, unsafe_env[i]))
            return false;
    return true;
}

/* Names have one spelling (gb_text_is_relative_name), and the box's file system tells case apart. Beneath
 * main.py nothing can be, either: Python would run a directory of that name. */
bool gb_screen_file_is_safe(const char *name)
{
    const char *last = strrchr(name, '/');
    const size_t len = strcspn(name, "/");
    for (size_t i = 0; i < ARRAY_LEN(unsafe_names); i++)
        if (!strcmp(last ? last + 1 : name, unsafe_names[i]))
            return false;
    return !(len == strlen("main.py") && !memcmp(name, "main.py", len)) &&
           !(len == strlen(GB_PYTHON_DIR) && !memcmp(name, GB_PYTHON_DIR, len));
}
