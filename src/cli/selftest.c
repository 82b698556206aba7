/* glovebox selftest: tries to get out of boxes on this very host, and shows what held.
 *
 * The probes (src/probe) run inside; the hogs take more than their share and are judged by how their box
 * ends. */
#include "cli/cli.h"

#include "glovebox.h"

#include "base/auto.h"
#include "base/json_write.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name, *steps, *what;
} probes[] = {
#define GB_PROBE(function, rows, steps, what) {#function, steps, what},
#include "probe/probes.def"
#undef GB_PROBE
};

/* What a hog must end in: status and kill reason, or success if the program itself saw the right error. */
static const struct {
    const char *name, *steps, *what, *status, *reason, *limit, *value;
} hogs[] = {
        {"memory", "cgroup", "takes 1 GiB of memory", "resource_exceeded", "memory", NULL, NULL},
        {"shared", "cgroup", "takes 1 GiB of shared memory", "resource_exceeded", "memory", NULL, NULL},
        {"memfd", "cgroup", "takes 1 GiB in a memory file", "resource_exceeded", "memory", NULL, NULL},
        {"cpu", "cgroup", "burns cpu in nine processes", "resource_exceeded", "cpu", "max_cpu_seconds",
         "0.5"},
        {"pids", "cgroup", "starts 256 processes", "success", NULL, NULL, NULL},
        {"disk", "scratch", "writes 400 MB", "success", NULL, NULL, NULL},
        {"inodes", "scratch", "makes a million files", "success", NULL, NULL, NULL},
        {"files", "rlimits", "opens 4096 files", "success", NULL, NULL, NULL},
        {"output", "", "prints 4 MB where 1 MB is kept", "success", NULL, NULL, NULL},
        {"time", "ns-pid", "ignores signals, stops, forks without end", "timeout", "timeout",
         "timeout_seconds", "1"},
};

struct selftest {
    bool json, help;
    struct gb_buf buf;
    struct gb_json out;
    char probe_path[PATH_MAX];
    int failed, unclear;
};

static int set_flag(void *context, const struct option_row *row, const char *value)
{
    (void)value;
    struct selftest *t = context;
    *(strcmp(row->name, "--json") ? &t->help : &t->json) = true;
    return 0;
}

static const struct option_row options[] = {
        {"--json", NULL, "print the table as JSON", set_flag},
        {"--help", NULL, "this text (also -h)", set_flag},
        {"-h", NULL, NULL, set_flag},
};

static void row(struct selftest *t, const char *name, const char *steps, const char *what,
                const char *verdict, const char *seen)
{
    const bool held = !strcmp(verdict, "held"), unclear = !strcmp(verdict, "unclear");
    t->failed += !held && !unclear;
    t->unclear += unclear;
    if (t->json) {
        gb_json_open(&t->out, NULL, '{');
        gb_json_text(&t->out, "probe", name);
        gb_json_text(&t->out, "steps", steps);
        gb_json_text(&t->out, "tries", what);
        gb_json_text(&t->out, "verdict", held ? "pass" : unclear ? "unclear" : "fail");
        gb_json_text(&t->out, "seen", seen);
        gb_json_close(&t->out, '}');
        return;
    }
    printf("  %-8s %-24s %-26s %s%s%s\n",
           held      ? "pass"
           : unclear ? "unclear"
                     : "FAIL",
           name, steps, what, *seen ? ": " : "", seen);
}

static struct gb_run *new_run(struct selftest *t, const char *const *argv)
{
    struct gb_run *run = gb_run_new();
    const char *parent = getenv("GLOVEBOX_CGROUP_PARENT");
    if (!run)
        return NULL;
    if ((parent && gb_run_set_cgroup_parent(run, parent)) ||
        gb_run_add_host_file(run, "glovebox-probe", t->probe_path) || gb_run_set_program(run, argv)) {
        complain("%s", gb_run_error(run));
        gb_run_free(run);
        return NULL;
    }
    return run;
}

/* "name\tverdict\twhat was seen" of one probe, out of what the box printed. */
static void probe_row(struct selftest *t, const char *output, size_t i)
{
    char verdict[16] = "lost", seen[400] = "the probe gave no answer", line[64];
    snprintf(line, sizeof(line), "%s\t", probes[i].name);
    for (const char *p = output; p && *p; p = strchr(p, '\n') ? strchr(p, '\n') + 1 : NULL)
        if (!strncmp(p, line, strlen(line))) {
            const char *word = p + strlen(line), *tab = strchrnul(word, '\t');
            const char *rest = *tab ? tab + 1 : tab;
            snprintf(verdict, sizeof(verdict), "%.*s", (int)(tab - word), word);
            snprintf(seen, sizeof(seen), "%.*s", (int)(strchrnul(rest, '\n') - rest), rest);
        }
    row(t, probes[i].name, probes[i].steps, probes[i].what, verdict, seen);
}

static int run_probes(struct selftest *t)
{
    static const char *const argv[] = {"/sandbox/glovebox-probe", "all", NULL};
    struct gb_run *run = new_run(t, argv);
    if (!run)
        return EXIT_GLOVEBOX;
    int r = gb_run_start(run);
    if (r)
        complain("%s", gb_run_error(run));
    for (size_t i = 0; !r && i < ARRAY_LEN(probes); i++)
        probe_row(t, gb_run_stdout(run, NULL), i);
    gb_run_free(run);
    return r ? EXIT_GLOVEBOX : 0;
}

static int run_hog(struct selftest *t, size_t i)
{
    const char *const argv[] = {"/sandbox/glovebox-probe", "hog", hogs[i].name, NULL};
    struct gb_run *run = new_run(t, argv);
    if (!run)
        return EXIT_GLOVEBOX;
    /* Time in plenty: on a slow host, too, a hog shall meet the limit that it is about. */
    int r = gb_run_set_limit(run, "timeout_seconds", "120");
    if (!r)
        r = gb_run_set_limit(run, "max_cpu_seconds", "120");
    if (!r && hogs[i].limit)
        r = gb_run_set_limit(run, hogs[i].limit, hogs[i].value);
    if (!r)
        r = gb_run_start(run);
    if (r) {
        complain("%s", gb_run_error(run));
    } else {
        const char *reason = gb_run_kill_reason(run) ? gb_run_kill_reason(run) : "";
        bool good = !strcmp(gb_run_status(run), hogs[i].status) &&
                    !strcmp(reason, hogs[i].reason ? hogs[i].reason : "");
        good = good && (strcmp(hogs[i].name, "output") || gb_run_truncated(run));
        char seen[128], name[32];
        snprintf(seen, sizeof(seen), "%s %s", gb_run_status(run), reason);
        snprintf(name, sizeof(name), "hog %s", hogs[i].name);
        row(t, name, hogs[i].steps, hogs[i].what, good ? "held" : "ESCAPED", seen);
    }
    gb_run_free(run);
    return r ? EXIT_GLOVEBOX : 0;
}

static int print_help(void)
{
    printf("usage: glovebox selftest [--json]\n\nRuns the escape probes in boxes on this host and shows what "
           "each tried, the steps that hold it, and whether they did.\n\n");
    options_print(options, ARRAY_LEN(options));
    printf("\nexit code: 0 everything held, 1 something got through\n");
    return finish_output();
}

int verb_selftest(int argc, char **argv)
{
    struct selftest t = {.buf.max = 1 << 20};
    t.out = (struct gb_json){.out = &t.buf, .first = true};
    bool dashes;
    int at = options_parse(options, ARRAY_LEN(options), argc, argv, &t, &dashes);
    if (at < 0)
        return EXIT_GLOVEBOX;
    if (at < argc)
        return complain("selftest takes no arguments");
    if (t.help)
        return print_help();
    if (!find_sibling("glovebox-probe", t.probe_path, sizeof(t.probe_path)))
        return complain("glovebox-probe is not installed beside glovebox");
    if (t.json)
        gb_json_open(&t.out, NULL, '[');
    int r = run_probes(&t);
    for (size_t i = 0; !r && i < ARRAY_LEN(hogs); i++)
        r = run_hog(&t, i);
    if (t.json) {
        gb_json_close(&t.out, ']');
        puts(t.buf.data);
    } else if (!r) {
        if (t.failed)
            printf("\nSomething got through: do not use this host for untrusted code.\n");
        else
            printf("\nEverything that can be seen from inside held; %d probe(s) could not tell.\n",
                   t.unclear);
    }
    gb_buf_done(&t.buf);
    if (!r)
        r = finish_output();
    return r ? r : t.failed ? 1 : 0;
}
