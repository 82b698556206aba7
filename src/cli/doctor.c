/* glovebox doctor: what this host can give, layer by layer.
 *
 * It asks the only honest way: it starts boxes. When a step fails that may be left out, it notes why, leaves
 * it out and tries again, so that one missing layer does not hide the next. */
#include "cli/cli.h"

#include "lib/run.h"

#include "base/auto.h"
#include "base/json_write.h"
#include "sandbox/steps.h"

#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

enum finding { USED, NOT_NEEDED, MISSING, UNKNOWN };

struct doctor {
    bool json, help;
    enum finding finding[64];
    char why[64][sizeof(((struct gb_err *)0)->text)];
    bool box_starts;
    int missing;
};

static const char *const words[] = {
        [USED] = "used", [NOT_NEEDED] = "not needed here", [MISSING] = "MISSING", [UNKNOWN] = "not reached"};

static int set_flag(void *context, const struct option_row *row, const char *value)
{
    (void)value;
    struct doctor *d = context;
    *(strcmp(row->name, "--json") ? &d->help : &d->json) = true;
    return 0;
}

static const struct option_row options[] = {
        {"--json", NULL, "print the table as JSON", set_flag},
        {"--help", NULL, "this text (also -h)", set_flag},
        {"-h", NULL, NULL, set_flag},
};

/* One try, with what is known to be missing left out. Returns whether there is more to learn. */
static bool try_box(struct doctor *d)
{
    static const char *const argv[] = {"true", NULL};
    char left_out[256] = "";
    for (unsigned i = 0; i < gb_step_count; i++)
        if (d->finding[i] == MISSING)
            snprintf(left_out + strlen(left_out), sizeof(left_out) - strlen(left_out), "%s%s",
                     *left_out ? "," : "", gb_steps[i].name);
    struct gb_run *run = gb_run_new();
    if (!run)
        return false;
    const char *parent = getenv("GLOVEBOX_CGROUP_PARENT");
    if (parent)
        gb_run_set_cgroup_parent(run, parent);
    gb_run_set_program(run, argv);
    gb_run_allow_degraded(run, left_out);
    bool again = false;
    if (gb_run_start(run) == 0) {
        const uint64_t applied = gb_run_result(run)->enforced.applied;
        for (unsigned i = 0; i < gb_step_count; i++)
            if (d->finding[i] != MISSING)
                d->finding[i] = applied >> i & 1 ? USED : NOT_NEEDED;
        d->box_starts = true;
    } else {
        const struct gb_step *step = gb_steps_find(gb_run_error_step(run));
        if (step) {
            const size_t i = (size_t)(step - gb_steps);
            again = gb_steps[i].may_degrade && d->finding[i] != MISSING;
            d->finding[i] = MISSING;
            snprintf(d->why[i], sizeof(d->why[i]), "%s", gb_run_error(run));
            d->missing++;
        } else {
            complain("%s", gb_run_error(run));
            d->missing++;
        }
    }
    gb_run_free(run);
    return again;
}

static const char *who(void)
{
    char map[64] = "";
    AUTO_FILE f = fopen("/proc/self/uid_map", "re");
    if (f && fgets(map, sizeof(map), f) && !strstr(map, "4294967295"))
        return geteuid() == 0 ? "root of a user namespace" : "a user inside a user namespace";
    return geteuid() == 0 ? "root: each box gets a uid of its own"
                          : "an ordinary user: boxes run under this uid";
}

static bool installed(const char *program)
{
    static const char *const dirs[] = {"/usr/local/bin", "/usr/bin", "/bin"};
    char path[128];
    for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
        snprintf(path, sizeof(path), "%s/%s", dirs[i], program);
        if (!access(path, X_OK))
            return true;
    }
    return false;
}

static void print_table(const struct doctor *d)
{
    struct utsname u;
    uname(&u);
    printf("kernel %s on %s; landlock ABI %d; running as %s\n\n", u.release, u.machine, gb_landlock_abi(),
           who());
    printf("  %-18s %-18s %-16s %s\n", "layer", "step", "state", "without it");
    for (unsigned i = 0; i < gb_step_count; i++)
        printf("  %-18s %-18s %-16s %s\n", gb_steps[i].layer, gb_steps[i].name, words[d->finding[i]],
               gb_steps[i].why);
    printf("\n  runtimes:");
    for (size_t i = 0; i < gb_runtime_count; i++)
        printf(" %s%s", gb_runtimes[i].name, installed(gb_runtimes[i].program) ? "" : " (not installed)");
    printf("\n\n");
    for (unsigned i = 0; i < gb_step_count; i++)
        if (d->finding[i] == MISSING)
            printf("%s%s%s\n", d->why[i],
                   gb_steps[i].may_degrade ? "; to accept boxes without it: --allow-degraded " : "",
                   gb_steps[i].may_degrade ? gb_steps[i].name : "");
    if (!d->missing)
        printf("All layers are in force.\n");
    else
        printf("%s\n", d->box_starts ? "Boxes are refused until this is mended or allowed."
                                     : "No box can be started.");
}

static void print_json(const struct doctor *d)
{
    struct utsname u;
    struct gb_buf buf = {.max = 1 << 20};
    struct gb_json j = {.out = &buf, .first = true};
    uname(&u);
    gb_json_open(&j, NULL, '{');
    gb_json_bool(&j, "ok", d->missing == 0);
    gb_json_text(&j, "kernel", u.release);
    gb_json_text(&j, "machine", u.machine);
    gb_json_int(&j, "landlock_abi", gb_landlock_abi());
    gb_json_open(&j, "steps", '[');
    for (unsigned i = 0; i < gb_step_count; i++) {
        gb_json_open(&j, NULL, '{');
        gb_json_text(&j, "step", gb_steps[i].name);
        gb_json_text(&j, "layer", gb_steps[i].layer);
        gb_json_text(&j, "state", words[d->finding[i]]);
        gb_json_text(&j, "why", d->why[i]);
        gb_json_text(&j, "remedy", d->finding[i] == MISSING ? gb_steps[i].remedy : "");
        gb_json_close(&j, '}');
    }
    gb_json_close(&j, ']');
    gb_json_open(&j, "runtimes", '{');
    for (size_t i = 0; i < gb_runtime_count; i++)
        gb_json_bool(&j, gb_runtimes[i].name, installed(gb_runtimes[i].program));
    gb_json_close(&j, '}');
    gb_json_close(&j, '}');
    puts(buf.data);
    gb_buf_done(&buf);
}

int verb_doctor(int argc, char **argv)
{
    static struct doctor d;
    bool dashes;
    int at = options_parse(options, ARRAY_LEN(options), argc, argv, &d, &dashes);
    if (at < 0)
        return EXIT_GLOVEBOX;
    if (at < argc)
        return complain("doctor takes no arguments");
    if (d.help) {
        printf("usage: glovebox doctor [--json]\n\nShows every layer of the box: in force, not needed here, "
               "or missing, why, and how to get it.\n\n");
        options_print(options, ARRAY_LEN(options));
        printf("\nexit code: 0 all layers are in force, 1 something is missing\n");
        return finish_output();
    }
    for (unsigned i = 0; i < gb_step_count; i++)
        d.finding[i] = UNKNOWN;
    while (try_box(&d))
        ;
    (d.json ? print_json : print_table)(&d);
    int r = finish_output();
    return r ? r : d.missing ? 1 : 0;
}
