/* Runs a fuzz target on every file of the directories in argv, without libFuzzer: with any compiler and any
 * sanitizer. */
#include "fuzz.h"

#include "base/auto.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#define INPUT_MOST (1 << 20)

/* 1: done, 0: not a regular file, -1: cannot be read. */
static int replay_file(int dir_fd, const char *name)
{
    AUTO_FD fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st))
        return -1;
    if (!S_ISREG(st.st_mode))
        return 0;
    AUTO_FREE char *data = malloc(INPUT_MOST);
    ssize_t n = data ? read(fd, data, INPUT_MOST) : -1;
    if (n != st.st_size)
        return -1;
    AUTO_FREE char *exact = fuzz_copy(data, (size_t)n);
    LLVMFuzzerTestOneInput((const uint8_t *)exact, (size_t)n);
    return 1;
}

static int replay_directory(const char *path)
{
    AUTO_DIR dir = opendir(path);
    if (!dir) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        return 1;
    }
    size_t count = 0;
    for (struct dirent *entry; (entry = readdir(dir));) {
        int r = replay_file(dirfd(dir), entry->d_name);
        if (r < 0) {
            fprintf(stderr, "%s/%s: cannot be read, or has more than %d bytes\n", path, entry->d_name,
                    INPUT_MOST);
            return 1;
        }
        count += (size_t)r;
    }
    printf("%s: %zu inputs\n", path, count);
    return count ? 0 : 1; /* an empty corpus would pass for ever */
}

int main(int argc, char **argv)
{
    int failures = argc < 2;
    for (int i = 1; i < argc; i++)
        failures += replay_directory(argv[i]);
    return failures ? 1 : 0;
}
