/* The answers that need no box: health, metrics, past and running executions. */
#pragma once

#include "front/conn.h"

struct query;

/* openapi.json, as built. */
extern const unsigned char gb_openapi[];
extern const size_t gb_openapi_bytes;

void pages_health(struct conn *c);
void pages_ready(struct conn *c);
void pages_is_ready(struct conn *c); /* the reply: yes */
void pages_metrics(struct conn *c);
void pages_openapi(struct conn *c);
void pages_executions(struct conn *c);
void pages_execution(struct conn *c);
void pages_cancel(struct conn *c);
/* The client of a question to the store has left. */
void pages_client_left(struct query *query);
