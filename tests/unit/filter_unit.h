/* What the tests of the two sets of system call filters share: a small interpreter for the programs, names
 * for calls and verdicts, and the comparison with a golden file.
 *
 * Such a test is built twice: with the native filters, and with those of the other architecture
 * (-DOTHER_ARCH), whose array then takes the place of the native one. GOLDEN is its file. */
#pragma once

#include "unit.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#if defined(__x86_64__) != defined(OTHER_ARCH)
#define ARCH    AUDIT_ARCH_X86_64
#define HAS_X32 1
#else
#define ARCH    AUDIT_ARCH_AARCH64
#define HAS_X32 0
#endif

#define CALLS 1024
#define HIGH  0xdeadbeef00000000U

/* --- the interpreter --- */

/* What a run saw on its way. */
struct unit_trace {
    unsigned steps;  /* instructions */
    unsigned looked; /* a bit for each argument that it loaded */
};

/* Only what the generator emits; anything else is a failure, as it would be if the kernel refused the
 * program. */
static inline uint32_t unit_filter_run(const struct sock_filter *code, unsigned len,
                                       const struct seccomp_data *data, struct unit_trace *ret_trace)
{
    const size_t first_arg = offsetof(struct seccomp_data, args);
    uint32_t a = 0;
    *ret_trace = (struct unit_trace){0};
    for (unsigned pc = 0; pc < len; pc++) {
        const struct sock_filter *i = &code[pc];
        ret_trace->steps++;
        switch (i->code) {
        case BPF_LD | BPF_W | BPF_ABS:
            assert_true(i->k % 4 == 0 && i->k + 4 <= sizeof(*data));
            memcpy(&a, (const char *)data + i->k, 4);
            if (i->k >= first_arg)
                ret_trace->looked |= 1U << (i->k - first_arg) / sizeof(data->args[0]);
            break;
        case BPF_ALU | BPF_AND | BPF_K:
            a &= i->k;
            break;
        case BPF_JMP | BPF_JA:
            pc += i->k;
            break;
        case BPF_JMP | BPF_JEQ | BPF_K:
            pc += a == i->k ? i->jt : i->jf;
            break;
        case BPF_JMP | BPF_JGE | BPF_K:
            pc += a >= i->k ? i->jt : i->jf;
            break;
        case BPF_JMP | BPF_JSET | BPF_K:
            pc += a & i->k ? i->jt : i->jf;
            break;
        case BPF_RET | BPF_K:
            return i->k;
        default:
            fail_msg("instruction %u: unexpected opcode 0x%x", pc, i->code);
        }
    }
    fail_msg("the program ran off its end");
    return 0;
}

static inline void unit_filter_well_formed(const struct sock_filter *code, unsigned len)
{
    assert_true(len > 0 && len <= BPF_MAXINSNS);
    assert_int_equal(BPF_CLASS(code[len - 1].code), BPF_RET);
    for (unsigned i = 0; i < len; i++) {
        const struct sock_filter *c = &code[i];
        if (c->code == (BPF_JMP | BPF_JA))
            assert_true(c->k < len - i - 1);
        else if (BPF_CLASS(c->code) == BPF_JMP)
            assert_true(i + 1U + (c->jt > c->jf ? c->jt : c->jf) < len);
    }
}

/* Does the kernel take it? Tried in a child, which then ends: no filter of ours refuses that. */
static inline void unit_filter_loads(const struct sock_filter *code, unsigned len)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        const struct sock_fprog program = {(unsigned short)len, (struct sock_filter *)code};
        _exit(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
              prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0));
    }
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

/* --- as text --- */

static inline const char *unit_verdict_word(uint32_t v)
{
    return v == SECCOMP_RET_ALLOW                    ? "allow"
           : v == (SECCOMP_RET_ERRNO | EPERM)        ? "eperm"
           : v == (SECCOMP_RET_ERRNO | ENOSYS)       ? "enosys"
           : v == (SECCOMP_RET_ERRNO | EAFNOSUPPORT) ? "eafnosupport"
           : v == SECCOMP_RET_ERRNO                  ? "pretend"
           : v == SECCOMP_RET_KILL_PROCESS           ? "kill"
                                                     : "UNEXPECTED";
}

/* The name of a call, "" if it has none. */
static inline void unit_call_name(unsigned nr, char *ret_name, size_t size)
{
    /* Calls that not every libseccomp in use knows. They have the same number on every architecture; named
     * here so that the names in the golden file do not depend on the version. */
    static const struct {
        unsigned number;
        const char *name;
    } later[] = {
            {451, "cachestat"},         {452, "fchmodat2"},        {453, "map_shadow_stack"},
            {454, "futex_wake"},        {455, "futex_wait"},       {456, "futex_requeue"},
            {457, "statmount"},         {458, "listmount"},        {459, "lsm_get_self_attr"},
            {460, "lsm_set_self_attr"}, {461, "lsm_list_modules"}, {462, "mseal"},
            {463, "setxattrat"},        {464, "getxattrat"},       {465, "listxattrat"},
            {466, "removexattrat"},     {467, "open_tree_attr"},   {468, "file_getattr"},
            {469, "file_setattr"},
    };
    *ret_name = '\0';
    for (size_t i = 0; i < LEN(later); i++)
        if (later[i].number == nr)
            snprintf(ret_name, size, "%s", later[i].name);
    if (nr > 450)
        return;
    char *name = seccomp_syscall_resolve_num_arch(ARCH, (int)nr);
    /* 335 and 336 are x86's uretprobe and uprobe, known to newer versions only */
    if (name && nr != 335 && nr != 336)
        snprintf(ret_name, size, "%s", name);
    free(name);
}

/* --- the golden file --- */

static const char *unit_golden = GOLDEN;
static bool unit_golden_update;

static inline void unit_golden_arguments(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--update"))
            unit_golden_update = true;
        else
            unit_golden = argv[i];
    }
}

static inline char *unit_golden_load(void)
{
    FILE *in = fopen(unit_golden, "re");
    if (!in)
        return strdup("");
    char *text = NULL;
    size_t size = 0;
    ssize_t n = getdelim(&text, &size, '\0', in);
    fclose(in);
    if (n >= 0)
        return text;
    free(text);
    return strdup("");
}

/* Is the line (up to its end) a line of the text? */
static inline bool unit_golden_has(const char *text, const char *line, size_t len)
{
    for (; *text; text = strchrnul(text, '\n'), text += *text == '\n')
        if (!strncmp(text, line, len + 1))
            return true;
    return false;
}

static inline void unit_golden_print_missing(const char *sign, const char *from, const char *in)
{
    for (const char *p = from; *p;) {
        size_t len = strcspn(p, "\n");
        if (!unit_golden_has(in, p, len))
            print_message("%s %.*s\n", sign, (int)len, p);
        p += len + (p[len] == '\n');
    }
}

/* Fails, and says which lines are missing and which are new, unless the text is that of the file. Frees the
 * text. */
static inline void unit_golden_compare(char *now)
{
    if (unit_golden_update) {
        FILE *out = fopen(unit_golden, "we");
        assert_non_null(out);
        fputs(now, out);
        assert_int_equal(fclose(out), 0);
    }
    char *before = unit_golden_load();
    bool same = !strcmp(before, now);
    unit_golden_print_missing("-", before, now);
    unit_golden_print_missing("+", now, before);
    free(before);
    free(now);
    if (!same)
        fail_msg("the verdicts differ from %s; if that is meant, run with --update and read the difference",
                 unit_golden);
}
