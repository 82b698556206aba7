#include "schema/uri.h"

#include "base/text.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* A part of a text; absent parts differ from empty ones. */
struct span {
    const char *at; /* NULL: absent */
    size_t len;
};

struct parts {
    struct span scheme, authority, path, query; /* with neither ':' nor '//' nor '?' */
};

static struct span cut(const char **text, const char *end)
{
    const struct span s = {*text, (size_t)(end - *text)};
    *text = end;
    return s;
}

static size_t scheme_length(const char *text)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    size_t n = strspn(text, letters);
    if (n)
        n += strspn(text + n, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-.");
    return n && text[n] == ':' ? n : 0;
}

/* Of a text without a fragment. */
static struct parts split(const char *text)
{
    struct parts p = {0};
    const size_t scheme = scheme_length(text);
    if (scheme) {
        p.scheme = cut(&text, text + scheme);
        text++;
    }
    if (!strncmp(text, "//", 2)) {
        text += 2;
        p.authority = cut(&text, text + strcspn(text, "/?"));
    }
    p.path = cut(&text, text + strcspn(text, "?"));
    if (*text)
        p.query = (struct span){text + 1, strlen(text + 1)};
    return p;
}

struct out {
    char *text;
    size_t len;
    bool full;
};

static void put(struct out *o, const char *before, struct span s, const char *after)
{
    const size_t room = GB_URI_MOST - o->len;
    if (!s.at)
        return;
    const int n = snprintf(o->text + o->len, room, "%s%.*s%s", before, (int)s.len, s.at, after);
    if (n < 0 || (size_t)n >= room)
        o->full = true;
    else
        o->len += (size_t)n;
}

/* RFC 3986, 5.2.4. Works in place: what is written never overtakes what is read. */
static void remove_dots(char *path)
{
    const char *in = path;
    char *out = path;
    while (*in) {
        const size_t segment = (size_t)(*in == '/') + strcspn(in + (*in == '/'), "/");
        const char *name = in + (*in == '/');
        const size_t len = segment - (size_t)(*in == '/');
        const bool one = len == 1 && *name == '.', two = len == 2 && !strncmp(name, "..", 2);
        if (two)
            while (out > path && *--out != '/')
                ;
        if (!one && !two) {
            memmove(out, in, segment);
            out += segment;
        } else if (!in[segment]) {
            *out++ = '/'; /* "a/." and "a/.." are directories */
        }
        in += segment;
    }
    *out = '\0';
}

/* The path of the reference, as seen from the base. */
static int merge(const struct parts *base, const struct parts *ref, char ret_path[static GB_URI_MOST])
{
    struct out o = {.text = ret_path};
    struct span folder = {"", 0};
    ret_path[0] = '\0';
    if (base->authority.at && !base->path.len)
        folder = (struct span){"/", 1};
    for (size_t i = 0; i < base->path.len; i++)
        if (base->path.at[i] == '/')
            folder = (struct span){base->path.at, i + 1};
    put(&o, "", folder, "");
    put(&o, "", ref->path, "");
    return o.full ? -ENAMETOOLONG : 0;
}

static int decode(const char *text, char ret[static GB_URI_MOST])
{
    size_t n = 0;
    for (; *text; text++) {
        uint8_t byte = (uint8_t)*text;
        if (n + 1 >= GB_URI_MOST)
            return -ENAMETOOLONG;
        if (*text == '%') {
            char hex[3];
            snprintf(hex, sizeof(hex), "%s", text + 1);
            if (gb_text_unhex(hex, &byte, 1) || !byte)
                return -EINVAL;
            text += 2;
        }
        ret[n++] = (char)byte;
    }
    ret[n] = '\0';
    return 0;
}

static int write_uri(const struct parts *p, const char *path, char ret_uri[static GB_URI_MOST])
{
    struct out o = {.text = ret_uri};
    ret_uri[0] = '\0';
    put(&o, "", p->scheme, ":");
    put(&o, "//", p->authority, "");
    put(&o, "", (struct span){path, strlen(path)}, "");
    put(&o, "?", p->query, "");
    return o.full ? -ENAMETOOLONG : 0;
}

int gb_uri_resolve(const char *base, const char *ref, char ret_uri[static GB_URI_MOST],
                   char ret_fragment[static GB_URI_MOST])
{
    char plain[GB_URI_MOST], path[GB_URI_MOST];
    const size_t before = strcspn(ref, "#");
    if (before >= sizeof(plain) || strlen(base) >= GB_URI_MOST)
        return -ENAMETOOLONG;
    snprintf(plain, sizeof(plain), "%.*s", (int)before, ref);
    const struct parts b = split(base), r = split(plain);
    struct parts all = r;
    int e = decode(ref + before + (ref[before] == '#'), ret_fragment);
    if (e)
        return e;
    if (!r.scheme.at) {
        all.scheme = b.scheme;
        if (!r.authority.at)
            all.authority = b.authority;
    }
    if (r.scheme.at || r.authority.at || (r.path.len && *r.path.at == '/')) {
        snprintf(path, sizeof(path), "%.*s", (int)r.path.len, r.path.at);
    } else if (!r.path.len) {
        all.query = r.query.at ? r.query : b.query;
        snprintf(path, sizeof(path), "%.*s", (int)b.path.len, b.path.at);
        return write_uri(&all, path, ret_uri); /* the same document: nothing to tidy */
    } else {
        e = merge(&b, &r, path);
        if (e)
            return e;
    }
    if (all.scheme.at && (all.authority.at || *path == '/'))
        remove_dots(path);
    return write_uri(&all, path, ret_uri);
}
