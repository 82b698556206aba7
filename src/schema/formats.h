/* Inside format.c: the formats whose grammars are larger. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* --- format_time.c: RFC 3339 --- */
bool gb_formats_date_time(const char *text, size_t len);
bool gb_formats_date(const char *text, size_t len);
bool gb_formats_time(const char *text, size_t len);
bool gb_formats_duration(const char *text, size_t len);

/* --- format_net.c --- */
bool gb_formats_ipv4(const char *text, size_t len);
bool gb_formats_ipv6(const char *text, size_t len);
bool gb_formats_hostname(const char *text, size_t len);
bool gb_formats_email(const char *text, size_t len);
bool gb_formats_idn_email(const char *text, size_t len);

/* --- format_uri.c: RFC 3986, RFC 3987 --- */
bool gb_formats_uri(const char *text, size_t len);
bool gb_formats_uri_reference(const char *text, size_t len);
bool gb_formats_iri(const char *text, size_t len);
bool gb_formats_iri_reference(const char *text, size_t len);
