#include "broker/address.h"

#include "base/auto.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* The special-purpose registries of IANA, and the addresses at which clouds serve credentials. The longest
 * prefix need not come first: all of them are refused. */
static const struct {
    const char *net;
    unsigned bits;
    const char *what;
} v4[] =
        {
                {"0.0.0.0", 8, "this network"},
                {"10.0.0.0", 8, "a private address"},
                {"100.64.0.0", 10, "a shared address of a provider"},
                {"127.0.0.0", 8, "a loopback address"},
                {"168.63.129.16", 32, "a metadata address"}, /* Azure */
                {"169.254.0.0", 16, "a link-local or metadata address"},
                {"172.16.0.0", 12, "a private address"},
                {"192.0.0.0", 24, "a protocol's own address"},
                {"192.0.2.0", 24, "an address for documentation"},
                {"192.31.196.0", 24, "a special-purpose address"},
                {"192.52.193.0", 24, "a special-purpose address"},
                {"192.88.99.0", 24, "a relay's address"},
                {"192.168.0.0", 16, "a private address"},
                {"192.175.48.0", 24, "a special-purpose address"},
                {"198.18.0.0", 15, "an address for benchmarks"},
                {"198.51.100.0", 24, "an address for documentation"},
                {"203.0.113.0", 24, "an address for documentation"},
                {"224.0.0.0", 4, "a multicast address"},
                {"240.0.0.0", 4, "a reserved address"},
},
  v6[] = {
          {"2001::", 23, "a protocol's own address"}, /* with Teredo, which has an IPv4 address inside */
          {"2001:db8::", 32, "an address for documentation"},
          {"2002::", 16, "an address with an IPv4 address inside"},
          {"2620:4f:8000::", 48, "a special-purpose address"},
          {"3fff::", 20, "an address for documentation"},
};

static bool is_in(const uint8_t *address, const uint8_t *net, unsigned bits)
{
    const unsigned whole = bits / 8, rest = bits % 8;
    return !memcmp(address, net, whole) && (!rest || !((address[whole] ^ net[whole]) >> (8 - rest)));
}

static const char *refused_v4(const uint8_t *address)
{
    for (size_t i = 0; i < ARRAY_LEN(v4); i++) {
        uint8_t net[4];
        if (inet_pton(AF_INET, v4[i].net, net) == 1 && is_in(address, net, v4[i].bits))
            return v4[i].what;
    }
    return NULL;
}

/* Of IPv6 only 2000::/3 is given out; everything else is local, or stands for something else. */
static const char *refused_v6(const uint8_t *address)
{
    static const uint8_t loopback[16] = {[15] = 1}, global[16] = {0x20},
                         mapped[16] = {[10] = 0xff, [11] = 0xff};
    if (!memcmp(address, loopback, sizeof(loopback)))
        return "a loopback address";
    if (is_in(address, mapped, 96))
        return "an IPv4 address in the guise of IPv6";
    if (!is_in(address, global, 3))
        return "no public address";
    for (size_t i = 0; i < ARRAY_LEN(v6); i++) {
        uint8_t net[16];
        if (inet_pton(AF_INET6, v6[i].net, net) == 1 && is_in(address, net, v6[i].bits))
            return v6[i].what;
    }
    return NULL;
}

const char *address_refused(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET)
        return refused_v4((const uint8_t *)&((const struct sockaddr_in *)(const void *)address)->sin_addr);
    if (address->sa_family == AF_INET6)
        return refused_v6((const uint8_t *)&((const struct sockaddr_in6 *)(const void *)address)->sin6_addr);
    return "no internet address";
}
