/* From a body to a call that is well-formed and within its ceilings: strict JSON, known fields only. */
#pragma once

#include "front/front.h"
#include "json/json.h"
#include "spec/spec.h"

struct request {
    json_t *json;     /* owns code and input */
    const char *tool; /* static */
    const struct gb_runtime *runtime;
    const char *code;
    size_t code_len;
    const char *input; /* stdin, or NULL */
    size_t input_len;
    struct gb_limits limits;
    struct gb_buf payload; /* for the launcher */
    bool stream;
    char sha256[65]; /* of what runs, and within which limits */
};

/* seeds: the contract of POST /execute, which needs tool_name and keeps less output. The error names the
 * field's path and what is allowed. Release with request_done in any case. */
int request_read(const struct gb_config *config, bool seeds, const char *body, size_t len,
                 struct request *ret, struct gb_err *err);
/* Gives back what is large: code, files, input. What records and replies need stays. */
void request_done(struct request *r);
