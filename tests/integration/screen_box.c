/* What front and launcher put into a box so that Python is looked at there, and what the front reads from it,
 * for tests: screen-box files DIR [option…] < script   writes the files beneath DIR; prints the environment
 *   screen-box report [option…] < stderr      prints what a report says, then what follows it
 *   screen-box env NAME…                      prints the variables of these that a call may set
 *   screen-box names NAME…                    prints the names of these that a file of a call may have
 * Options: action=warn, RULE=ACTION (a rule by name), module=NAME, builtin=NAME, call=NAME or import=NAME (of
 * a rule of its own, "own rule"). */
#include "base/auto.h"
#include "screen/screen.h"
#include "wire/payload.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define MOST 64

struct options {
    const char *modules[MOST], *builtins[MOST], *calls[MOST], *imports[MOST];
    size_t module_count, builtin_count, call_count, import_count;
    const char *actions[MOST][2];
    size_t action_count;
    enum gb_screen_action usual;
};

static int action_of(const char *word)
{
    for (int i = 0; i <= GB_SCREEN_OFF; i++)
        if (!strcmp(gb_screen_names[i], word))
            return i;
    fprintf(stderr, "'%s' is not an action\n", word);
    exit(2);
}

static void take(struct options *o, char *text)
{
    char *value = strchr(text, '=');
    if (!value) {
        fprintf(stderr, "'%s' is not an option\n", text);
        exit(2);
    }
    *value++ = '\0';
    const struct {
        const char *name, **list;
        size_t *count;
    } lists[] = {{"module", o->modules, &o->module_count},
                 {"builtin", o->builtins, &o->builtin_count},
                 {"call", o->calls, &o->call_count},
                 {"import", o->imports, &o->import_count}};
    for (size_t i = 0; i < ARRAY_LEN(lists); i++)
        if (!strcmp(text, lists[i].name) && *lists[i].count < MOST - 1) {
            lists[i].list[(*lists[i].count)++] = value;
            return;
        }
    if (!strcmp(text, "action")) {
        o->usual = (enum gb_screen_action)action_of(value);
    } else if (o->action_count < MOST) {
        o->actions[o->action_count][0] = text;
        o->actions[o->action_count++][1] = value;
    }
}

static struct gb_screen *screen_of(const struct options *o, struct gb_screen_actions *ret)
{
    struct gb_err err = {0};
    const struct gb_screen_rule own = {.name = "own rule",
                                       .language = "python",
                                       .calls = o->call_count ? o->calls : NULL,
                                       .imports = o->import_count ? o->imports : NULL,
                                       .hint = "ask the operator",
                                       .action = -1};
    struct gb_screen *screen = gb_screen_new(&own, o->call_count || o->import_count ? 1 : 0, &err);
    if (!screen) {
        fprintf(stderr, "%s\n", err.text);
        exit(2);
    }
    gb_screen_actions_init(screen, o->usual, ret);
    for (size_t i = 0; i < o->action_count; i++) {
        int rule = gb_screen_find(screen, o->actions[i][0]);
        if (rule < 0) {
            fprintf(stderr, "there is no rule '%s'\n", o->actions[i][0]);
            exit(2);
        }
        ret->action[rule] = (unsigned char)action_of(o->actions[i][1]);
    }
    return screen;
}

static void read_all(struct gb_buf *in)
{
    char piece[65536];
    in->max = 64 << 20;
    for (size_t n; (n = fread(piece, 1, sizeof(piece), stdin));)
        gb_buf_add(in, piece, n);
}

static int put(const char *dir, const struct gb_file *file)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/%s", dir, file->name);
    for (char *slash = path + strlen(dir) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        mkdir(path, 0755);
        *slash = '/';
    }
    FILE *out = fopen(path, "wxe");
    if (!out || fwrite(file->data, 1, file->len, out) != file->len || fclose(out)) {
        perror(path);
        return 2;
    }
    return 0;
}

static int files(const char *dir, const struct options *o)
{
    static struct gb_payload p;
    struct gb_screen_actions actions;
    struct gb_screen *screen = screen_of(o, &actions);
    struct gb_buf script = {0}, text = {.max = 1 << 20}, payload = {.max = 64 << 20};
    struct gb_err err = {0};
    const struct gb_screen_python level = {.limits_modules = o->module_count > 0,
                                           .modules = o->modules,
                                           .module_count = o->module_count,
                                           .builtins = o->builtins,
                                           .builtin_count = o->builtin_count};
    read_all(&script);
    if (!gb_screen_python_text(screen, &actions, &level, &text)) {
        puts("nothing to tell");
        gb_screen_free(screen);
        gb_buf_done(&script);
        gb_buf_done(&text);
        return 3;
    }
    gb_payload_add_text(&payload, GB_ITEM_ARG, "python3");
    gb_screen_python_env(&payload);
    gb_screen_python_files(&text, script.data, script.len, &payload);
    if (gb_payload_read(payload.data, payload.len, &p, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return 2;
    }
    struct gb_file start[GB_PYTHON_START_FILES]; /* which the launcher adds */
    gb_python_start_files(start);
    int r = 0;
    for (size_t i = 0; !r && i < p.file_count; i++)
        r = put(dir, &p.files[i]);
    for (size_t i = 0; !r && i < ARRAY_LEN(start); i++)
        r = put(dir, &start[i]);
    for (size_t i = 0; i < p.envc; i++)
        puts(p.env[i]);
    gb_buf_done(&script);
    gb_buf_done(&text);
    gb_buf_done(&payload);
    gb_screen_free(screen);
    return r;
}

static int report(const struct options *o)
{
    struct gb_screen_actions actions;
    struct gb_screen *screen = screen_of(o, &actions);
    struct gb_finding found[GB_FINDINGS];
    struct gb_buf in = {0};
    size_t used = 0, count = 0;
    bool blocked = false;
    read_all(&in);
    static const char *const states[] = {"open", "done", "none"};
    enum gb_report_state state =
            gb_screen_report(screen, &actions, in.data, in.len, true, &used, found, &count, &blocked);
    printf("%s%s\n", states[state], blocked ? " blocked" : "");
    for (size_t i = 0; i < count; i++)
        printf("%u\t%s\t%s\t%s\n", found[i].line, found[i].rule, gb_screen_names[found[i].action],
               found[i].reason);
    puts("");
    fwrite(in.data ? in.data + used : "", 1, in.len - used, stdout);
    gb_buf_done(&in);
    gb_screen_free(screen);
    return 0;
}

static int print_safe(bool (*is_safe)(const char *name), char **names)
{
    for (; *names; names++)
        if (is_safe(*names))
            puts(*names);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "env"))
        return print_safe(gb_screen_env_is_safe, argv + 2);
    if (argc > 1 && !strcmp(argv[1], "names"))
        return print_safe(gb_screen_file_is_safe, argv + 2);
    struct options o = {.usual = GB_SCREEN_BLOCK};
    const bool makes = argc > 2 && !strcmp(argv[1], "files");
    if (!makes && (argc < 2 || strcmp(argv[1], "report") != 0))
        return 2;
    for (int i = makes ? 3 : 2; i < argc; i++)
        take(&o, argv[i]);
    return makes ? files(argv[2], &o) : report(&o);
}
