/* Which user is behind a local connection? */
#pragma once

#include "front/conn.h"

/* The uid, or -1: a connection from elsewhere, or one whose owner cannot be told for certain. */
int64_t peer_uid(const struct conn *c);
