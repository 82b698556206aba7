/* What a caller may do: GET /v1/tools, /v1/policy, /v1/capabilities. */
#pragma once

#include "front/conn.h"

void listing_tools(struct conn *c);
void listing_policy(struct conn *c);
void listing_capabilities(struct conn *c);
