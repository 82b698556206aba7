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

/* seccomp. Should: be the last step but the start of init, and bind init too. Must not: need any privilege:
 * no_new_privs is on. */
int gb_seccomp_apply(struct gb_box *box, struct gb_err *err)
{
    (void)box;
    const struct gb_seccomp_filter *filter = gb_seccomp_filter();
    const struct sock_fprog program = {(unsigned short)filter->len, (struct sock_filter *)filter->code};
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0))
        return gb_err_set(err, GB_ERR_LAYER, errno, "load the system call filter");
    return 0;
}
