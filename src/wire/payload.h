/* What a box is to run, from the front to the launcher: argv, environment, files and names of outputs, as
 * length-prefixed items in a sealed memfd. The reader copies nothing and trusts nothing: every length is
 * checked against what is left, names are checked as the library checks them, counts have ceilings. The same
 * format carries the files that came back, from the launcher to the front. */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "init/report.h"
#include "spec/spec.h"

#define GB_PAYLOAD_BYTES ((size_t)80 << 20)
#define GB_PAYLOAD_FILES 256

/* Appends one item; strings with their NUL. */
void gb_payload_add(struct gb_buf *b, enum gb_item_kind kind, const void *data, size_t len);
void gb_payload_add_text(struct gb_buf *b, enum gb_item_kind kind, const char *text);
/* A sealed memfd with these bytes, or -errno. */
int gb_payload_seal(const struct gb_buf *b);

/* A payload that was received: mapped read-only, or copied if it is short; arrays pointing into that. */
struct gb_payload {
    const char *map;
    char *copy;
    size_t bytes;
    const char *argv[GB_PAYLOAD_STRINGS + 1], *env[GB_PAYLOAD_STRINGS + 1], *outputs[GB_PAYLOAD_STRINGS + 1];
    size_t argc, envc, output_count;
    struct gb_file files[GB_PAYLOAD_FILES]; /* data NULL: see skipped */
    const char *skipped[GB_PAYLOAD_FILES];
    size_t file_count;
};

/* Reads bytes in memory (the fuzz target's door): fills everything but map. */
int gb_payload_read(const char *data, size_t bytes, struct gb_payload *ret, struct gb_err *err);
/* The descriptor alone: a memfd of that size, sealed against every change (else it could shrink under a
 * reader). */
int gb_payload_check(int fd, uint64_t bytes, struct gb_err *err);
/* Checks fd, maps it and reads it. Release with gb_payload_done. */
int gb_payload_open(int fd, uint64_t bytes, struct gb_payload *ret, struct gb_err *err);
void gb_payload_done(struct gb_payload *p);
