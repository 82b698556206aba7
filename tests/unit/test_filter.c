/* The finished system call filter, run by a small interpreter over every call and over the arguments that it
 * looks at. The verdicts are compared with a golden file that people can read: a change of the policy shows
 * as a change of that file.
 *
 *   test_filter [GOLDEN]            compares
 *   test_filter [GOLDEN] --update   writes the golden file anew; then read the difference before you keep it
 *
 * Built twice: with the native filter, and with that of the other architecture (-DOTHER_ARCH), whose array
 * then takes the place of the native one. */
#include "filter_unit.h"

#include "sandbox/seccomp.h"
#include "sandbox/steps.h"

#include <sys/socket.h>

#if defined(__x86_64__) != defined(OTHER_ARCH)
#define SOME_NRS                                                                                             \
    {                                                                                                        \
        0, 1, 11, 59, 102, 120, 322                                                                          \
    }
#else
#define SOME_NRS                                                                                             \
    {                                                                                                        \
        0, 29, 56, 57, 220, 221                                                                              \
    }
#endif

#define MAX_STEPS 64
#define MAX_REST  80 /* instructions: what a box of a zygote costs is in proportion to it */

static unsigned longest; /* instructions of the longest path so far */
static unsigned looked;  /* arguments that the last run has seen, a bit for each */
static bool in_two;      /* ask the two filters of a box that a zygote bears */

static uint32_t ask(const struct gb_seccomp_program *p, const struct seccomp_data *data)
{
    struct unit_trace trace = {0};
    uint32_t v = unit_filter_run(p->code, p->len, data, &trace);
    longest = trace.steps > longest ? trace.steps : longest;
    looked |= trace.looked;
    return v;
}

/* As the kernel does: the stricter action, and of two that are equal the one that was loaded last. Actions
 * are ordered as signed numbers. */
static uint32_t ask_both(const struct gb_seccomp_filter *f, const struct seccomp_data *data)
{
    const uint32_t rest = ask(&f->rest, data), nursery = ask(&f->nursery, data);
    return (int32_t)(nursery & SECCOMP_RET_ACTION_FULL) < (int32_t)(rest & SECCOMP_RET_ACTION_FULL) ? nursery
                                                                                                    : rest;
}

static uint32_t run(const struct gb_seccomp_filter *f, const struct seccomp_data *data)
{
    looked = 0;
    return in_two ? ask_both(f, data) : ask(&f->full, data);
}

static const char *verdict(const struct gb_seccomp_filter *f, uint32_t arch, uint32_t nr, unsigned arg,
                           uint64_t value)
{
    struct seccomp_data data = {.nr = (int)nr, .arch = arch};
    data.args[arg] = value;
    return unit_verdict_word(run(f, &data));
}

/* --- the cases, as text --- */

/* Every number with a name on a line of its own; numbers without one in runs. */
static void every_call(const struct gb_seccomp_filter *f, FILE *out)
{
    char name[64];
    for (unsigned nr = 0; nr < CALLS; nr++) {
        const char *v = verdict(f, ARCH, nr, 0, 0);
        unit_call_name(nr, name, sizeof(name));
        if (*name) {
            fprintf(out, "%s(%u) %s\n", name, nr, v);
            continue;
        }
        unsigned last = nr;
        while (last + 1 < CALLS) {
            unit_call_name(last + 1, name, sizeof(name));
            if (*name || verdict(f, ARCH, last + 1, 0, 0) != v)
                break;
            last++;
        }
        fprintf(out, "-(%u..%u) %s\n", nr, last, v);
        nr = last;
    }
}

struct value {
    const char *name;
    uint64_t value;
};

/* Each value as it is, and with junk in the half that the kernel does not look at. */
static void values(const struct gb_seccomp_filter *f, FILE *out, const char *call, unsigned arg,
                   const struct value *list, size_t count)
{
    int nr = seccomp_syscall_resolve_name_arch(ARCH, call);
    for (size_t i = 0; nr >= 0 && i < count; i++) {
        const char *plain = verdict(f, ARCH, (uint32_t)nr, arg, list[i].value);
        const char *high = verdict(f, ARCH, (uint32_t)nr, arg, list[i].value | HIGH);
        fprintf(out, "%s(%d) %s %s, with high junk %s\n", call, nr, list[i].name, plain, high);
    }
}

/* All values of a span, equal verdicts in runs. */
static void sweep(const struct gb_seccomp_filter *f, FILE *out, const char *call, unsigned arg,
                  const char *format, uint64_t first, uint64_t last)
{
    int nr = seccomp_syscall_resolve_name_arch(ARCH, call);
    for (uint64_t from = first; nr >= 0 && from <= last;) {
        const char *v = verdict(f, ARCH, (uint32_t)nr, arg, from);
        uint64_t to = from;
        while (to < last && verdict(f, ARCH, (uint32_t)nr, arg, to + 1) == v)
            to++;
        char a[32], b[32];
        snprintf(a, sizeof(a), *format == 'x' ? "0x%lx" : "%lu", (unsigned long)from);
        snprintf(b, sizeof(b), *format == 'x' ? "0x%lx" : "%lu", (unsigned long)to);
        fprintf(out, "%s(%d) argument %u = %s%s%s %s\n", call, nr, arg, a, from == to ? "" : "..",
                from == to ? "" : b, v);
        from = to + 1;
    }
}

/* A call of which several arguments matter. */
static void together(const struct gb_seccomp_filter *f, FILE *out, const char *call, const char *what,
                     const uint64_t args[4])
{
    int nr = seccomp_syscall_resolve_name_arch(ARCH, call);
    struct seccomp_data data = {.nr = nr, .arch = ARCH, .args = {args[0], args[1], args[2], args[3]}};
    if (nr >= 0)
        fprintf(out, "%s(%d) %s %s\n", call, nr, what, unit_verdict_word(run(f, &data)));
}

static void modes_of_files(const struct gb_seccomp_filter *f, FILE *out)
{
    static const struct value bits[] = {
            {"0755", 0755}, {"sticky", 01777}, {"setgid", 02755}, {"setuid", 04755}};
    static const struct {
        const char *call;
        unsigned arg;
    } calls[] = {{"chmod", 1}, {"fchmod", 1}, {"fchmodat", 2}, {"mkdir", 1}, {"mkdirat", 2}, {"creat", 1}};
    for (size_t i = 0; i < LEN(calls); i++)
        values(f, out, calls[i].call, calls[i].arg, bits, LEN(bits));
    for (size_t i = 0; i < LEN(bits); i++) {
        fprintf(out, "fchmodat2(452) %s %s\n", bits[i].name, verdict(f, ARCH, 452, 2, bits[i].value));
        fprintf(out, "mode %s:\n", bits[i].name);
        together(f, out, "open", "to read", (const uint64_t[4]){0, 0, bits[i].value, 0});
        together(f, out, "open", "to create", (const uint64_t[4]){0, 0x41, bits[i].value, 0});
        together(f, out, "openat", "to read", (const uint64_t[4]){0, 0, 0, bits[i].value});
        together(f, out, "openat", "to create", (const uint64_t[4]){0, 0, 0x41, bits[i].value});
        together(f, out, "openat", "without a name", (const uint64_t[4]){0, 0, 0x410001, bits[i].value});
    }
}

static void limits(const struct gb_seccomp_filter *f, FILE *out)
{
    static const struct value resources[] = {{"RLIMIT_STACK", 3}, {"RLIMIT_CORE", 4}, {"RLIMIT_NOFILE", 7}};
    values(f, out, "setrlimit", 0, resources, LEN(resources));
    together(f, out, "prlimit64", "own stack", (const uint64_t[4]){0, 3, 0x1000, 0});
    together(f, out, "prlimit64", "own core, to read", (const uint64_t[4]){0, 4, 0, 0x1000});
    together(f, out, "prlimit64", "own core, to change", (const uint64_t[4]){0, 4, 0x1000, 0});
    together(f, out, "prlimit64", "own core, to change, from a high address",
             (const uint64_t[4]){0, 4, 0x100000000, 0});
    together(f, out, "prlimit64", "own core, to change and read", (const uint64_t[4]){0, 4, 0x1000, 0x2000});
    together(f, out, "prlimit64", "own core, to change and read high",
             (const uint64_t[4]){0, 4, 0x1000, 0x100000000});
    together(f, out, "prlimit64", "init's stack", (const uint64_t[4]){1, 3, 0x1000, 0});
}

static void descriptors(const struct gb_seccomp_filter *f, FILE *out)
{
    static const struct value commands[] = {
            {"F_DUPFD", 0},      {"F_SETFL", 4},         {"F_SETLK", 6},       {"F_OFD_GETLK", 36},
            {"F_OFD_SETLK", 37}, {"F_OFD_SETLKW", 38},   {"F_SETLEASE", 1024}, {"F_GETLEASE", 1025},
            {"F_NOTIFY", 1026},  {"F_SETPIPE_SZ", 1031}, {"F_ADD_SEALS", 1033}};
    values(f, out, "fcntl", 1, commands, LEN(commands));
    static const struct value socket_options[] = {{"SO_SNDBUF", 7},
                                                  {"SO_PASSCRED", 16},
                                                  {"SO_ATTACH_FILTER", 26},
                                                  {"SO_ATTACH_BPF", 50},
                                                  {"SO_ATTACH_REUSEPORT_CBPF", 51},
                                                  {"SO_ATTACH_REUSEPORT_EBPF", 52}};
    values(f, out, "setsockopt", 2, socket_options, LEN(socket_options));
}

static void arguments(const struct gb_seccomp_filter *f, FILE *out)
{
    modes_of_files(f, out);
    limits(f, out);
    descriptors(f, out);
    static const struct value clone_flags[] = {
            {"fork", 0x01200011},
            {"vfork", 0x4111},
            {"thread", 0x3d0f00},
            {"CLONE_NEWNS", 0x20000},
            {"CLONE_NEWCGROUP", 0x2000000},
            {"CLONE_NEWUTS", 0x4000000},
            {"CLONE_NEWIPC", 0x8000000},
            {"CLONE_NEWUSER", 0x10000000},
            {"CLONE_NEWPID", 0x20000000},
            {"CLONE_NEWNET", 0x40000000},
            {"CLONE_NEWUSER|thread", 0x103d0f00},
            {"CLONE_IO", 0x80000000},
            {"CLONE_NEWTIME (a signal number here)", 0x80},
    };
    values(f, out, "clone", 0, clone_flags, LEN(clone_flags));
    /* every bit alone: a flag that is new some day is seen */
    for (int bit = 0; bit < 32; bit++)
        sweep(f, out, "clone", 0, "x", (uint64_t)1 << bit, (uint64_t)1 << bit);

    static const struct value families[] = {{"AF_UNSPEC", 0}, {"AF_UNIX", 1},     {"AF_INET", 2},
                                            {"AF_INET6", 10}, {"AF_NETLINK", 16}, {"AF_PACKET", 17},
                                            {"AF_ALG", 38},   {"AF_VSOCK", 40},   {"-1", 0xffffffff}};
    static const char *const makers[] = {"socket", "socketpair"};
    for (size_t i = 0; i < LEN(makers); i++) {
        sweep(f, out, makers[i], 0, "u", 0, 63);
        values(f, out, makers[i], 0, families, LEN(families));
    }

    static const struct value requests[] = {{"TCGETS", 0x5401},    {"TIOCGWINSZ", 0x5413},
                                            {"FIONREAD", 0x541b},  {"FIONBIO", 0x5421},
                                            {"FIOCLEX", 0x5451},   {"TIOCSTI", 0x5412},
                                            {"TIOCLINUX", 0x541c}, {"TIOCCONS", 0x541d},
                                            {"TIOCSETD", 0x5423},  {"0", 0}};
    sweep(f, out, "ioctl", 1, "x", 0x5400, 0x54ff);
    values(f, out, "ioctl", 1, requests, LEN(requests));
    sweep(f, out, "ioctl", 0, "x", 0x5412, 0x5412); /* the wrong argument */

    static const struct value options[] = {
            {"PR_SET_NAME", 15},        {"PR_SET_SECCOMP", 22},         {"PR_SET_MM", 35},
            {"PR_SET_VMA", 0x53564d41}, {"PR_SET_PTRACER", 0x59616d61}, {"-1", 0xffffffff}};
    sweep(f, out, "prctl", 0, "u", 0, 80);
    values(f, out, "prctl", 0, options, LEN(options));

    static const struct value personas[] = {{"PER_LINUX", 0},
                                            {"query", 0xffffffff},
                                            {"PER_LINUX32", 8},
                                            {"UNAME26", 0x20000},
                                            {"ADDR_NO_RANDOMIZE", 0x40000},
                                            {"MMAP_PAGE_ZERO", 0x100000},
                                            {"READ_IMPLIES_EXEC", 0x400000},
                                            {"ADDR_COMPAT_LAYOUT", 0x200000}};
    values(f, out, "personality", 0, personas, LEN(personas));

    static const struct value modes[] = {{"0644", 0644},
                                         {"S_IFREG", 0100644},
                                         {"S_IFIFO", 0010644},
                                         {"S_IFSOCK", 0140644},
                                         {"S_IFCHR", 0020644},
                                         {"S_IFBLK", 0060644},
                                         {"S_IFDIR", 0040755},
                                         {"S_IFLNK", 0120777},
                                         {"S_IFCHR|0x10000", 0x12000},
                                         {"S_IFBLK|07777", 0067777},
                                         {"S_IFREG|S_ISUID", 0104755},
                                         {"S_ISGID", 02755}};
    values(f, out, "mknod", 1, modes, LEN(modes));
    values(f, out, "mknodat", 2, modes, LEN(modes));

    static const struct value pids[] = {{"self", 0}, {"init", 1}, {"2", 2}, {"-1", 0xffffffff}};
    values(f, out, "prlimit64", 0, pids, LEN(pids));

    static const struct value mappings[] = {
            {"private anonymous", 0x22}, {"shared", 1}, {"huge", 0x40022}, {"huge 1 GB", 0x78040022}};
    values(f, out, "mmap", 3, mappings, LEN(mappings));
    static const struct value memfds[] = {
            {"none", 0}, {"cloexec", 1}, {"sealing", 2}, {"exec", 0x10}, {"huge", 4}};
    values(f, out, "memfd_create", 1, memfds, LEN(memfds));
    static const struct value segments[] = {{"create", 01600}, {"huge", 05600}};
    values(f, out, "shmget", 2, segments, LEN(segments));
    static const struct value orders[] = {{"remove", 0}, {"info", 14}, {"lock", 11}, {"unlock", 12}};
    values(f, out, "shmctl", 1, orders, LEN(orders));
}

static void other_abis(const struct gb_seccomp_filter *f, FILE *out)
{
    static const struct value archs[] = {{"i386", AUDIT_ARCH_I386},
                                         {"x86_64", AUDIT_ARCH_X86_64},
                                         {"arm", AUDIT_ARCH_ARM},
                                         {"aarch64", AUDIT_ARCH_AARCH64},
                                         {"none", 0}};
    static const unsigned numbers[] = SOME_NRS;
    for (size_t a = 0; a < LEN(archs); a++)
        for (size_t i = 0; archs[a].value != ARCH && i < LEN(numbers); i++)
            fprintf(out, "arch %s number %u %s\n", archs[a].name, numbers[i],
                    verdict(f, (uint32_t)archs[a].value, numbers[i], 0, 0));
    static const unsigned x32[] = {0, 1, 59, 101, 512, 520, 521, 547, 1023};
    for (size_t i = 0; HAS_X32 && i < LEN(x32); i++)
        fprintf(out, "x32 number %u %s\n", x32[i], verdict(f, ARCH, 0x40000000U | x32[i], 0, 0));
    static const uint32_t odd[] = {1024,       4096,       0xffff,     0x10000,
                                   0x3fffffff, 0x80000000, 0xfffffffe, 0xffffffff};
    for (size_t i = 0; i < LEN(odd); i++)
        fprintf(out, "number 0x%x %s\n", odd[i], verdict(f, ARCH, odd[i], 0, 0));
}

static char *table(const struct gb_seccomp_filter *f)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    assert_non_null(out);
    every_call(f, out);
    arguments(f, out);
    other_abis(f, out);
    fclose(out);
    return text;
}

/* --- the tests --- */

static void same_as_golden(void **state)
{
    (void)state;
    /* the one that a box gets: in a test build GLOVEBOX_TEST_SECCOMP_OFF chooses it, and this test must
     * notice */
    unit_golden_compare(table(gb_seccomp_filter()));
}

static void well_formed(void **state)
{
    (void)state;
    for (unsigned n = 0; n < gb_seccomp_filter_count; n++) {
        const struct gb_seccomp_filter *f = &gb_seccomp_filters[n];
        unit_filter_well_formed(f->full.code, f->full.len);
        unit_filter_well_formed(f->nursery.code, f->nursery.len);
        unit_filter_well_formed(f->rest.code, f->rest.len);
    }
    assert_string_equal(gb_seccomp_filters[0].without, "");
}

/* The kernel walks the program on each call that it does not cache, and once for each number when it is
 * loaded. */
static void short_paths(void **state)
{
    (void)state;
    longest = 0;
    for (unsigned nr = 0; nr < CALLS; nr++)
        verdict(&gb_seccomp_filters[0], ARCH, nr, 0, 0);
    print_message("longest path of a call without arguments: %u instructions of %u\n", longest,
                  gb_seccomp_filters[0].full.len);
    assert_true(longest <= MAX_STEPS);
    free(table(&gb_seccomp_filters[0]));
    print_message("longest path with arguments: %u instructions\n", longest);
    assert_true(longest <= 2 * MAX_STEPS);
}

/* --- the same in two --- */

/* The verdicts of the golden file, of every variant as of the real one. */
static void two_are_as_one(void **state)
{
    (void)state;
    for (unsigned n = 0; n < gb_seccomp_filter_count; n++) {
        const struct gb_seccomp_filter *f = &gb_seccomp_filters[n];
        char *one = table(f);
        in_two = true;
        char *two = table(f);
        in_two = false;
        if (strcmp(one, two)) {
            unit_golden_print_missing("-", one, two);
            unit_golden_print_missing("+", two, one);
            fail_msg("without '%s': the two filters decide otherwise than the one", f->without);
        }
        free(one);
        free(two);
    }
}

static void assert_same(const struct gb_seccomp_filter *f, const struct seccomp_data *data)
{
    const uint32_t one = run(f, data);
    const unsigned seen = looked;
    in_two = true;
    const uint32_t two = run(f, data);
    in_two = false;
    looked |= seen;
    if (one != two)
        fail_msg("without '%s': call %d (0x%llx, 0x%llx, 0x%llx, 0x%llx) is 0x%x, in two 0x%x", f->without,
                 data->nr, (unsigned long long)data->args[0], (unsigned long long)data->args[1],
                 (unsigned long long)data->args[2], (unsigned long long)data->args[3], one, two);
}

/* A value that some rule may look for: a small one, a bit, a constant of some filter, junk. */
static uint64_t likely_value(const struct gb_seccomp_filter *f, unsigned *seed)
{
    const unsigned r = (unsigned)rand_r(seed);
    const uint64_t high = r & 0x1000 ? HIGH : 0;
    switch (r & 3) {
    case 0:
        return high | (r >> 16 & 127);
    case 1:
        return high | (uint64_t)1 << (r >> 16 & 31);
    case 2:
        return high | f->nursery.code[(r >> 8) % f->nursery.len].k;
    default:
        return high | f->rest.code[(r >> 8) % f->rest.len].k;
    }
}

/* Beyond the golden file: every number, and of those whose arguments matter thousands of arguments. */
static void two_are_as_one_for_any_argument(void **state)
{
    (void)state;
    const struct gb_seccomp_filter *f = &gb_seccomp_filters[0];
    unsigned seed = 1, with_arguments = 0;
    for (unsigned nr = 0; nr < CALLS; nr++) {
        struct seccomp_data data = {.nr = (int)nr, .arch = ARCH};
        looked = 0;
        assert_same(f, &data);
        if (!looked)
            continue;
        with_arguments++;
        for (unsigned i = 0; i < 20000; i++) {
            for (unsigned a = 0; a < LEN(data.args); a++)
                data.args[a] = rand_r(&seed) & 3 ? likely_value(f, &seed) : 0;
            assert_same(f, &data);
        }
        for (uint64_t v = 0; v < 4096; v++)
            for (unsigned a = 0; a < LEN(data.args); a++) {
                data = (struct seccomp_data){.nr = (int)nr, .arch = ARCH};
                data.args[a] = v;
                assert_same(f, &data);
            }
    }
    assert_true(with_arguments > 10);
    print_message("calls whose arguments matter: %u\n", with_arguments);
}

/* The part that each box loads is short, refuses what it is there for, and alone would be no filter: that is
 * what the mark is for. */
static void the_rest_is_small(void **state)
{
    (void)state;
    const struct gb_seccomp_filter *f = &gb_seccomp_filters[0];
    unsigned only_nursery = 0;
    print_message("whole: %u instructions, nursery: %u, rest: %u\n", f->full.len, f->nursery.len,
                  f->rest.len);
    assert_true(f->rest.len < MAX_REST);
    for (unsigned nr = 0; nr < CALLS; nr++) {
        const struct seccomp_data data = {.nr = (int)nr, .arch = ARCH};
        const bool refused = ask(&f->rest, &data) != SECCOMP_RET_ALLOW;
        if (refused)
            assert_int_not_equal(ask(&f->full, &data), SECCOMP_RET_ALLOW);
        only_nursery += refused;
    }
    assert_in_range(only_nursery, 12, 20);
}

static bool same_program(const struct gb_seccomp_program *a, const struct gb_seccomp_program *b)
{
    return a->len == b->len && !memcmp(a->code, b->code, a->len * sizeof(*a->code));
}

/* Under the nursery's filter alone the mark is answered, in a box it is an option like any other; and no two
 * policies have the same. */
static void mark_shows_the_nursery_only(void **state)
{
    (void)state;
    const int nr = seccomp_syscall_resolve_name_arch(ARCH, "prctl");
    for (unsigned n = 0; n < gb_seccomp_filter_count; n++) {
        const struct gb_seccomp_filter *f = &gb_seccomp_filters[n];
        const bool open = !strcmp(f->without, "prctl"); /* then nothing answers, and a box loads the whole */
        const struct seccomp_data data = {.nr = nr, .arch = ARCH, .args = {f->mark}};
        assert_int_equal(ask(&f->nursery, &data),
                         open ? SECCOMP_RET_ALLOW : SECCOMP_RET_ERRNO | GB_SECCOMP_MARKED);
        assert_int_equal(ask_both(f, &data), open ? SECCOMP_RET_ALLOW : SECCOMP_RET_ERRNO | EPERM);
        for (unsigned i = 0; i < n; i++)
            assert_true(f->mark != gb_seccomp_filters[i].mark ||
                        same_program(&f->full, &gb_seccomp_filters[i].full));
    }
}

/* The environment chooses a weaker filter in test builds only. */
static void environment(void **state)
{
    (void)state;
    const char *old = getenv("GLOVEBOX_TEST_SECCOMP_OFF");
    char *kept = old ? strdup(old) : NULL;
    setenv("GLOVEBOX_TEST_SECCOMP_OFF", "mount", 1);
    const struct gb_seccomp_filter *f = gb_seccomp_filter();
#ifdef GB_TESTING
    assert_string_equal(f->without, "mount");
    setenv("GLOVEBOX_TEST_SECCOMP_OFF", "nonsense", 1);
    f = gb_seccomp_filter();
#else
    assert_int_equal(gb_seccomp_filter_count, 1); /* and there is nothing to choose */
#endif
    assert_ptr_equal(f, &gb_seccomp_filters[0]);
    if (kept)
        setenv("GLOVEBOX_TEST_SECCOMP_OFF", kept, 1);
    else
        unsetenv("GLOVEBOX_TEST_SECCOMP_OFF");
    free(kept);
}

#ifdef GB_TESTING
static const struct {
    const char *name;
    bool restricts;
    const char *calls;
} groups[] = {
#define GB_ALLOW(group, why, names)                       {#group, false, names},
#define GB_DENY(group, why, names)                        {#group, true, names},
#define GB_ENOSYS(group, why, names)                      {#group, true, names},
#define GB_ONLY(group, why, name, arg, mask, values)      {#group, true, name},
#define GB_NEVER(group, why, name, arg, mask, values)     {#group, true, name},
#define GB_WITHOUT(group, why, name, arg, mask)           {#group, true, name},
#define GB_WHEN(group, why, name, arg, mask, other, bits) {#group, true, name},
#define GB_PRETEND(group, why, name, arg, mask, values)   {#group, true, name},
#define GB_PRLIMIT(group, why)                            {#group, true, "prlimit64"},
#define GB_NURSERY(why, names)
#define GB_NURSERY_ONLY(why, name, arg, mask, values)
#include "sandbox/profiles.def"
        {"abi", true, "read"},
        {"x32", HAS_X32, "read"},
};

/* Does this architecture have any of the calls? */
static bool has_any(const char *calls)
{
    char *text = strdup(calls), *save;
    bool found = false;
    for (char *word = strtok_r(text, " ", &save); word; word = strtok_r(NULL, " ", &save))
        found |= seccomp_syscall_resolve_name_arch(ARCH, word) >= 0;
    free(text);
    return found;
}

/* Each group that restricts something has a variant without it, and its verdicts are others. A group of plain
 * permissions has nothing to switch off. */
static void each_group_shows(void **state)
{
    (void)state;
    char *real = table(&gb_seccomp_filters[0]);
    for (size_t g = 0; g < LEN(groups); g++) {
        const struct gb_seccomp_filter *f = NULL;
        for (unsigned i = 1; i < gb_seccomp_filter_count; i++)
            if (!strcmp(gb_seccomp_filters[i].without, groups[g].name))
                f = &gb_seccomp_filters[i];
        if (!groups[g].restricts || !has_any(groups[g].calls))
            continue;
        if (!f)
            fail_msg("group %s has no variant", groups[g].name);
        char *without = table(f);
        if (!strcmp(real, without))
            fail_msg("nothing shows that group %s is off", groups[g].name);
        free(without);
    }
    free(real);
}
#endif

#ifndef OTHER_ARCH
static void kernel_takes_it(void **state)
{
    (void)state;
    const struct gb_seccomp_filter *f = gb_seccomp_filter();
    unit_filter_loads(f->full.code, f->full.len);
    unit_filter_loads(f->nursery.code, f->nursery.len);
}

static unsigned filters_of_this_process(void)
{
    char line[128];
    unsigned count = 0;
    FILE *in = fopen("/proc/self/status", "re");
    while (in && fgets(line, sizeof(line), in))
        sscanf(line, "Seccomp_filters: %u", &count);
    if (in)
        fclose(in);
    return count;
}

/* The number of the first claim that does not hold, as the exit status of a process of its own. */
static int complete(bool nursery)
{
    const struct gb_seccomp_filter *f = gb_seccomp_filter();
    struct gb_err err = {0};
    const unsigned before = filters_of_this_process();
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || (nursery && gb_seccomp_enter_nursery(&err)))
        return 1;
    const bool short_part = nursery && strcmp(f->without, "prctl") != 0; /* without which nothing answers */
    if (gb_seccomp_missing() != (short_part ? &f->rest : &f->full))
        return 2;
    if (gb_seccomp_complete(NULL, &err))
        return 3;
    if (before + 1 + nursery != filters_of_this_process())
        return 4;
    if (gb_seccomp_missing() != &f->full) /* a box does not pass for a nursery */
        return 5;
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL, 0, 0) != -1 || errno != EPERM) /* of both */
        return 6;
    return socket(AF_INET, SOCK_STREAM, 0) != -1 || errno != EPERM ? 7 : 0; /* of the long part */
}

/* The short part is never loaded alone: without the nursery's filter below it, the whole is. */
static void the_kernel_says_which(void **state)
{
    (void)state;
    for (int nursery = 0; nursery < 2; nursery++) {
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (!pid)
            _exit(complete(nursery));
        int status = -1;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
    }
}
#endif

int main(int argc, char **argv)
{
    unit_golden_arguments(argc, argv);
    const struct CMUnitTest tests[] = {
            cmocka_unit_test(same_as_golden),    cmocka_unit_test(well_formed),
            cmocka_unit_test(short_paths),       cmocka_unit_test(environment),
            cmocka_unit_test(two_are_as_one),    cmocka_unit_test(two_are_as_one_for_any_argument),
            cmocka_unit_test(the_rest_is_small), cmocka_unit_test(mark_shows_the_nursery_only),
#ifndef OTHER_ARCH
            cmocka_unit_test(kernel_takes_it),   cmocka_unit_test(the_kernel_says_which),
#endif
#ifdef GB_TESTING
            cmocka_unit_test(each_group_shows),
#endif
    };
    return cmocka_run_group_tests_name("filter", tests, NULL, NULL);
}
