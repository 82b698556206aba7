/* glovebox config: checks the configuration, shows it, makes keys. */
#include "cli/cli.h"

#include "base/auto.h"
#include "base/json_write.h"
#include "base/text.h"
#include "config/config.h"
#include "json/json.h"
#include "policy/policy.h"

#include <sha2.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#define OVERRIDES 64
#define EXIT_BAD  1 /* the configuration is wrong; the call was right */

struct settings {
    bool json, help;
    const char *principal, *tool; /* of whom, and of what, the policy is asked for; NULL: not named */
    struct gb_config_override overrides[OVERRIDES];
    char paths[OVERRIDES][64];
    size_t override_count;
};

static int set_flag(void *context, const struct option_row *row, const char *value)
{
    (void)value;
    struct settings *s = context;
    *(strcmp(row->name, "--json") ? &s->help : &s->json) = true;
    return 0;
}

static int set_override(void *context, const struct option_row *row, const char *value)
{
    (void)row;
    struct settings *s = context;
    const char *equals = strchr(value, '=');
    char *path = s->paths[s->override_count % OVERRIDES];
    if (!equals || s->override_count == OVERRIDES ||
        snprintf(path, sizeof(s->paths[0]), "%.*s", (int)(equals - value), value) >=
                (int)sizeof(s->paths[0])) {
        complain("--set takes PATH=VALUE, such as boxes.running=4, up to %d times", OVERRIDES);
        return -1;
    }
    s->overrides[s->override_count++] = (struct gb_config_override){path, equals + 1};
    return 0;
}

static int set_name(void *context, const struct option_row *row, const char *value)
{
    struct settings *s = context;
    *(strcmp(row->name, "--tool") ? &s->principal : &s->tool) = value;
    return 0;
}

static const struct option_row options[] = {
        {"--set", "PATH=VALUE", "change one setting; wins over file and environment", set_override},
        {"--principal", "NAME", "check: print the policy that holds for this caller", set_name},
        {"--tool", "NAME", "check: print the policy that holds for calls of this tool", set_name},
        {"--json", NULL, "print JSON", set_flag},
        {"--help", NULL, "this text (also -h)", set_flag},
        {"-h", NULL, NULL, set_flag},
};

/* --- check --- */

/* Everything that the service itself would refuse to start with. */
static int load(const struct settings *s, const char *file, struct gb_config **ret_config,
                struct gb_policy **ret_policy, struct gb_err *err)
{
    int r = gb_config_load(file, s->overrides, s->override_count, ret_config, err);
    return r ? r : gb_policy_new(*ret_config, GB_POLICY_DECIDE, ret_policy, err);
}

/* How much there is of everything. */
static void count_all(const struct gb_config *config, const struct gb_policy *p, struct gb_json *j)
{
    gb_json_int(j, "tools", (int64_t)p->tool_count);
    gb_json_int(j, "principals", (int64_t)json_object_size(config->principals));
    gb_json_int(j, "profiles", (int64_t)p->profile_count);
    gb_json_int(j, "keys", (int64_t)config->key_count);
    gb_json_int(j, "secrets", (int64_t)p->secret_count);
    gb_json_text(j, "policy", p->sha256);
}

static void print_verdict_json(const struct gb_config *config, const struct gb_policy *p, const char *file,
                               const char *error)
{
    AUTO_BUF buf = {.max = 1 << 16};
    struct gb_json j = {.out = &buf, .first = true};
    gb_json_open(&j, NULL, '{');
    gb_json_bool(&j, "ok", !*error);
    (file ? gb_json_text(&j, "file", file) : gb_json_null(&j, "file"));
    gb_json_text(&j, "error", error);
    if (config && p)
        count_all(config, p, &j);
    gb_json_close(&j, '}');
    puts(buf.data ? buf.data : "");
}

static void print_verdict(const struct gb_config *config, const struct gb_policy *p, const char *file)
{
    char name[512];
    snprintf(name, sizeof(name), "%s", file ? file : "there is no file; the defaults are in force");
    gb_text_defuse(name);
    printf("ok: %s\n", name);
    printf("%zu tools, %zu principals, %zu profiles, %zu keys, %zu secrets\n", p->tool_count,
           json_object_size(config->principals), p->profile_count, config->key_count, p->secret_count);
}

/* --- check, with names: the policy in force --- */

static bool is_principal(const struct gb_config *config, const char *name)
{
    for (size_t i = 0; i < config->key_count; i++)
        if (!strcmp(config->keys[i].principal, name))
            return true;
    return json_object_get(config->principals, name) || !strcmp(name, "default") || !strcmp(name, "local");
}

/* One value as it stands in YAML: JSON is YAML, too. */
static void print_value(const json_t *value)
{
    AUTO_FREE char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
    if (text)
        gb_text_defuse(text);
    printf("%s", text ? text : "?");
}

/* Objects over several lines, everything else on one. */
/* NOLINTNEXTLINE(misc-no-recursion): three deep */
static void print_nested(const json_t *value, int depth)
{
    const char *name;
    json_t *member;
    json_object_foreach((json_t *)value, name, member) {
        const bool deeper = json_object_size(member) && depth < 2 && strcmp(name, "parameters") != 0;
        char shown[128];
        snprintf(shown, sizeof(shown), "%s", name);
        gb_text_defuse(shown);
        printf("%*s%s:%s", 2 * depth, "", shown, deeper ? "\n" : " ");
        if (deeper) {
            print_nested(member, depth + 1);
            continue;
        }
        print_value(member);
        printf("\n");
    }
}

static int print_policy(const struct settings *s, const struct gb_config *config, const struct gb_policy *p)
{
    const char *name = s->principal ? s->principal : config->key_count ? "default" : "local";
    const struct gb_tool *tool = s->tool ? gb_policy_tool(p, s->tool) : NULL;
    AUTO_BUF buf = {.max = 4 << 20};
    struct gb_json j = {.out = &buf, .first = true};
    struct gb_err err = {0};
    AUTO_JSON shown = NULL;
    if (!is_principal(config, name)) {
        complain("there is no key and no principal called '%.64s'", name);
        return EXIT_BAD;
    }
    if (s->tool && !tool) {
        complain("there is no tool called '%.64s'", s->tool);
        return EXIT_BAD;
    }
    gb_policy_show(p, gb_policy_principal(p, name), tool, &j);
    if (buf.failed || gb_buf_truncated(&buf) || gb_json_read(buf.data, buf.len, &shown, &err))
        return complain("cannot print the policy: %s", *err.text ? err.text : "it is too large");
    if (s->json)
        puts(buf.data);
    else
        print_nested(shown, 0);
    return finish_output();
}

static int check(const struct settings *s, const char *file)
{
    struct gb_err err = {0};
    AUTO_CONFIG config = NULL;
    AUTO_POLICY policy = NULL;
    int r = load(s, file, &config, &policy, &err);
    const char *read = config ? config->file : file;
    const bool good = !r && config && policy;
    if (good && (s->principal || s->tool))
        return print_policy(s, config, policy);
    if (s->json)
        print_verdict_json(config, policy, read, r ? err.text : "");
    else if (good)
        print_verdict(config, policy, read);
    else
        complain("%s", err.text);
    const int output = finish_output();
    return r ? EXIT_BAD : output;
}

/* --- show --- */

static void print_keys(const json_t *keys)
{
    size_t i;
    json_t *key, *field;
    const char *name;
    json_array_foreach((json_t *)keys, i, key) {
        const char *lead = "  - ";
        json_object_foreach(key, name, field) {
            printf("%s%s: ", lead, name);
            print_value(field);
            printf("\n");
            lead = "    ";
        }
        printf("    # sha256: is not shown\n");
    }
}

static void print_setting(const struct gb_config *config, const char *indent, const char *path,
                          const char *name, const json_t *value)
{
    const bool keys = !strcmp(path, "keys") && json_array_size(value);
    const char *origin = gb_config_origin(config, path);
    char text[300];
    snprintf(text, sizeof(text), "%s", origin ? origin : "");
    gb_text_defuse(text);
    printf("%s%s:%s", indent, name, keys ? "" : " ");
    if (!keys)
        print_value(value);
    printf("%s%s\n", *text ? "  # " : "", text);
    if (keys)
        print_keys(value);
}

static void print_tree(const struct gb_config *config, const json_t *tree)
{
    const char *name, *inner_name;
    json_t *value, *inner;
    printf("# The configuration in force. Behind what is not the default: who set it.\n");
    json_object_foreach((json_t *)tree, name, value) {
        if (!json_is_object(value) || gb_config_origin(config, name)) {
            print_setting(config, "", name, name, value);
            continue;
        }
        printf("%s:\n", name);
        json_object_foreach(value, inner_name, inner) {
            char path[128];
            snprintf(path, sizeof(path), "%s.%s", name, inner_name);
            print_setting(config, "  ", path, inner_name, inner);
        }
    }
}

static int show(const struct settings *s, const char *file)
{
    struct gb_err err = {0};
    AUTO_CONFIG config = NULL;
    AUTO_POLICY policy = NULL;
    AUTO_BUF buf = {.max = 8 << 20};
    AUTO_JSON tree = NULL;
    if (load(s, file, &config, &policy, &err)) {
        complain("%s", err.text);
        return EXIT_BAD;
    }
    if (gb_config_write(config, false, &buf, &err) || gb_json_read(buf.data, buf.len, &tree, &err))
        return complain("%s", err.text);
    if (s->json)
        puts(buf.data);
    else
        print_tree(config, tree);
    return finish_output();
}

/* --- key --- */

static int make_key(const struct settings *s, const char *name)
{
    uint8_t random[32], hash[SHA256_DIGEST_LENGTH];
    char key[4 + 2 * sizeof(random) + 1] = "gbx_", hex[2 * sizeof(hash) + 1];
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    if (!name || !*name || name[strspn(name, letters)] ||
        strlen(name) >= sizeof(((struct gb_config_key *)0)->name))
        return complain(
                "key takes a name of up to 63 letters, digits, '.', '_' and '-': glovebox config key alice");
    if (getrandom(random, sizeof(random), 0) != sizeof(random))
        return complain("cannot get random bytes from the kernel");
    gb_text_hex(random, sizeof(random), key + strlen(key));
    SHA2_CTX ctx;
    SHA256Init(&ctx);
    SHA256Update(&ctx, (const uint8_t *)key, strlen(key));
    SHA256Final(hash, &ctx);
    gb_text_hex(hash, sizeof(hash), hex);
    if (s->json)
        printf("{\"name\":\"%s\",\"key\":\"%s\",\"sha256\":\"%s\"}\n", name, key, hex);
    else
        printf("# The key of %s, for the header \"Authorization: Bearer KEY\". It is shown only now:\n#   "
               "%s\n"
               "# For glovebox.yaml, which never needs the key itself:\nkeys:\n  - name: %s\n    sha256: "
               "%s\n",
               name, key, name, hex);
    explicit_bzero(key, sizeof(key));
    explicit_bzero(random, sizeof(random));
    return finish_output();
}

static const struct {
    const char *name, *argument, *help;
    int (*run)(const struct settings *s, const char *argument);
} actions[] = {
        {"check", "[FILE]", "say whether the configuration is right, and if not, where and why", check},
        {"show", "[FILE]", "print the configuration in force, and who set what", show},
        {"key", "NAME", "make a key, and the lines of configuration for it", make_key},
};

static int help(void)
{
    printf("usage: glovebox config check|show [FILE], glovebox config key NAME\n\n");
    for (size_t i = 0; i < ARRAY_LEN(actions); i++)
        printf("  %-6s %-21s %s\n", actions[i].name, actions[i].argument, actions[i].help);
    printf("\n");
    options_print(options, ARRAY_LEN(options));
    printf("\nWithout FILE: $XDG_CONFIG_HOME/glovebox/glovebox.yaml for a user, then "
           "/etc/glovebox/glovebox.yaml; none "
           "at all is fine.\nexit code: 0 right, 1 the configuration is wrong, 125 the call was\n");
    return finish_output();
}

int verb_config(int argc, char **argv)
{
    struct settings s = {0};
    bool dashes;
    size_t action = ARRAY_LEN(actions);
    const char *words[2] = {NULL, NULL};
    /* Options may stand before and behind the action. */
    for (int at = 0, count = 0; at < argc; count++) {
        const int next = options_parse(options, ARRAY_LEN(options), argc - at, argv + at, &s, &dashes);
        if (next < 0)
            return EXIT_GLOVEBOX;
        at += next;
        if (at < argc && count == (int)ARRAY_LEN(words))
            return complain("config %.64s takes one word; '%.64s' is one too many", words[0], argv[at]);
        if (at < argc) {
            words[count] = argv[at];
            argv[at] = argv[0]; /* what the options behind it belong to */
        }
    }
    if (s.help)
        return help();
    for (size_t i = 0; words[0] && i < ARRAY_LEN(actions); i++)
        if (!strcmp(actions[i].name, words[0]))
            action = i;
    if (action == ARRAY_LEN(actions))
        return complain("config takes check, show or key%s%.64s; `glovebox config --help` tells more",
                        words[0] ? ", not " : "", words[0] ? words[0] : "");
    return actions[action].run(&s, words[1]);
}
