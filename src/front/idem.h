/* Idempotency-Key: agent frameworks repeat a POST whose reply they did not see. The same key with the same
 * body gets the stored reply; while the first is still running 409; with another body 422. Bounded in number,
 * bytes and time; kept in memory, so a restart forgets. */
#pragma once

#include "front/front.h"
#include "front/http.h"

struct idem;
struct idem_entry;

struct idem *idem_new(void);

/* `what`: route and hash of the request, in less than 80 characters. 0: the call may go on, *ret_entry is its
 * claim. 1: *ret_reply is the stored reply. Negative: err says why not. */
int idem_claim(struct idem *table, const char *principal, struct gb_slice key, const char *what,
               struct idem_entry **ret_entry, const struct gb_buf **ret_reply, struct gb_err *err);
/* The reply that repetitions get (always a 200). */
void idem_keep(struct idem *table, struct idem_entry *entry, const char *reply, size_t len);
/* Nothing worth repeating came of it: the key is free again. */
void idem_drop(struct idem *table, struct idem_entry *entry);
