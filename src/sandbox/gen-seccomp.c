/* Build tool: compiles profiles.def to classic BPF and prints it as C source.
 *
 *   gen-seccomp x86_64|aarch64            the filter
 *   gen-seccomp x86_64|aarch64 variants   and one filter for each group with that group switched off, for
 * test builds
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

enum kind { UNKNOWN, ALLOW, DENY, ONLY, NEVER, WITHOUT, WHEN, PRETEND, PRLIMIT };

static const struct group {
    enum kind kind;
    const char *name, *calls;
    unsigned arg;
    uint32_t mask;
    const char *values;
    unsigned other; /* WHEN */
    uint32_t bits;
} groups[] = {
#define GB_ALLOW(group, why, names)                       {ALLOW, #group, names, 0, 0, "", 0, 0},
#define GB_DENY(group, why, names)                        {DENY, #group, names, 0, 0, "", 0, 0},
#define GB_ENOSYS(group, why, names)                      {UNKNOWN, #group, names, 0, 0, "", 0, 0},
#define GB_ONLY(group, why, name, arg, mask, values)      {ONLY, #group, name, arg, mask, values, 0, 0},
#define GB_NEVER(group, why, name, arg, mask, values)     {NEVER, #group, name, arg, mask, values, 0, 0},
#define GB_WITHOUT(group, why, name, arg, mask)           {WITHOUT, #group, name, arg, mask, "", 0, 0},
#define GB_WHEN(group, why, name, arg, mask, other, bits) {WHEN, #group, name, arg, mask, "", other, bits},
#define GB_PRETEND(group, why, name, arg, mask, values)   {PRETEND, #group, name, arg, mask, values, 0, 0},
#define GB_PRLIMIT(group, why)                            {PRLIMIT, #group, "prlimit64", 0, 0, "", 0, 0},
#include "sandbox/profiles.def"
};
#define GROUPS (sizeof(groups) / sizeof(groups[0]))

struct range {
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
static enum kind kind_of(const struct group *g, bool off)
{
    if (!g)
        return UNKNOWN;
    return !off ? g->kind : g->kind == ALLOW ? UNKNOWN : ALLOW;
}

static void emit_leaf(struct program *p, const struct range *r)
{
    const uint32_t eperm = SECCOMP_RET_ERRNO | EPERM, enosys = SECCOMP_RET_ERRNO | ENOSYS;
    switch (kind_of(r->group, r->off)) {
    case UNKNOWN:
        verdict(p, enosys);
        break;
    case ALLOW:
        verdict(p, SECCOMP_RET_ALLOW);
        break;
    case DENY:
        verdict(p, eperm);
        break;
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
    enum kind kind = kind_of(a->group, a->off);
    return kind == kind_of(g, off) && kind <= DENY;
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

static unsigned make_ranges(uint32_t arch, const char *off, struct range *ranges)
{
    static const struct group *by_number[CALLS];
    memset(by_number, 0, sizeof(by_number));
    for (size_t i = 0; i < GROUPS; i++) {
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
            ranges[count++] = (struct range){n, by_number[n], is_off};
    }
    return count;
}

static void compile(struct program *p, uint32_t arch, const char *off)
{
    static struct range ranges[CALLS];
    unsigned count = make_ranges(arch, off, ranges);
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

static void print(const struct program *p, const char *name)
{
    printf("static const struct sock_filter code_%s[] = {\n", name);
    for (unsigned i = 0; i < p->len; i++)
        printf("    {0x%x, %u, %u, 0x%x},\n", p->code[i].code, p->code[i].jt, p->code[i].jf, p->code[i].k);
    printf("};\n");
}

int main(int argc, char **argv)
{
    static struct program p;
    if (argc < 2 || (strcmp(argv[1], "x86_64") && strcmp(argv[1], "aarch64"))) {
        fprintf(stderr, "usage: gen-seccomp x86_64|aarch64 [variants]\n");
        return 1;
    }
    const uint32_t arch = strcmp(argv[1], "x86_64") ? AUDIT_ARCH_AARCH64 : AUDIT_ARCH_X86_64;
    static const char *const abi_groups[] = {"abi", "x32"};
    const bool variants = argc > 2;
    printf("/* Made by gen-seccomp from profiles.def. */\n#include \"sandbox/seccomp.h\"\n\n");
    compile(&p, arch, "");
    print(&p, "all");
    for (size_t i = 0; variants && i < GROUPS + 2; i++) {
        const char *name = i < GROUPS ? groups[i].name : abi_groups[i - GROUPS];
        compile(&p, arch, name);
        print(&p, name);
    }
    printf("\nconst struct gb_seccomp_filter gb_seccomp_filters[] = {\n    {\"\", code_all, sizeof(code_all) "
           "/ sizeof(code_all[0])},\n");
    for (size_t i = 0; variants && i < GROUPS + 2; i++) {
        const char *name = i < GROUPS ? groups[i].name : abi_groups[i - GROUPS];
        printf("    {\"%s\", code_%s, sizeof(code_%s) / sizeof(code_%s[0])},\n", name, name, name, name);
    }
    printf("};\nconst unsigned gb_seccomp_filter_count = sizeof(gb_seccomp_filters) / "
           "sizeof(gb_seccomp_filters[0]);\n");
    return 0;
}
