/* Tells the service manager how we are (sd_notify(3), by hand: a datagram to $NOTIFY_SOCKET). */
#pragma once

/* Sends one state, such as "READY=1\nSTATUS=Listening". Without a manager, or when it does not listen,
 * nothing happens: there would be nobody to tell. */
void gb_notify(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
