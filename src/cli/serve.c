/* glovebox serve: the service. The work is in src/serve; here are its options, and the box that shows at the
 * start that this host can give one. */
#include "cli/cli.h"

#include "base/auto.h"
#include "base/text.h"
#include "glovebox.h"
#include "policy/policy.h"
#include "serve/serve.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define OVERRIDES       64
#define EXIT_NOT_SERVED 1 /* not the command's fault: it may work later */

struct serve {
    struct gb_serve_options options;
    struct gb_config_override overrides[OVERRIDES];
    char paths[OVERRIDES][64];
    char listen[2048];
    bool check, help;
};

static int add_override(struct serve *s, const char *path, const char *value)
{
    if (s->options.override_count == OVERRIDES) {
        complain("--set can be given %d times", OVERRIDES);
        return -1;
    }
    s->overrides[s->options.override_count++] = (struct gb_config_override){path, value};
    return 0;
}

static int set_file(void *context, const struct option_row *row, const char *value)
{
    (void)row;
    ((struct serve *)context)->options.file = value;
    return 0;
}

/* Several --listen are one list, which replaces that of the file. */
static int add_listen(void *context, const struct option_row *row, const char *value)
{
    struct serve *s = context;
    const size_t used = strlen(s->listen);
    if (snprintf(s->listen + used, sizeof(s->listen) - used, "%s%s", used ? "," : "", value) >=
        (int)(sizeof(s->listen) - used)) {
        complain("%s: too many addresses", row->name);
        return -1;
    }
    return used ? 0 : add_override(s, "listen", s->listen);
}

static int add_setting(void *context, const struct option_row *row, const char *value)
{
    struct serve *s = context;
    char *path = s->paths[s->options.override_count % OVERRIDES];
    const char *equals = strchr(value, '=');
    if (!equals || equals == value || equals - value >= (ptrdiff_t)sizeof(s->paths[0])) {
        complain("%s takes %s, such as boxes.running=4; `glovebox config show` lists the paths", row->name,
                 row->value);
        return -1;
    }
    memcpy(path, value, (size_t)(equals - value));
    path[equals - value] = '\0';
    return add_override(s, path, equals + 1);
}

static int set_flag(void *context, const struct option_row *row, const char *value)
{
    (void)value;
    struct serve *s = context;
    *(strcmp(row->name, "--check") ? &s->help : &s->check) = true;
    return 0;
}

static const struct option_row options[] = {
        {"--config", "FILE", "read this file, not the usual ones", set_file},
        {"--listen", "ADDRESS", "listen here (127.0.0.1:8640, [::1]:0, unix:/path); may be repeated",
         add_listen},
        {"--set", "PATH=VALUE", "one setting, over file and environment; may be repeated", add_setting},
        {"--check", NULL, "check configuration and host, and say so", set_flag},
        {"--help", NULL, "this text (also -h)", set_flag},
        {"-h", NULL, NULL, set_flag},
};

static int set_limits(struct gb_run *run, const struct gb_limits *limits)
{
    int r = 0;
    for (size_t i = 0; !r && i < gb_limit_count; i++) {
        char text[32];
        gb_text_decimal(gb_limits_get(limits, &gb_limit_rows[i]), gb_limit_rows[i].decimals, text,
                        sizeof(text));
        r = gb_run_set_limit(run, gb_limit_rows[i].key, text);
    }
    return r;
}

static int try_box(const struct gb_limits *limits, const char *cgroup_parent, const char *allow_degraded,
                   struct gb_err *err)
{
    static const char *const argv[] = {"true", NULL};
    struct gb_run *run = gb_run_new();
    if (!run)
        return gb_err_set(err, GB_ERR_INTERNAL, ENOMEM, "try a box");
    int r = set_limits(run, limits);
    if (!r && *cgroup_parent)
        r = gb_run_set_cgroup_parent(run, cgroup_parent);
    if (!r && *allow_degraded)
        r = gb_run_allow_degraded(run, allow_degraded);
    if (!r)
        r = gb_run_set_program(run, argv);
    if (!r)
        r = gb_run_start(run);
    if (r) {
        r = gb_err_set(err, GB_ERR_LAYER, 0, "%s", gb_run_error(run));
        gb_err_hint(err, "%s",
                    strcmp(gb_run_error_step(run), "cgroup") ? "`glovebox doctor` shows every layer"
                                                             : "for serve that is --set cgroup_parent=PATH");
    }
    gb_run_free(run);
    return r;
}

static int check(const struct serve *s)
{
    struct gb_err err = {0};
    AUTO_CONFIG config = NULL;
    if (gb_config_load(s->options.file, s->options.overrides, s->options.override_count, &config, &err))
        return complain("%s", err.text);
    AUTO_POLICY policy = NULL;
    if (gb_policy_new(config, GB_POLICY_DECIDE, &policy, &err))
        return complain("%s", err.text);
    if (try_box(&config->limits, config->cgroup_parent ? config->cgroup_parent : "",
                config->allow_degraded ? config->allow_degraded : "", &err)) {
        complain("this host cannot start a box: %s", err.text);
        return EXIT_NOT_SERVED;
    }
    printf("%s: good; boxes can be started\n", config->file ? config->file : "no configuration file");
    return finish_output();
}

int verb_serve(int argc, char **argv)
{
    static struct serve s;
    struct gb_err err = {0};
    bool dashes;
    s.options.overrides = s.overrides;
    s.options.try_box = try_box;
    int at = options_parse(options, ARRAY_LEN(options), argc, argv, &s, &dashes);
    if (at < 0)
        return EXIT_GLOVEBOX;
    if (at < argc)
        return complain("serve takes no arguments");
    if (s.help) {
        printf("usage: glovebox serve [OPTION]...\n\nServes tool calls over HTTP, each in a box of its own, "
               "until it "
               "is stopped (SIGTERM, Ctrl-C).\nSIGHUP reads the configuration anew.\n\n");
        options_print(options, ARRAY_LEN(options));
        printf("\nexit code: 0 stopped, 1 this host or its state does not let it serve, 125 wrong option or "
               "configuration\n");
        return finish_output();
    }
    if (s.check)
        return check(&s);
    if (!gb_serve(&s.options, &err))
        return 0;
    complain("%s", err.text);
    return err.code == GB_ERR_CONFIG ? EXIT_GLOVEBOX : EXIT_NOT_SERVED;
}
