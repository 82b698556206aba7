/* From a body to a call that is well-formed and within its ceilings: strict JSON, known fields only. Whether
 * it may be done is decide.c's; what is wrong here is wrong whoever asks (a problem, 422). */
#pragma once

#include "front/front.h"
#include "json/json.h"
#include "spec/spec.h"
#include "wire/id.h"

/* Where it came from, and who asks. */
struct request_source {
    const struct gb_policy *policy;
    const struct gb_principal *who;
    const char *principal; /* its name: a row of the policy can be for many */
    bool seeds;            /* POST /execute: needs tool_name, and keeps less output */
    const char *tool;      /* that the path names, or NULL: the body's tool_name */
};

struct request {
    json_t *json;      /* owns every text below */
    json_t *arguments; /* an object, `code` and `command` put into it; owned */
    const struct gb_tool *tool;
    const struct gb_profile *profile;
    const struct gb_runtime *runtime; /* NULL: no code */
    const char *code;                 /* of a tool of that kind; NULL: arguments have none that is text */
    size_t code_len;
    const char *input; /* stdin, or NULL */
    size_t input_len;
    struct gb_limits limits;
    /* Items of the payload, each kind by itself: fields come in any order. `program` is filled by decide.c.
     */
    struct gb_buf program, args, env, files, outputs;
    struct gb_buf start_text; /* for the start-up code of Python; likewise */
    bool limits_modules;      /* Python: fewer modules than the profile allows */
    const char **modules;     /* which; texts of `json` */
    size_t module_count;
    bool stream, wait, raw;
    const char *approval; /* an id, or NULL */
    char approval_text[GB_ID_CHARS + 1];
    struct gb_buf payload; /* for the launcher; filled by decide.c */
    char sha256[65];       /* of who asks for what, within which limits; see request.c */
};

/* The error names the field's path and what is allowed; an unknown tool is GB_ERR_NOT_FOUND where the path
 * names it. Release with request_done in any case. */
int request_read(const struct request_source *from, const char *body, size_t len, struct request *ret,
                 struct gb_err *err);
/* Gives back what is large: code, files, input. What records and replies need stays. */
void request_done(struct request *r);
