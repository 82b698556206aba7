#include "screen/start.h"

#include <stdio.h>

void gb_python_start_files(struct gb_file ret[GB_PYTHON_START_FILES])
{
    static char compiled[128];
    snprintf(compiled, sizeof(compiled), GB_PYTHON_DIR "/%s", gb_python_code_name);
    ret[0] = (struct gb_file){.name = GB_PYTHON_DIR "/sitecustomize.py",
                              .data = (const char *)gb_python_source,
                              .len = gb_python_source_bytes,
                              .fd = -1,
                              .mode = 0644};
    ret[1] = (struct gb_file){.name = compiled,
                              .data = (const char *)gb_python_code,
                              .len = gb_python_code_bytes,
                              .fd = -1,
                              .mode = 0644};
}
