/* What the audit is told of a call: the bodies of its records. */
#pragma once

#include "front/call.h"

#define RECORD_MOST 60000 /* bytes of one */

/* Sends the record; as audit_append. */
int record_intent(struct call *call);
int record_outcome(struct call *call);
