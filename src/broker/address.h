/* Which addresses are somebody else's: a tool that was given a name must not be led to this host, its network
 * or its cloud's metadata by whoever answers for the name. Pure. */
#pragma once

#include <sys/socket.h>

/* NULL if it is a public unicast address; else what it is instead ("a loopback address"). Whatever is not
 * known to be public is not. */
const char *address_refused(const struct sockaddr *address);
