/* From a request to the function that answers it. The table of routes is in route.c. */
#pragma once

#include "front/conn.h"

/* The head is there: checks addressing, path, method, caller and kind of body. False: the reply is made
 * already. */
bool route_find(struct conn *c);
/* The body is there too. */
void route_call(struct conn *c);

/* Does an Accept header name this type? */
bool route_accepts(struct gb_slice accept, const char *type);
