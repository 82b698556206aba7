/* Runs a line of Python in a box:  cc run.c $(pkg-config --cflags --libs glovebox) && ./a.out */
#include <glovebox.h>

#include <stdio.h>
#include <stdlib.h>

int main(void)
{
    struct gb_run *run = gb_run_new();
    if (!run)
        return 1;
    const char *parent =
            getenv("GLOVEBOX_CGROUP_PARENT"); /* an ordinary user's boxes go below a cgroup that is his */
    int r = gb_run_set_code(run, "python", "print(2 + 2)", 0);
    if (!r)
        r = gb_run_set_limit(run, "timeout_seconds", "5");
    if (!r && parent)
        r = gb_run_set_cgroup_parent(run, parent);
    if (!r)
        r = gb_run_start(run);
    if (r)
        fprintf(stderr, "%s\n", gb_run_error(run));
    else
        printf("%s: %s", gb_run_status(run), gb_run_stdout(run, NULL));
    int code = gb_run_exit_code(run);
    gb_run_free(run);
    return code;
}
