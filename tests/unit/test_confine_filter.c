/* The finished system call filters of the service's processes, run by an interpreter over every call and over
 * the arguments that they look at. The verdicts are compared with a golden file that people can read.
 *
 *   test_confine_filter [GOLDEN]            compares
 *   test_confine_filter [GOLDEN] --update   writes the golden file anew; then read the difference
 *
 * Nothing here reads profiles.def: which calls look at arguments, at which bits and for which values, is
 * found by trying. So a row that is lost or weakened shows, whether or not any attack needs it.
 *
 * Built twice, as test_filter is. */
#include "filter_unit.h"

#include "confine/filter.h"

#define BITS       32
#define MAX_VALUES 256

/* A place in a filter: a call, and the arguments that have been decided upon so far. */
struct place {
    const struct gb_confine_filter *filter;
    struct seccomp_data data;
    unsigned known; /* a bit for each of them */
};

/* A value that was tried for an argument, and what becomes of the call then. Verdicts are compared as
 * pointers: unit_verdict_word is their only source. */
struct outcome {
    uint32_t value;
    const char *verdict; /* NULL: that hangs on a further argument */
};

static const char *verdict_of(const struct gb_confine_filter *f, uint32_t arch, uint32_t nr)
{
    const struct seccomp_data data = {.nr = (int)nr, .arch = arch};
    struct unit_trace trace;
    return unit_verdict_word(unit_filter_run(f->code, f->len, &data, &trace));
}

/* The arguments that the verdict hangs on and that are not known yet. */
static unsigned unknown(const struct place *p)
{
    struct unit_trace trace;
    unit_filter_run(p->filter->code, p->filter->len, &p->data, &trace);
    return trace.looked & ~p->known;
}

static struct place with(const struct place *p, unsigned arg, uint64_t value)
{
    struct place next = *p;
    next.data.args[arg] = value;
    next.known |= 1U << arg;
    return next;
}

/* The same with junk in the half that the kernel does not look at. */
static struct outcome try(const struct place *p, unsigned arg, uint32_t value)
{
    const char *verdicts[2];
    for (unsigned i = 0; i < 2; i++) {
        const struct place next = with(p, arg, i ? value | HIGH : value);
        struct unit_trace trace;
        uint32_t v = unit_filter_run(p->filter->code, p->filter->len, &next.data, &trace);
        verdicts[i] = trace.looked & ~next.known ? NULL : unit_verdict_word(v);
    }
    if (verdicts[0] != verdicts[1])
        fail_msg("%s: call %d, argument %u = 0x%x: the high half makes a difference", p->filter->name,
                 p->data.nr, arg, value);
    return (struct outcome){value, verdicts[0]};
}

/* --- what an argument does --- */

/* Where verdicts can change: at the constants of the program, and by any bit. */
static unsigned interesting(const struct gb_confine_filter *f, uint32_t *ret_values)
{
    unsigned count = 0;
    ret_values[count++] = 0;
    ret_values[count++] = UINT32_MAX;
    for (unsigned i = 0; i < BITS; i++)
        ret_values[count++] = 1U << i;
    for (unsigned i = 0; i < f->len; i++) {
        const uint16_t code = f->code[i].code;
        bool seen = code != (BPF_JMP | BPF_JEQ | BPF_K) && code != (BPF_JMP | BPF_JSET | BPF_K) &&
                    code != (BPF_ALU | BPF_AND | BPF_K);
        for (unsigned n = 0; !seen && n < count; n++)
            seen = ret_values[n] == f->code[i].k;
        assert_true(seen || count < MAX_VALUES);
        if (!seen)
            ret_values[count++] = f->code[i].k;
    }
    return count;
}

static int by_value(const void *a, const void *b)
{
    const uint32_t x = ((const struct outcome *)a)->value, y = ((const struct outcome *)b)->value;
    return (x > y) - (x < y);
}

/* All outcomes of an argument, each once: only the bits that make a difference are left in the values, and
 * these bits are the mask. */
static unsigned outcomes(const struct place *p, unsigned arg, struct outcome *ret_list, uint32_t *ret_mask)
{
    uint32_t values[MAX_VALUES];
    const unsigned count = interesting(p->filter, values);
    unsigned len = 0;
    *ret_mask = 0;
    for (unsigned i = 0; i < count; i++) {
        const struct outcome plain = ret_list[len++] = try(p, arg, values[i]);
        for (unsigned bit = 0; bit < BITS; bit++) {
            ret_list[len] = try(p, arg, values[i] ^ 1U << bit);
            if (ret_list[len++].verdict != plain.verdict)
                *ret_mask |= 1U << bit;
        }
    }
    for (unsigned i = 0; i < len; i++)
        ret_list[i].value &= *ret_mask;
    qsort(ret_list, len, sizeof(*ret_list), by_value);
    unsigned kept = 0;
    for (unsigned i = 0; i < len; i++) {
        if (!kept || ret_list[i].value != ret_list[kept - 1].value)
            ret_list[kept++] = ret_list[i];
        else if (ret_list[i].verdict != ret_list[kept - 1].verdict)
            fail_msg("%s: call %d, argument %u: 0x%x has two verdicts", p->filter->name, p->data.nr, arg,
                     ret_list[i].value);
    }
    return kept;
}

/* The verdict that most values have; it is not listed value by value. */
static const char *usual(const struct outcome *list, unsigned len)
{
    const char *best = NULL;
    unsigned most = 0;
    for (unsigned i = 0; i < len; i++) {
        unsigned same = 0;
        for (unsigned n = 0; n < len; n++)
            same += list[n].verdict == list[i].verdict;
        if (list[i].verdict && same >= most) {
            best = list[i].verdict;
            most = same;
        }
    }
    return best;
}

static void start_line(const struct place *p, FILE *out)
{
    char name[64];
    unit_call_name((unsigned)p->data.nr, name, sizeof(name));
    fprintf(out, "%s %s(%d)", p->filter->name, *name ? name : "-", p->data.nr);
    for (unsigned arg = 0; arg < LEN(p->data.args); arg++)
        if (p->known & 1U << arg)
            fprintf(out, " argument %u = %#x,", arg, (unsigned)p->data.args[arg]);
}

/* One line for the first argument that is not known, then those for the arguments behind it. */
static void arguments(const struct place *p, FILE *out) /* NOLINT(misc-no-recursion): once for an argument */
{
    static struct outcome lists[7][MAX_VALUES * (BITS + 1)];
    const unsigned arg = (unsigned)__builtin_ctz(unknown(p));
    struct outcome *list = lists[__builtin_popcount(p->known)];
    uint32_t mask;
    const unsigned len = outcomes(p, arg, list, &mask);
    const char *otherwise = usual(list, len);
    start_line(p, out);
    fprintf(out, " argument %u & %#x:", arg, mask);
    for (unsigned i = 0; i < len; i++)
        if (list[i].verdict != otherwise)
            fprintf(out, " %#x %s,", list[i].value, list[i].verdict ? list[i].verdict : "see below");
    fprintf(out, " else %s\n", otherwise ? otherwise : "-");
    for (unsigned i = 0; i < len; i++) {
        const struct place next = with(p, arg, list[i].value);
        if (!list[i].verdict)
            arguments(&next, out);
    }
}

/* --- a filter --- */

static void every_call(const struct gb_confine_filter *f, FILE *out)
{
    const char *other = verdict_of(f, ARCH, CALLS);
    fprintf(out, "%s: %s what is not named\n", f->name, other);
    for (unsigned nr = 0; nr < CALLS; nr++) {
        const struct place p = {.filter = f, .data = {.nr = (int)nr, .arch = ARCH}};
        const char *v = verdict_of(f, ARCH, nr);
        if (unknown(&p)) {
            arguments(&p, out);
        } else if (v != other) {
            start_line(&p, out);
            fprintf(out, " %s\n", v);
        }
    }
}

/* Equal verdicts in runs. */
static void numbers(const struct gb_confine_filter *f, FILE *out, const char *abi, uint32_t arch,
                    uint32_t first, uint32_t count)
{
    for (uint32_t from = 0, to; from < count; from = to) {
        const char *v = verdict_of(f, arch, first + from);
        for (to = from + 1; to < count && verdict_of(f, arch, first + to) == v;)
            to++;
        fprintf(out, "%s %s numbers %#x..%#x %s\n", f->name, abi, first + from, first + to - 1, v);
    }
}

static void other_abis(const struct gb_confine_filter *f, FILE *out)
{
    static const struct {
        const char *name;
        uint32_t arch;
    } archs[] = {{"i386", AUDIT_ARCH_I386},
                 {"x86_64", AUDIT_ARCH_X86_64},
                 {"arm", AUDIT_ARCH_ARM},
                 {"aarch64", AUDIT_ARCH_AARCH64},
                 {"no architecture", 0}};
    for (size_t i = 0; i < LEN(archs); i++)
        if (archs[i].arch != ARCH)
            numbers(f, out, archs[i].name, archs[i].arch, 0, CALLS);
    if (HAS_X32)
        numbers(f, out, "x32", ARCH, 0x40000000, CALLS);
    static const uint32_t odd[] = {0xffff, 0x3fffffff, 0x80000000, 0xfffffffe, 0xffffffff};
    for (size_t i = 0; i < LEN(odd); i++)
        fprintf(out, "%s number %#x %s\n", f->name, odd[i], verdict_of(f, ARCH, odd[i]));
}

/* --- the tests --- */

static void same_as_golden(void **state)
{
    (void)state;
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    assert_non_null(out);
    for (unsigned i = 0; i < gb_confine_filter_count; i++) {
        every_call(&gb_confine_filters[i], out);
        other_abis(&gb_confine_filters[i], out);
    }
    assert_int_equal(fclose(out), 0);
    unit_golden_compare(text);
}

static void well_formed(void **state)
{
    (void)state;
    for (unsigned i = 0; i < gb_confine_filter_count; i++)
        unit_filter_well_formed(gb_confine_filters[i].code, gb_confine_filters[i].len);
}

#ifndef OTHER_ARCH
static void kernel_takes_them(void **state)
{
    (void)state;
    for (unsigned i = 0; i < gb_confine_filter_count; i++)
        unit_filter_loads(gb_confine_filters[i].code, gb_confine_filters[i].len);
}
#endif

int main(int argc, char **argv)
{
    unit_golden_arguments(argc, argv);
    const struct CMUnitTest tests[] = {
            cmocka_unit_test(same_as_golden),
            cmocka_unit_test(well_formed),
#ifndef OTHER_ARCH
            cmocka_unit_test(kernel_takes_them),
#endif
    };
    return cmocka_run_group_tests_name("confine filter", tests, NULL, NULL);
}
