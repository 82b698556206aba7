/* seccomp: which system calls exist for a box. profiles.def is the policy. */
#include "sandbox/seccomp.h"

#include "sandbox/steps.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

const struct gb_seccomp_filter *gb_seccomp_filter(void)
{
#ifdef GB_TESTING
    const char *off = getenv("GLOVEBOX_TEST_SECCOMP_OFF");
    for (unsigned i = 0; off && i < gb_seccomp_filter_count; i++)
        if (!strcmp(gb_seccomp_filters[i].without, off))
            return &gb_seccomp_filters[i];
#endif
    return &gb_seccomp_filters[0];
}

static int load(const struct gb_seccomp_program *p, struct gb_err *err)
{
    const struct sock_fprog program = {(unsigned short)p->len, (struct sock_filter *)p->code};
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0))
        return gb_err_set(err, GB_ERR_LAYER, errno, "load the system call filter");
    return 0;
}

/* seccomp. Should: be the last step but the start of init, and bind init too. Must not: need any privilege:
 * no_new_privs is on. */
int gb_seccomp_apply(struct gb_box *box, struct gb_err *err)
{
    (void)box;
    return load(&gb_seccomp_filter()->full, err);
}

int gb_seccomp_enter_nursery(struct gb_err *err)
{
    return load(&gb_seccomp_filter()->nursery, err);
}

/* Asked of the kernel, in the very process that is to be bound. That some filter is in force would say
 * nothing: the launcher has one, too. */
const struct gb_seccomp_program *gb_seccomp_missing(void)
{
    const struct gb_seccomp_filter *f = gb_seccomp_filter();
    const bool stands = prctl((int)f->mark, 0, 0, 0, 0) < 0 && errno == GB_SECCOMP_MARKED;
    return stands ? &f->rest : &f->full;
}

/* seccomp, where a zygote bears the box. Should: refuse what the zygote's filter leaves open. Must not: take
 * that filter for granted. */
int gb_seccomp_complete(struct gb_box *box, struct gb_err *err)
{
    (void)box;
    return load(gb_seccomp_missing(), err);
}
