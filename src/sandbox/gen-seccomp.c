/* Build tool: compiles profiles.def to classic BPF and prints it as C source.
 *
 *   gen-seccomp x86_64|aarch64            the filter of a box
 *   gen-seccomp x86_64|aarch64 variants   and one filter for each group with that group switched off, for
 * test builds
 *   gen-seccomp x86_64|aarch64 service    the filters of confine/profiles.def: one for each process of the
 * service
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

#define CALLS     1024
#define PRETENDED (SECCOMP_RET_ERRNO | 0) /* the call is not made and returns 0 */
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
} groups[] = {
#define GB_ALLOW(group, why, names)                  {"box", ALLOW, #group, names, 0, 0, "", 0, 0, 0},
#define GB_DENY(group, why, names)                   {"box", DENY, #group, names, 0, 0, "", 0, 0, 0},
#define GB_ENOSYS(group, why, names)                 {"box", UNKNOWN, #group, names, 0, 0, "", 0, 0, 0},
#define GB_ONLY(group, why, name, arg, mask, values) {"box", ONLY, #group, name, arg, mask, values, 0, 0, 0},
#define GB_NEVER(group, why, name, arg, mask, values)                                                        \
    {"box", NEVER, #group, name, arg, mask, values, 0, 0, 0},
#define GB_WITHOUT(group, why, name, arg, mask) {"box", WITHOUT, #group, name, arg, mask, "", 0, 0, 0},
#define GB_WHEN(group, why, name, arg, mask, other, bits)                                                    \
    {"box", WHEN, #group, name, arg, mask, "", other, bits, 0},
#define GB_PRETEND(group, why, name, arg, mask, values)                                                      \
    {"box", PRETEND, #group, name, arg, mask, values, 0, 0, 0},
#define GB_PRLIMIT(group, why) {"box", PRLIMIT, #group, "prlimit64", 0, 0, "", 0, 0, 0},
#include "sandbox/profiles.def"
#undef GB_ALLOW
#undef GB_DENY
#undef GB_ONLY
#undef GB_NEVER
#undef GB_WITHOUT
#define GB_ALLOW(who, group, why, names) {who, ALLOW, #group, names, 0, 0, "", 0, 0, 0},
#define GB_DENY(who, group, why, names)  {who, DENY, #group, names, 0, 0, "", 0, 0, 0},
#define GB_KILL(who, group, why, names)  {who, KILL, #group, names, 0, 0, "", 0, 0, 0},
#define GB_ONLY(who, group, why, name, arg, mask, values)                                                    \
    {who, ONLY, #group, name, arg, mask, values, 0, 0, 0},
#define GB_NEVER(who, group, why, name, arg, mask, values)                                                   \
    {who, NEVER, #group, name, arg, mask, values, 0, 0, 0},
#define GB_WITHOUT(who, group, why, name, arg, mask) {who, WITHOUT, #group, name, arg, mask, "", 0, 0, 0},
#define GB_BOTH(who, group, why, name, arg, mask, values, other, bits, same)                                 \
    {who, BOTH, #group, name, arg, mask, values, other, bits, same},
#include "confine/profiles.def"
};
#define GROUPS (sizeof(groups) / sizeof(groups[0]))

/* Whose filter it is, and what becomes of a call that it does not name. */
static const struct profile {
    const char *name;
    bool allows; /* else the call does not exist */
} profiles[] = {{"box", false},         {"front", false},      {"store", false},           {"broker", false},
                {"broker-file", false}, {"broker-net", false}, {"broker-database", false}, {"launch", true}};
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

struct program {
    struct sock_filter code[8192];
    unsigned len;
};

static unsigned emit(struct program *p, uint16_t code, uint32_t k, uint8_t jt, uint8_t jf)
{
    p->code[p->len] = (struct sock_filter){code, jt, jf, k};
    return p->len++;
}

static void verdict(struct program *p, uint32_t value)
{
    emit(p, BPF_RET | BPF_K, value, 0, 0);
}

/* The low half of an argument (little endian): all that the kernel looks at where these rules apply. */
static void load_argument(struct program *p, unsigned arg)
{
    emit(p, BPF_LD | BPF_W | BPF_ABS, (uint32_t)offsetof(struct seccomp_data, args) + 8 * arg, 0, 0);
}

/* Both halves of an argument are zero: a null pointer. */
static void require_null(struct program *p, unsigned arg, uint32_t otherwise)
{
    for (unsigned half = 0; half < 2; half++) {
        emit(p, BPF_LD | BPF_W | BPF_ABS, (uint32_t)offsetof(struct seccomp_data, args) + 8 * arg + 4 * half,
             0, 0);
        emit(p, BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0);
        verdict(p, otherwise);
    }
}

/* prlimit64(pid, resource, new, old): pid 0 only. RLIMIT_CORE (4) can be read; setting it seems to work,
 * unless the old value is wanted too, which we could not give. So: old null pretends (with new null it would
 * have done nothing either); else new must be null. */
static void emit_prlimit(struct program *p, uint32_t eperm)
{
    load_argument(p, 0);
    emit(p, BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0);
    verdict(p, eperm);
    load_argument(p, 1);
    emit(p, BPF_JMP | BPF_JEQ | BPF_K, 4, 1, 0);
    verdict(p, SECCOMP_RET_ALLOW);
    load_argument(p, 3);
    emit(p, BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 3);
    emit(p, BPF_LD | BPF_W | BPF_ABS, (uint32_t)offsetof(struct seccomp_data, args) + 8 * 3 + 4, 0, 0);
    emit(p, BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1);
    verdict(p, PRETENDED);
    require_null(p, 2, eperm);
    verdict(p, SECCOMP_RET_ALLOW);
}

/* Tests an argument against each value: hit returns one verdict,
 * no hit the other. */
static void test_values(struct program *p, const struct group *g, uint32_t hit, uint32_t miss)
{
    load_argument(p, g->arg);
    if (g->mask != 0xffffffff)
        emit(p, BPF_ALU | BPF_AND | BPF_K, g->mask, 0, 0);
    char *text = strdup(g->values);
    for (char *save, *word = strtok_r(text, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
        emit(p, BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)strtoul(word, NULL, 0), 0, 1);
        verdict(p, hit);
    }
    free(text);
    verdict(p, miss);
}

/* A group that is switched off does the opposite: what it allows is missing, what it refuses or narrows is
 * allowed. */
static enum kind kind_of(const struct profile *profile, const struct group *g, bool off)
{
    if (!g)
        return profile->allows ? ALLOW : UNKNOWN;
    return !off ? g->kind : g->kind == ALLOW ? UNKNOWN : ALLOW;
}

static void emit_leaf(struct program *p, const struct range *r)
{
    const uint32_t eperm = SECCOMP_RET_ERRNO | EPERM, enosys = SECCOMP_RET_ERRNO | ENOSYS;
    switch (kind_of(r->profile, r->group, r->off)) {
    case UNKNOWN:
        verdict(p, enosys);
        break;
    case ALLOW:
        verdict(p, SECCOMP_RET_ALLOW);
        break;
    case DENY:
        verdict(p, eperm);
        break;
    case KILL:
        verdict(p, SECCOMP_RET_KILL_PROCESS);
        break;
    case BOTH:
        load_argument(p, r->group->other);
        emit(p, BPF_ALU | BPF_AND | BPF_K, r->group->bits, 0, 0);
        emit(p, BPF_JMP | BPF_JEQ | BPF_K, r->group->same, 1, 0);
        verdict(p, eperm);
        __attribute__((fallthrough));
    case ONLY:
        test_values(p, r->group, SECCOMP_RET_ALLOW, eperm);
        break;
    case NEVER:
        test_values(p, r->group, eperm, SECCOMP_RET_ALLOW);
        break;
    case WHEN:
        load_argument(p, r->group->other);
        emit(p, BPF_JMP | BPF_JSET | BPF_K, r->group->bits, 1, 0);
        verdict(p, SECCOMP_RET_ALLOW);
        __attribute__((fallthrough));
    case WITHOUT:
        load_argument(p, r->group->arg);
        emit(p, BPF_JMP | BPF_JSET | BPF_K, r->group->mask, 0, 1);
        verdict(p, eperm);
        verdict(p, SECCOMP_RET_ALLOW);
        break;
    case PRETEND:
        test_values(p, r->group, PRETENDED, SECCOMP_RET_ALLOW);
        break;
    case PRLIMIT:
        emit_prlimit(p, eperm);
        break;
    }
}

static void emit_tree(struct program *p, const struct range *ranges,
                      unsigned count) /* NOLINT(misc-no-recursion): as deep as log2 of the ranges */
{
    if (count == 1) {
        emit_leaf(p, ranges);
        return;
    }
    unsigned half = count / 2;
    /* Numbers from the right half's first on jump over the left half; the distance is known when that is
     * written. */
    unsigned jump = emit(p, BPF_JMP | BPF_JGE | BPF_K, ranges[half].first, 0, 0);
    emit_tree(p, ranges, half);
    unsigned distance = p->len - jump - 1;
    if (distance <= UINT8_MAX) {
        p->code[jump].jt = (uint8_t)distance;
    } else { /* too far for a conditional jump: over an unconditional one. Jumps are relative, so the left
                half can be moved. */
        memmove(&p->code[jump + 2], &p->code[jump + 1], distance * sizeof(p->code[0]));
        p->code[jump].jf = 1;
        p->code[jump + 1] = (struct sock_filter){BPF_JMP | BPF_JA, 0, 0, distance};
        p->len++;
    }
    emit_tree(p, ranges + half, count - half);
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

static unsigned make_ranges(const struct profile *profile, uint32_t arch, const char *off,
                            struct range *ranges)
{
    static const struct group *by_number[CALLS];
    memset(by_number, 0, sizeof(by_number));
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
    unsigned count = 0;
    for (unsigned n = 0; n < CALLS; n++) {
        bool is_off = by_number[n] && !strcmp(by_number[n]->name, off);
        if (!count || !same_leaf(&ranges[count - 1], by_number[n], is_off))
            ranges[count++] = (struct range){profile, n, by_number[n], is_off};
    }
    return count;
}

static void compile(struct program *p, const struct profile *profile, uint32_t arch, const char *off)
{
    static struct range ranges[CALLS];
    unsigned count = make_ranges(profile, arch, off, ranges);
    p->len = 0;
    /* A call made through another ABI (int 0x80, x32) has other numbers: nothing honest does that here. */
    emit(p, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch), 0, 0);
    if (strcmp(off, "abi")) {
        emit(p, BPF_JMP | BPF_JEQ | BPF_K, arch, 1, 0);
        verdict(p, SECCOMP_RET_KILL_PROCESS);
    }
    emit(p, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr), 0, 0);
    if (arch == AUDIT_ARCH_X86_64 && strcmp(off, "x32")) {
        emit(p, BPF_JMP | BPF_JGE | BPF_K, X32_BIT, 0, 3);
        emit(p, BPF_JMP | BPF_JEQ | BPF_K, UINT32_MAX, 0,
             1); /* -1 is how debuggers and tests say "no call" */
        verdict(p, SECCOMP_RET_ERRNO | ENOSYS);
        verdict(p, SECCOMP_RET_KILL_PROCESS);
    }
    emit_tree(p, ranges, count);
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

static void print(const struct program *p, const char *name)
{
    printf("static const struct sock_filter code_%s[] = {\n", word_of(name));
    for (unsigned i = 0; i < p->len; i++)
        printf("    {0x%x, %u, %u, 0x%x},\n", p->code[i].code, p->code[i].jt, p->code[i].jf, p->code[i].k);
    printf("};\n");
}

/* One name for each filter, which is the group that is off, or nothing: the box's in all its variants. */
static void print_box(uint32_t arch, bool variants)
{
    static struct program p;
    static const char *const abi_groups[] = {"abi", "x32"};
    static const char *names[GROUPS + 3] = {""};
    size_t count = 1;
    for (size_t i = 0; variants && i < GROUPS; i++)
        if (has_group(&profiles[0], &groups[i]))
            names[count++] = groups[i].name;
    for (size_t i = 0; variants && i < 2; i++)
        names[count++] = abi_groups[i];
    for (size_t i = 0; i < count; i++) {
        compile(&p, &profiles[0], arch, names[i]);
        print(&p, *names[i] ? names[i] : "all");
    }
    printf("\nconst struct gb_seccomp_filter gb_seccomp_filters[] = {\n");
    for (size_t i = 0; i < count; i++) {
        const char *code = *names[i] ? names[i] : "all";
        printf("    {\"%s\", code_%s, sizeof(code_%s) / sizeof(code_%s[0])},\n", names[i], code, code, code);
    }
    printf("};\nconst unsigned gb_seccomp_filter_count = sizeof(gb_seccomp_filters) / "
           "sizeof(gb_seccomp_filters[0]);\n");
}

static void print_service(uint32_t arch)
{
    static struct program p;
    for (size_t i = 1; i < PROFILES; i++) {
        compile(&p, &profiles[i], arch, "");
        print(&p, profiles[i].name);
    }
    printf("\nconst struct gb_confine_filter gb_confine_filters[] = {\n");
    for (size_t i = 1; i < PROFILES; i++) {
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
