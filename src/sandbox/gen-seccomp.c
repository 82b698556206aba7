/* Build tool: compiles profiles.def to classic BPF and prints it as C source.
 *
 *   gen-seccomp x86_64|aarch64            the filter of a box: whole, and as the two parts under a zygote
 *   gen-seccomp x86_64|aarch64 variants   the same once more for each group, with that switched off
 *   gen-seccomp x86_64|aarch64 service    confine/profiles.def: one for each process of the service
 *
 * libseccomp gives the numbers of the calls, and only here: programs that run boxes carry the finished filter
 * and load it raw. The compiler is ours because libseccomp cannot say "these values, else EPERM" under a
 * default of ENOSYS. It makes a binary search over ranges of call numbers with the same verdict: the kernel
 * walks the program once for each call number when it is loaded, so short paths load fast. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox/seccomp.h"

#define CALLS     1024
#define PRETENDED (SECCOMP_RET_ERRNO | 0) /* the call is not made and returns 0 */
#define MARKED    (SECCOMP_RET_ERRNO | GB_SECCOMP_MARKED)
#define X32_BIT   0x40000000U

enum kind { UNKNOWN, ALLOW, DENY, KILL, ONLY, NEVER, WITHOUT, WHEN, BOTH, PRETEND, PRLIMIT };

static const struct group {
    const char *who; /* profiles that have it, separated by spaces */
    enum kind kind;
    const char *name, *calls;
    unsigned arg;
    uint32_t mask;
    const char *values;
    unsigned other; /* WHEN, BOTH */
    uint32_t bits;
    uint32_t same; /* BOTH */
    uint32_t mark; /* ONLY: a value that is answered with MARKED; 0: none */
} groups[] = {
#define GB_ALLOW(group, why, names)  {"box", ALLOW, #group, names, 0, 0, "", 0, 0, 0, 0},
#define GB_DENY(group, why, names)   {"box", DENY, #group, names, 0, 0, "", 0, 0, 0, 0},
#define GB_ENOSYS(group, why, names) {"box", UNKNOWN, #group, names, 0, 0, "", 0, 0, 0, 0},
#define GB_ONLY(group, why, name, arg, mask, values)                                                         \
    {"box", ONLY, #group, name, arg, mask, values, 0, 0, 0, 0},
#define GB_NEVER(group, why, name, arg, mask, values)                                                        \
    {"box", NEVER, #group, name, arg, mask, values, 0, 0, 0, 0},
#define GB_WITHOUT(group, why, name, arg, mask) {"box", WITHOUT, #group, name, arg, mask, "", 0, 0, 0, 0},
#define GB_WHEN(group, why, name, arg, mask, other, bits)                                                    \
    {"box", WHEN, #group, name, arg, mask, "", other, bits, 0, 0},
#define GB_PRETEND(group, why, name, arg, mask, values)                                                      \
    {"box", PRETEND, #group, name, arg, mask, values, 0, 0, 0, 0},
#define GB_PRLIMIT(group, why) {"box", PRLIMIT, #group, "prlimit64", 0, 0, "", 0, 0, 0, 0},
#define GB_NURSERY(why, names) {"nursery", ALLOW, "nursery", names, 0, 0, "", 0, 0, 0, 0},
#define GB_NURSERY_ONLY(why, name, arg, mask, values)                                                        \
    {"nursery", ONLY, "nursery", name, arg, mask, values, 0, 0, 0, 0},
#include "sandbox/profiles.def"
#undef GB_ALLOW
#undef GB_DENY
#undef GB_ONLY
#undef GB_NEVER
#undef GB_WITHOUT
#define GB_ALLOW(who, group, why, names) {who, ALLOW, #group, names, 0, 0, "", 0, 0, 0, 0},
#define GB_DENY(who, group, why, names)  {who, DENY, #group, names, 0, 0, "", 0, 0, 0, 0},
#define GB_KILL(who, group, why, names)  {who, KILL, #group, names, 0, 0, "", 0, 0, 0, 0},
#define GB_ONLY(who, group, why, name, arg, mask, values)                                                    \
    {who, ONLY, #group, name, arg, mask, values, 0, 0, 0, 0},
#define GB_NEVER(who, group, why, name, arg, mask, values)                                                   \
    {who, NEVER, #group, name, arg, mask, values, 0, 0, 0, 0},
#define GB_WITHOUT(who, group, why, name, arg, mask) {who, WITHOUT, #group, name, arg, mask, "", 0, 0, 0, 0},
#define GB_BOTH(who, group, why, name, arg, mask, values, other, bits, same)                                 \
    {who, BOTH, #group, name, arg, mask, values, other, bits, same, 0},
#include "confine/profiles.def"
};
#define GROUPS (sizeof(groups) / sizeof(groups[0]))

/* Whose filter it is, and what becomes of a call that it does not name. A box has "box", or "nursery", which
 * it inherits from its zygote, and "rest". */
enum { BOX, NURSERY, REST, SERVICE /* from here on */ };
static const struct profile {
    const char *name;
    bool allows; /* else the call does not exist */
} profiles[] = {{"box", false},         {"nursery", false},    {"rest", true},
                {"front", false},       {"store", false},      {"broker", false},
                {"broker-file", false}, {"broker-net", false}, {"broker-database", false},
                {"launch", true}};
#define PROFILES (sizeof(profiles) / sizeof(profiles[0]))

static bool has_group(const struct profile *profile, const struct group *g)
{
    const size_t len = strlen(profile->name);
    for (const char *p = g->who; (p = strstr(p, profile->name)); p += len)
        if ((p == g->who || p[-1] == ' ') && (p[len] == ' ' || !p[len]))
            return true;
    return false;
}

struct range {
    const struct profile *profile;
    unsigned first;
    const struct group *group; /* NULL: unknown call */
    bool off;
};

/* A program is written from its end: what an instruction jumps to is there before it. So equal ends are
 * written once, and every jump goes straight to its verdict. Half the instructions, and the kernel compiles
 * each of them whenever the filter is loaded. */
struct program {
    struct sock_filter code[8192]; /* the last instruction first, until turn() */
    unsigned len;
    struct {
        const struct group *group;
        unsigned at;
    } done[GROUPS]; /* tests of arguments that are written already */
    unsigned done_count;
};

/* Where to go on: at an instruction, or at the next place that returns this verdict. */
struct place {
    bool is_verdict;
    uint32_t verdict;
    unsigned at;
};

#define REACH (UINT8_MAX - 2) /* of a conditional jump, with room for what may have to be put between */

static struct place verdict(uint32_t value)
{
    return (struct place){.is_verdict = true, .verdict = value};
}

static struct place emit(struct program *p, uint16_t code, uint32_t k, uint8_t jt, uint8_t jf)
{
    p->code[p->len] = (struct sock_filter){code, jt, jf, k};
    return (struct place){.at = p->len++};
}

/* The instruction at a place, near enough for a conditional jump that is written now or next. */
static unsigned near(struct program *p, struct place place)
{
    if (!place.is_verdict)
        return p->len - place.at <= REACH ? place.at
                                          : emit(p, BPF_JMP | BPF_JA, p->len - place.at - 1, 0, 0).at;
    for (unsigned i = p->len; i-- > 0 && p->len - i <= REACH;)
        if (p->code[i].code == (BPF_RET | BPF_K) && p->code[i].k == place.verdict)
            return i;
    return emit(p, BPF_RET | BPF_K, place.verdict, 0, 0).at;
}

static struct place jump(struct program *p, uint16_t test, uint32_t k, struct place yes, struct place no)
{
    const unsigned no_at = near(p, no), yes_at = near(p, yes);
    return emit(p, BPF_JMP | test | BPF_K, k, (uint8_t)(p->len - yes_at - 1), (uint8_t)(p->len - no_at - 1));
}

/* What is executed before the place, which was written last. */
static struct place load(struct program *p, size_t offset)
{
    return emit(p, BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset, 0, 0);
}

/* The low half of an argument (little endian): all that the kernel looks at where these rules apply. */
static struct place load_argument(struct program *p, unsigned arg)
{
    return load(p, offsetof(struct seccomp_data, args) + 8 * arg);
}

/* Both halves of an argument are zero: a null pointer. */
static struct place if_null(struct program *p, unsigned arg, struct place yes, struct place no)
{
    for (unsigned half = 2; half-- > 0;) {
        jump(p, BPF_JEQ, 0, yes, no);
        yes = load(p, offsetof(struct seccomp_data, args) + 8 * arg + 4 * half);
    }
    return yes;
}

/* prlimit64(pid, resource, new, old): pid 0 only. RLIMIT_CORE (4) can be read; setting it seems to work,
 * unless the old value is wanted too, which we could not give. So: old null pretends (with new null it would
 * have done nothing either); else new must be null. */
static struct place emit_prlimit(struct program *p, struct place allow, struct place eperm)
{
    struct place core = if_null(p, 2, allow, eperm);
    core = if_null(p, 3, verdict(PRETENDED), core);
    jump(p, BPF_JEQ, 4, core, allow);
    struct place own = load_argument(p, 1);
    jump(p, BPF_JEQ, 0, own, eperm);
    return load_argument(p, 0);
}

/* Tests an argument against each value: a hit leads to one place, no hit to the other. */
static struct place test_values(struct program *p, const struct group *g, struct place hit, struct place miss)
{
    uint32_t values[64];
    unsigned count = 0;
    char *text = strdup(g->values);
    for (char *save, *word = strtok_r(text, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
        if (count == sizeof(values) / sizeof(values[0])) {
            fprintf(stderr, "gen-seccomp: %s has too many values\n", g->name);
            exit(1);
        }
        values[count++] = (uint32_t)strtoul(word, NULL, 0);
    }
    free(text);
    while (count-- > 0)
        miss = jump(p, BPF_JEQ, values[count], hit, miss);
    if (g->mask != 0xffffffff)
        emit(p, BPF_ALU | BPF_AND | BPF_K, g->mask, 0, 0);
    return load_argument(p, g->arg);
}

/* A group that is switched off does the opposite: what it allows is missing, what it refuses or narrows is
 * allowed. */
static enum kind kind_of(const struct profile *profile, const struct group *g, bool off)
{
    if (!g)
        return profile->allows ? ALLOW : UNKNOWN;
    return !off ? g->kind : g->kind == ALLOW ? UNKNOWN : ALLOW;
}

static struct place without(struct program *p, const struct group *g, struct place allow, struct place eperm)
{
    jump(p, BPF_JSET, g->mask, eperm, allow);
    return load_argument(p, g->arg);
}

static struct place emit_test(struct program *p, const struct group *g, enum kind kind)
{
    const struct place allow = verdict(SECCOMP_RET_ALLOW), eperm = verdict(SECCOMP_RET_ERRNO | EPERM);
    struct place inner;
    switch (kind) {
    case BOTH:
        inner = test_values(p, g, allow, eperm);
        jump(p, BPF_JEQ, g->same, inner, eperm);
        emit(p, BPF_ALU | BPF_AND | BPF_K, g->bits, 0, 0);
        return load_argument(p, g->other);
    case ONLY:
        return test_values(p, g, allow, g->mark ? jump(p, BPF_JEQ, g->mark, verdict(MARKED), eperm) : eperm);
    case NEVER:
        return test_values(p, g, eperm, allow);
    case PRETEND:
        return test_values(p, g, verdict(PRETENDED), allow);
    case WHEN:
        inner = without(p, g, allow, eperm);
        jump(p, BPF_JSET, g->bits, inner, allow);
        return load_argument(p, g->other);
    case WITHOUT:
        return without(p, g, allow, eperm);
    default:
        return emit_prlimit(p, allow, eperm);
    }
}

/* Calls that are told apart by the same test share it. */
static bool same_test(const struct group *a, const struct group *b)
{
    return a->kind == b->kind && a->arg == b->arg && a->mask == b->mask && !strcmp(a->values, b->values) &&
           a->other == b->other && a->bits == b->bits && a->same == b->same && a->mark == b->mark;
}

static struct place emit_leaf(struct program *p, const struct range *r)
{
    static const uint32_t plain[] = {[UNKNOWN] = SECCOMP_RET_ERRNO | ENOSYS,
                                     [ALLOW] = SECCOMP_RET_ALLOW,
                                     [DENY] = SECCOMP_RET_ERRNO | EPERM,
                                     [KILL] = SECCOMP_RET_KILL_PROCESS};
    const enum kind kind = kind_of(r->profile, r->group, r->off);
    if (kind <= KILL)
        return verdict(plain[kind]);
    for (unsigned i = 0; i < p->done_count; i++)
        if (same_test(p->done[i].group, r->group))
            return (struct place){.at = p->done[i].at};
    struct place test = emit_test(p, r->group, kind);
    p->done[p->done_count].group = r->group;
    p->done[p->done_count++].at = test.at;
    return test;
}

static struct place emit_tree(struct program *p, const struct range *ranges,
                              unsigned count) /* NOLINT(misc-no-recursion): as deep as log2 of the ranges */
{
    if (count == 1)
        return emit_leaf(p, ranges);
    unsigned half = count / 2;
    const struct place right = emit_tree(p, ranges + half, count - half);
    const struct place left = emit_tree(p, ranges, half);
    return jump(p, BPF_JGE, ranges[half].first, right, left);
}

static void turn(struct program *p)
{
    for (unsigned i = 0; i < p->len / 2; i++) {
        const struct sock_filter last = p->code[p->len - 1 - i];
        p->code[p->len - 1 - i] = p->code[i];
        p->code[i] = last;
    }
}

static bool same_leaf(const struct range *a, const struct group *g, bool off)
{
    if (a->group == g && a->off == off)
        return true;
    /* Two plain permissions, or two plain refusals, need no border between them. */
    enum kind kind = kind_of(a->profile, a->group, a->off);
    return kind == kind_of(a->profile, g, off) && kind <= KILL;
}

/* Calls that are newer than some libseccomp that we build with. Their numbers are the same on every
 * architecture. */
static const struct {
    const char *name;
    int number;
} newer[] = {{"fchmodat2", 452}, {"futex_wake", 454}, {"futex_wait", 455},    {"futex_requeue", 456},
             {"statmount", 457}, {"listmount", 458},  {"open_tree_attr", 467}};

/* The number of a call, negative if this architecture does not have it. A name that nobody knows is a mistake
 * in profiles.def. */
static int number_of(uint32_t arch, const char *name)
{
    int n = seccomp_syscall_resolve_name_arch(arch, name);
    for (size_t i = 0; n == __NR_SCMP_ERROR && i < sizeof(newer) / sizeof(newer[0]); i++)
        if (!strcmp(newer[i].name, name))
            n = newer[i].number;
    if (n == __NR_SCMP_ERROR) {
        fprintf(stderr, "gen-seccomp: there is no system call '%s'\n", name);
        exit(1);
    }
    return n;
}

static void find_groups(const struct profile *profile, uint32_t arch, const struct group **by_number)
{
    memset(by_number, 0, CALLS * sizeof(*by_number));
    for (size_t i = 0; i < GROUPS; i++) {
        if (!has_group(profile, &groups[i]))
            continue;
        char *text = strdup(groups[i].calls);
        for (char *save, *word = strtok_r(text, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
            int n = number_of(arch, word);
            if (n < 0 || n >= CALLS)
                continue;
            if (by_number[n]) {
                fprintf(stderr, "gen-seccomp: %s is in two groups\n", word);
                exit(1);
            }
            by_number[n] = &groups[i];
        }
        free(text);
    }
}

/* --- the filter of a box, in two --- */

/* The kernel asks both, and the stricter answer counts. So the nursery's allows `more` than the box's, and
 * the rest refuses just that. The mark is a question that nobody else would answer so: by it PID 1 of a box
 * knows that the very filter is in force that makes its own a whole. */
static struct group nursery_rule(const struct group *box, const struct group *more, uint32_t mark)
{
    struct group g = *more;
    if (more->kind == ALLOW)
        return g;
    g.name = box->name; /* is off when the box's is */
    g.mark = strcmp(more->calls, "prctl") ? 0 : mark;
    if (box->kind == ONLY && asprintf((char **)&g.values, "%s %s", box->values, more->values) < 0)
        exit(1);
    return g;
}

static struct group rest_rule(const struct group *box, const struct group *more, uint32_t mark)
{
    struct group g = *box;
    if (box->kind != ONLY || more->kind != ONLY)
        return g;
    g.kind = NEVER;
    if (asprintf((char **)&g.values, "%s 0x%x", more->values, mark) < 0)
        exit(1);
    return g;
}

static void split(const struct profile *part, uint32_t arch, uint32_t mark, const struct group **by_number)
{
    static const struct group *more[CALLS];
    static struct group made[CALLS];
    const bool rest = part == &profiles[REST];
    find_groups(&profiles[BOX], arch, by_number);
    find_groups(&profiles[NURSERY], arch, more);
    for (unsigned n = 0; n < CALLS; n++) {
        const struct group *box = by_number[n];
        if (!more[n]) {
            by_number[n] = rest ? NULL : box;
            continue;
        }
        if (!box || (box->kind == ONLY && (box->arg != more[n]->arg || box->mask != more[n]->mask))) {
            fprintf(stderr, "gen-seccomp: the nursery's rule for call %u does not fit the box's\n", n);
            exit(1);
        }
        made[n] = rest ? rest_rule(box, more[n], mark) : nursery_rule(box, more[n], mark);
        by_number[n] = &made[n];
    }
}

/* --- whole programs --- */

static unsigned make_ranges(const struct profile *profile, uint32_t arch, const char *off, uint32_t mark,
                            struct range *ranges)
{
    static const struct group *by_number[CALLS];
    if (profile == &profiles[NURSERY] || profile == &profiles[REST])
        split(profile, arch, mark, by_number);
    else
        find_groups(profile, arch, by_number);
    unsigned count = 0;
    for (unsigned n = 0; n < CALLS; n++) {
        bool is_off = by_number[n] && !strcmp(by_number[n]->name, off);
        if (!count || !same_leaf(&ranges[count - 1], by_number[n], is_off))
            ranges[count++] = (struct range){profile, n, by_number[n], is_off};
    }
    return count;
}

/* A call made through another ABI (int 0x80, x32) has other numbers: nothing honest does that here. */
static void refuse_other_abis(struct program *p, uint32_t arch, const char *off, struct place calls)
{
    if (arch == AUDIT_ARCH_X86_64 && strcmp(off, "x32")) {
        /* -1 is how debuggers and tests say "no call" */
        struct place x32 = jump(p, BPF_JEQ, UINT32_MAX, verdict(SECCOMP_RET_ERRNO | ENOSYS),
                                verdict(SECCOMP_RET_KILL_PROCESS));
        jump(p, BPF_JGE, X32_BIT, x32, calls);
    }
    calls = load(p, offsetof(struct seccomp_data, nr));
    if (strcmp(off, "abi")) {
        jump(p, BPF_JEQ, arch, calls, verdict(SECCOMP_RET_KILL_PROCESS));
        load(p, offsetof(struct seccomp_data, arch));
    }
}

static void compile(struct program *p, const struct profile *profile, uint32_t arch, const char *off,
                    uint32_t mark)
{
    static struct range ranges[CALLS];
    unsigned count = make_ranges(profile, arch, off, mark, ranges);
    p->len = p->done_count = 0;
    struct place calls = emit_tree(p, ranges, count);
    if (profile == &profiles[REST]) /* the nursery's filter, which is always below it, has seen to that */
        load(p, offsetof(struct seccomp_data, nr));
    else
        refuse_other_abis(p, arch, off, calls);
    turn(p);
}

/* As a part of a name in C. */
static const char *word_of(const char *name)
{
    static char word[64];
    snprintf(word, sizeof(word), "%s", name);
    for (char *c = word; *c; c++)
        if (*c == '-')
            *c = '_';
    return word;
}

static void print(const struct program *p, const char *prefix, const char *name)
{
    printf("static const struct sock_filter %s_%s[] = {\n", prefix, word_of(name));
    for (unsigned i = 0; i < p->len; i++)
        printf("    {0x%x, %u, %u, 0x%x},\n", p->code[i].code, p->code[i].jt, p->code[i].jf, p->code[i].k);
    printf("};\n");
}

/* Of all three programs, so that parts of different policies, or of different variants, never match. Not an
 * option that prctl has: those are small numbers, or four letters. */
static uint32_t make_mark(uint32_t arch, const char *off)
{
    static struct program p;
    uint32_t hash = 2166136261U; /* FNV-1a */
    for (unsigned part = BOX; part <= REST; part++) {
        compile(&p, &profiles[part], arch, off, 1);
        for (size_t i = 0; i < p.len * sizeof(p.code[0]); i++)
            hash = (hash ^ ((const uint8_t *)p.code)[i]) * 16777619U;
    }
    return hash | 0x80000000U;
}

/* One name for each filter, which is the group that is off, or nothing: the box's in all its variants. */
static void print_box(uint32_t arch, bool variants)
{
    static struct program p;
    static const char *const abi_groups[] = {"abi", "x32"};
    static const char *names[GROUPS + 3] = {""};
    size_t count = 1;
    for (size_t i = 0; variants && i < GROUPS; i++)
        if (has_group(&profiles[BOX], &groups[i]))
            names[count++] = groups[i].name;
    for (size_t i = 0; variants && i < 2; i++)
        names[count++] = abi_groups[i];
    for (size_t i = 0; i < count; i++) {
        const uint32_t mark = make_mark(arch, names[i]);
        for (unsigned part = BOX; part <= REST; part++) {
            compile(&p, &profiles[part], arch, names[i], mark);
            print(&p, profiles[part].name, *names[i] ? names[i] : "all");
        }
    }
    printf("\n#define PROGRAM(name) {name, sizeof(name) / sizeof(name[0])}\n");
    printf("const struct gb_seccomp_filter gb_seccomp_filters[] = {\n");
    for (size_t i = 0; i < count; i++) {
        const char *name = *names[i] ? names[i] : "all";
        printf("    {\"%s\", PROGRAM(box_%s), PROGRAM(nursery_%s), PROGRAM(rest_%s), 0x%x},\n", names[i],
               name, name, name, make_mark(arch, names[i]));
    }
    printf("};\nconst unsigned gb_seccomp_filter_count = sizeof(gb_seccomp_filters) / "
           "sizeof(gb_seccomp_filters[0]);\n");
}

static void print_service(uint32_t arch)
{
    static struct program p;
    for (size_t i = SERVICE; i < PROFILES; i++) {
        compile(&p, &profiles[i], arch, "", 0);
        print(&p, "code", profiles[i].name);
    }
    printf("\nconst struct gb_confine_filter gb_confine_filters[] = {\n");
    for (size_t i = SERVICE; i < PROFILES; i++) {
        const char *word = word_of(profiles[i].name);
        printf("    {\"%s\", code_%s, sizeof(code_%s) / sizeof(code_%s[0])},\n", profiles[i].name, word, word,
               word);
    }
    printf("};\nconst unsigned gb_confine_filter_count = sizeof(gb_confine_filters) / "
           "sizeof(gb_confine_filters[0]);\n");
}

int main(int argc, char **argv)
{
    if (argc < 2 || (strcmp(argv[1], "x86_64") && strcmp(argv[1], "aarch64"))) {
        fprintf(stderr, "usage: gen-seccomp x86_64|aarch64 [variants|service]\n");
        return 1;
    }
    const uint32_t arch = strcmp(argv[1], "x86_64") ? AUDIT_ARCH_AARCH64 : AUDIT_ARCH_X86_64;
    const char *what = argc > 2 ? argv[2] : "";
    const bool service = !strcmp(what, "service");
    printf("/* Made by gen-seccomp from profiles.def. */\n#include \"%s\"\n\n",
           service ? "confine/filter.h" : "sandbox/seccomp.h");
    if (service)
        print_service(arch);
    else
        print_box(arch, !strcmp(what, "variants"));
    return 0;
}
