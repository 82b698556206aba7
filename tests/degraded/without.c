/* without CALL[:N][=ERRNO][,CALL…] PROGRAM ARG…: runs a program on a kernel that lacks these system calls, or
 * so it seems; with :N, those whose argument N is not 0. CALL is a
 * name or a number. Tests only. */
#include <errno.h>
#include <seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    if (argc < 3)
        return 125;
    scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ALLOW);
    for (char *save, *word = strtok_r(argv[1], ",", &save); word; word = strtok_r(NULL, ",", &save)) {
        char *equals = strchr(word, '=');
        int error = equals ? atoi(equals + 1) : ENOSYS;
        if (equals)
            *equals = '\0';
        char *colon = strchr(word, ':');
        if (colon)
            *colon = '\0';
        const struct scmp_arg_cmp some = SCMP_CMP(colon ? (unsigned)atoi(colon + 1) : 0, SCMP_CMP_NE, 0);
        /* by number, if libseccomp does not know it yet */
        int number = *word >= '0' && *word <= '9' ? atoi(word) : seccomp_syscall_resolve_name(word);
        if (!ctx || number < 0 ||
            seccomp_rule_add_array(ctx, SCMP_ACT_ERRNO((unsigned)error), number, colon ? 1 : 0, &some)) {
            fprintf(stderr, "without: no system call %s\n", word);
            return 125;
        }
    }
    if (seccomp_attr_set(ctx, SCMP_FLTATR_CTL_NNP, 0) || seccomp_load(ctx))
        return 125;
    seccomp_release(ctx);
    execv(argv[2], argv + 2);
    return 125;
}
