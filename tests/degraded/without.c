/* without CALL[=ERRNO][,CALL…] PROGRAM ARG…: runs a program on a kernel that lacks these system calls, or so
 * it seems. Tests only. */
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
        int number = seccomp_syscall_resolve_name(word);
        if (!ctx || number < 0 || seccomp_rule_add(ctx, SCMP_ACT_ERRNO((unsigned)error), number, 0)) {
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
