/* The operator's configuration. One table (config.def) says what there is: path, type, range, default,
 * meaning; the reader, `glovebox config show`, the JSON Schema in conf/ and docs/configuration.md come from
 * it. Precedence: flags, environment (GLOVEBOX_ with the path in capitals), file, defaults. null means: the
 * default.
 *
 * Errors have the code GB_ERR_CONFIG and name the place (file and line, variable, or flag), the setting and
 * what is allowed; they hold no control characters. */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "json/json.h"
#include "spec/action.h"
#include "spec/limits.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#define GB_CONFIG_LISTEN 8
#define GB_CONFIG_KEYS   256
#define GB_CONFIG_NAMES  64
#define GB_CONFIG_BYTES  ((size_t)1 << 20) /* of a file */

struct gb_config_key {
    char name[64];           /* unique; letters, digits, . _ - */
    char principal[64];      /* who calls with it: its own name, or one that several keys share */
    uint8_t sha256[32];      /* of the key */
    int64_t rate_per_minute; /* calls; 0: no limit */
    int64_t running;         /* boxes at once; 0: no limit of its own */
    char *file;              /* that holds the key; NULL as soon as gb_config_load has read it */
};

struct gb_config {
    char *listen[GB_CONFIG_LISTEN]; /* "127.0.0.1:8640", "[::1]:8640", "unix:/path": gb_config_parse_address
                                     */
    size_t listen_count;
    char *tls_certificate, *tls_key;         /* paths; NULL: no TLS */
    char *tls_certificate_pem, *tls_key_pem; /* contents, read by gb_config_load */
    struct gb_config_key *keys;
    size_t key_count;
    char *hosts[GB_CONFIG_NAMES]; /* further names under which callers may address us (Host), in small letters
                                   */
    size_t host_count;
    char *origins[GB_CONFIG_NAMES]; /* web origins that may call us, in small letters; none by default */
    size_t origin_count;

    struct {
        int64_t body_bytes, connections;
        int64_t header_ms, body_ms, idle_ms, write_ms; /* how long each stage may take */
    } http;
    struct {
        int64_t running, queued, wait_ms; /* boxes at once, calls that wait, and how long */
    } boxes;
    struct {
        int64_t low, high;    /* boxes of each kind that wait: at rest, and at most; high 0: none ever */
        int64_t idle_ms;      /* so long without a call is rest */
        int64_t zygote_boxes; /* so many come from one zygote */
    } pool;
    struct gb_limits limits, ceilings;
    enum gb_screen_action screen;
    bool sanitise;
    struct {
        int64_t wait_ms, expires_ms,
                most; /* how long a call waits, an approval holds; how many wait at once */
    } approvals;
    /* The policy, as it was written; NULL: nothing was. What is in them is the business of src/policy. */
    json_t *profiles, *principals, *tools, *screening, *sanitising, *sanitising_off;
    json_t *secrets;       /* as written: file, env or value; only values in what was handed down */
    json_t *secret_values; /* name to text, read by gb_config_load; see gb_config_secret */
    struct {
        int64_t keep_seconds, keep_bytes; /* 0: for ever, no limit */
        int sync_full;
    } audit;
    int log_level, log_format; /* see base/log.h */
    int64_t drain_ms;          /* how long a stop waits for calls that are under way */
    char *state_dir,
            *runtime_dir; /* absolute; NULL only from gb_config_read in an environment without HOME */
    char *cgroup_parent, *allow_degraded; /* NULL or text; the latter a comma list */

    char *file;         /* that was read, or NULL */
    unsigned file_mode; /* its permissions */
    json_t *lines;      /* of the file: path to line; see gb_config_place */
    char **set_by;      /* for each row of the table: who set it; NULL: the default. See gb_config_origin */
};

/* Flags of `glovebox serve`: "--set boxes.running=4" and the like, highest precedence. */
struct gb_config_override {
    const char *path, *value;
};

/* Reads the file (NULL: the first that exists of $XDG_CONFIG_HOME/glovebox/glovebox.yaml as a user,
 * /etc/glovebox/glovebox.yaml; none at all is fine), then environment, then overrides, and checks everything:
 * types, ranges, unknown names, contradictions (a limit above its ceiling, a non-loopback address without
 * keys, a key file that others can read …). Reads the key and TLS files, and secrets. The policy in it is
 * checked by gb_policy_new. Release with gb_config_free. */
int gb_config_load(const char *file, const struct gb_config_override *overrides, size_t override_count,
                   struct gb_config **ret_config, struct gb_err *err);
/* The YAML and table part alone, on text in memory, for tests and fuzzing: opens no file (keys keep their
 * `file`), and of the environment reads only what defaults of directories come from. */
int gb_config_read(const char *text, size_t len, struct gb_config **ret_config, struct gb_err *err);
/* The effective configuration as one JSON object of the file's shape: for `config show` (secrets: false; keys
 * without hashes, secrets without values), and for the front and the broker (secrets: true; with hashes, the
 * TLS files' contents and the secrets' values). */
int gb_config_write(const struct gb_config *config, bool secrets, struct gb_buf *out, struct gb_err *err);
/* What the front does with what it was handed, in which nothing is missing: opens no file. */
int gb_config_from_json(const char *text, size_t len, struct gb_config **ret_config, struct gb_err *err);
void gb_config_free(struct gb_config *config);

/* Who set it: "FILE:LINE", "environment variable NAME", "command line"; NULL for a default or an unknown
 * path. */
const char *gb_config_origin(const struct gb_config *config, const char *path);
/* The same for something inside a tree, "tools[2].http.url", or else for the nearest thing around it that is
 * known: a part of the policy is told by its line. "" if nothing is known. */
void gb_config_place(const struct gb_config *config, const char *path, char *buf, size_t size);
/* The value of a secret, or NULL: there is none, or nobody has read the file or variable that holds it. */
const char *gb_config_secret(const struct gb_config *config, const char *name);
/* Sets the limit of that name from a number, within what anybody may have; the error says what is allowed. */
int gb_config_set_limit(struct gb_limits *limits, const struct gb_limit_row *row, const json_t *value,
                        struct gb_err *err);
/* "boxes.running" is GLOVEBOX_BOXES_RUNNING. */
void gb_config_variable(const char *path, char *buf, size_t size);

/* What one item of `listen` means. Numeric addresses only: a name could be made to mean something else. */
struct gb_config_address {
    struct sockaddr_storage addr;
    socklen_t len;
    bool loopback; /* also for a unix socket: nobody comes from another host */
};
int gb_config_parse_address(const char *text, struct gb_config_address *ret, struct gb_err *err);

static inline void gb_auto_config(struct gb_config **config)
{
    gb_config_free(*config);
}
#define AUTO_CONFIG __attribute__((cleanup(gb_auto_config))) struct gb_config *
