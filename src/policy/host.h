/* Names of hosts in the policy, in one form: small letters, addresses as the kernel writes them. What a
 * resolver might take for an address and people would not (127.1, 0x7f000001, 2130706433) is neither name nor
 * address here. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gb_host {
    char name[256]; /* without brackets */
    uint16_t port;  /* 0: none was given */
    bool is_address;
};

/* "host", "host:port", "[::1]:port". 0 or -EINVAL. */
int gb_host_parse(const char *text, size_t len, struct gb_host *ret);
/* An entry without a port is for every port. */
bool gb_host_covers(const struct gb_host *entry, const char *name, uint16_t port);

/* An http, https, smtp or smtps URL. */
struct gb_host_url {
    char scheme[8];
    struct gb_host host; /* with its port, the usual one if none was given */
    const char *rest;    /* behind host and port: path and query */
};
/* 0; or -EINVAL, and *ret_why says what is wrong with it. */
int gb_host_parse_url(const char *url, struct gb_host_url *ret, const char **ret_why);
