/* Who asks, and may they ask here: keys, the uid behind a local connection, Host and Origin. */
#pragma once

#include "front/conn.h"

/* Names the principal in c->x->principal, or says why not. */
int auth_principal(struct conn *c, struct gb_err *err);
/* Could a request still come in this name? A key may have been taken away. */
bool auth_is_known(const struct gb_config *config, const char *principal);
/* Is the request addressed to us, and not by a web page of somebody else? No DNS rebinding, no cross-site
 * calls. */
int auth_origin(struct conn *c, struct gb_err *err);
bool auth_origin_listed(const struct gb_config *config, struct gb_slice origin);
