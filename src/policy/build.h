/* How a policy is made: what the files of src/policy share while gb_policy_new runs. Private to src/policy.
 *
 * Everything that is made belongs to the policy from the moment it is made, so that a step that fails just
 * returns. A path says where in the configuration something stands: "tools[2].http.url". */
#pragma once

#include "policy/policy.h"

#define GB_BUILD_PATH 320

struct gb_build {
    const struct gb_config *config;
    enum gb_policy_use use;
    struct gb_policy *p;
    struct gb_err *err;
    char path[GB_BUILD_PATH]; /* of gb_build_path */
};

/* The steps, in the order in which gb_policy_new takes them. Each returns 0 or a negative errno with the
 * error set. */
int gb_build_document(struct gb_build *b);   /* the trees against policy.schema.json */
int gb_build_secrets(struct gb_build *b);    /* rules.c */
int gb_build_rules(struct gb_build *b);      /* rules.c: screening and sanitising */
int gb_build_profiles(struct gb_build *b);   /* profiles.c */
int gb_build_tools(struct gb_build *b);      /* tools.c */
int gb_build_principals(struct gb_build *b); /* principals.c */
int gb_build_agreement(struct gb_build *b);  /* agreement.c: what these say about each other */
int gb_build_identity(struct gb_build *b);   /* identity.c: hashes of profiles */

/* Memory that lives as long as the policy, zeroed; NULL with the error set. */
void *gb_build_alloc(struct gb_build *b, size_t count, size_t size);
/* Takes the value over for as long as the policy lives. NULL, also if it was NULL, with the error set. */
json_t *gb_build_keep(struct gb_build *b, json_t *value);
/* The texts of an array, NULL-terminated; they live as long as the configuration's trees, which the policy
 * holds. */
const char **gb_build_texts(struct gb_build *b, const json_t *array);

/* A path, kept until the next call; for gb_build_fail. */
const char *gb_build_path(struct gb_build *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* "FILE:LINE: PATH: what is wrong". Returns -EINVAL. */
int gb_build_fail(struct gb_build *b, const char *path, const char *fmt, ...)
        __attribute__((format(printf, 3, 4)));
/* Puts "FILE:LINE: PATH: " before an error that somebody else has set. Returns -EINVAL. */
int gb_build_fail_with(struct gb_build *b, const char *path);
/* "PATH (FILE:LINE)", to name the other place of a contradiction. */
void gb_build_other(struct gb_build *b, const char *path, char *buf, size_t size);

/* Names that could have been meant. */
struct gb_build_names {
    const char *name[512];
    size_t count;
};
void gb_build_names_add(struct gb_build_names *names, const char *name);
/* "there is no WHAT 'GIVEN'; did you mean 'X'? there are: X, Y". */
int gb_build_unknown(struct gb_build *b, const char *path, const char *what, const char *given,
                     const struct gb_build_names *names);

/* A budget as it is written, checked before; NULL: no limits. (tools.c) */
void gb_build_budget(const json_t *row, struct gb_budget *ret);
/* The hash of a tool, from how it is written; tool->parameters is filled. (identity.c) */
int gb_build_tool_hash(struct gb_build *b, const json_t *row, struct gb_tool *tool);
/* A member `profile` of the object that is open. (show.c) */
void gb_show_profile(struct gb_json *out, const struct gb_policy *p, const struct gb_profile *profile);
/* The members `python` and `pool` of a profile whose runtimes and modules are known; row as for a profile.
 * (pools.c) */
int gb_build_pool(struct gb_build *b, const char *name, const json_t *row, struct gb_profile *profile);
/* The profile of that name. (tools.c) */
int gb_build_profile(struct gb_build *b, const char *path, const char *name, const struct gb_profile **ret);
