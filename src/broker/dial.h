/* Where a tool may connect. Names are resolved here, once, and every address is looked at; curl is told to
 * use these very addresses and is asked again before each socket, so that no second answer of a name server
 * can lead anywhere else. */
#pragma once

#include "broker/tool.h"
#include "policy/host.h"

#include <curl/curl.h>

struct dial {
    bool any; /* the policy names this host: it may be at a private address */
    struct curl_slist *pins;
};

/* Prepares curl for one host, instead of the one before. 0; -EACCES: refused, and a denial was added;
 * -ENOENT: there is no such name, and call->failed is set; else negative with err. */
int dial_prepare(struct dial *d, CURL *curl, const struct gb_host *host, bool any, struct tool_call *call,
                 struct gb_err *err);
void dial_done(struct dial *d);

/* It was tried and went wrong: fills call->failed and call->result with {"error": …}. 0 or -ENOMEM. */
int dial_failed(struct tool_call *call, const char *format, ...) __attribute__((format(printf, 2, 3)));
