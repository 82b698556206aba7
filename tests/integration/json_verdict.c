/* What the JSON reader says to each file in argv: one line, "accept" or "reject" and why. For
 * test_json_cases.py. */
#include "base/auto.h"
#include "base/buf.h"
#include "json/json.h"

#include <fcntl.h>

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        AUTO_FD fd = open(argv[i], O_RDONLY | O_CLOEXEC);
        AUTO_BUF text = {.max = (size_t)16 << 20};
        AUTO_JSON value = NULL;
        struct gb_err err = {0};
        char chunk[65536];
        ssize_t n;
        while ((n = read(fd, chunk, sizeof(chunk))) > 0)
            gb_buf_add(&text, chunk, (size_t)n);
        if (n < 0 || text.failed || gb_buf_truncated(&text))
            return 1;
        if (gb_json_read(text.data, text.len, &value, &err))
            printf("reject %s\n", err.text);
        else
            printf("accept\n");
    }
    return 0;
}
