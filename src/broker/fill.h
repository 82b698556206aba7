/* Fills the places of a text of the policy (policy/template.h) with a call's arguments and the policy's
 * secrets. */
#pragma once

#include "broker/tool.h"

enum fill_form {
    FILL_TEXT, /* as it is: for headers; control characters are refused */
    FILL_URL,  /* percent-encoded: one word of a path or query */
};

/* Appends to out. 0; -ENOENT: an argument is absent (or null), its name is in *ret_absent; -EINVAL: a denial
 * was added; -ENOMEM. ret_secret, if not NULL, is set if a secret went in. */
int fill_text(struct tool_call *call, const char *text, enum fill_form form, struct gb_buf *out,
              bool *ret_secret, const char **ret_absent);
/* The same for a whole JSON value: a text that is exactly one place becomes the argument's value; members and
 * items whose argument is absent are left out. NULL after a denial, or without memory. */
json_t *fill_json(struct tool_call *call, const json_t *value, bool *ret_secret);
