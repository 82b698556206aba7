/* Programs that take more than their share, one for each limit. They try for about four times the default
 * limit. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

int hog(const char *what);

#define MIB (1UL << 20)

static int touch(int flags, int fd)
{
    for (int i = 0; i < 1024; i++) {
        char *p = mmap(NULL, MIB, PROT_READ | PROT_WRITE, flags, fd, fd < 0 ? 0 : (off_t)(i * MIB));
        if (p == MAP_FAILED)
            return 1;
        memset(p, 1, MIB);
    }
    return 0;
}

static int hog_memory(void)
{
    return touch(MAP_PRIVATE | MAP_ANONYMOUS, -1);
}

static int hog_shared(void)
{
    return touch(MAP_SHARED | MAP_ANONYMOUS, -1);
}

static int hog_memfd(void)
{
    int fd = memfd_create("hog", 0);
    return ftruncate(fd, 1024 * (off_t)MIB) ? 1 : touch(MAP_SHARED, fd);
}

static int hog_cpu(void) __attribute__((noreturn));
static int hog_cpu(void)
{
    for (int i = 0; i < 8; i++)
        if (fork() == 0)
            break;
    for (volatile unsigned long n = 0;; n++)
        ;
}

/* Exit 0 means: the limit was met, with the right errno. */
static int hog_pids(void)
{
    for (int i = 0; i < 256; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            pause();
            _exit(0);
        }
        if (pid < 0)
            return errno == EAGAIN ? 0 : 2;
    }
    return 1;
}

static int hog_disk(void)
{
    static char block[MIB];
    for (int i = 0; i < 4; i++) {
        char name[32];
        snprintf(name, sizeof(name), "/tmp/hog-%d", i);
        int fd = open(name, O_CREAT | O_WRONLY, 0644);
        for (int n = 0; n < 99; n++)
            if (write(fd, block, sizeof(block)) < 0)
                return errno == ENOSPC ? 0 : 2;
    }
    return 1;
}

static int hog_inodes(void)
{
    for (int i = 0; i < 1000000; i++) {
        char name[32];
        snprintf(name, sizeof(name), "/tmp/hog-%d", i);
        int fd = open(name, O_CREAT | O_WRONLY, 0644);
        if (fd < 0)
            return errno == ENOSPC ? 0 : 2;
        close(fd);
    }
    return 1;
}

static int hog_files(void)
{
    for (int i = 0; i < 4096; i++)
        if (open("/dev/null", O_RDONLY) < 0)
            return errno == EMFILE ? 0 : 2;
    return 1;
}

static int hog_output(void)
{
    static char block[65536];
    memset(block, 'x', sizeof(block));
    for (int i = 0; i < 64; i++)
        if (write(1, block, sizeof(block)) < 0)
            return 1;
    return 0;
}

/* Everything that has ever kept a process alive past its deadline. */
static int hog_time(void) __attribute__((noreturn));
static int hog_time(void)
{
    for (int sig = 1; sig < NSIG; sig++)
        signal(sig, SIG_IGN);
    for (int i = 0; i < 4; i++)
        if (fork() == 0) {
            setsid();
            if (fork() == 0 && i % 2)
                raise(SIGSTOP);
        }
    for (;;)
        if (fork() == 0 && getpid() % 3)
            _exit(0);
}

int hog(const char *what)
{
    static const struct {
        const char *name;
        int (*run)(void);
    } hogs[] = {{"memory", hog_memory}, {"shared", hog_shared}, {"memfd", hog_memfd},   {"cpu", hog_cpu},
                {"pids", hog_pids},     {"disk", hog_disk},     {"inodes", hog_inodes}, {"files", hog_files},
                {"output", hog_output}, {"time", hog_time}};
    for (size_t i = 0; i < sizeof(hogs) / sizeof(hogs[0]); i++)
        if (!strcmp(hogs[i].name, what))
            return hogs[i].run();
    return 3;
}
