/* The configuration from outside: files, environment, flags, and the files that settings name. */
#include "unit.h"

#include "config/config.h"

#include <errno.h>
#include <sys/stat.h>

static void put(const char *name, const char *text, mode_t mode)
{
    unit_write(name, text, strlen(text));
    assert_int_equal(chmod(name, mode), 0);
}

static struct gb_config *load(const char *file, const char *path, const char *value)
{
    const struct gb_config_override override = {path, value};
    struct gb_config *config = NULL;
    struct gb_err err = {0};
    if (gb_config_load(file, &override, path ? 1 : 0, &config, &err))
        fail_msg("%s", err.text);
    return config;
}

static void refused(const char *file, const char *path, const char *value, const char *words)
{
    const struct gb_config_override override = {path, value};
    struct gb_config *config = NULL;
    struct gb_err err = {0};
    assert_true(gb_config_load(file, &override, path ? 1 : 0, &config, &err) < 0);
    assert_null(config);
    assert_int_equal(err.code, GB_ERR_CONFIG);
    if (!strstr(err.text, words))
        fail_msg("'%s' does not say '%s'", err.text, words);
}

static void precedence(void **state)
{
    (void)state;
    put("a.yaml", "boxes:\n  running: 5\n  queued: 6\nlog:\n  level: warn\n", 0644);
    struct gb_config *c = load("a.yaml", NULL, NULL);
    assert_int_equal(c->boxes.running, 5);
    assert_string_equal(c->file, "a.yaml");
    assert_string_equal(gb_config_origin(c, "boxes.running"), "a.yaml:2");
    assert_null(gb_config_origin(c, "screen"));
    assert_null(gb_config_origin(c, "no.such"));
    gb_config_free(c);
    setenv("GLOVEBOX_BOXES_RUNNING", "7", 1);
    setenv("GLOVEBOX_BOXES_QUEUED", "8", 1);
    c = load("a.yaml", "boxes.queued", "9");
    assert_int_equal(c->boxes.running, 7);
    assert_int_equal(c->boxes.queued, 9);
    assert_string_equal(gb_config_origin(c, "boxes.running"), "environment variable GLOVEBOX_BOXES_RUNNING");
    assert_string_equal(gb_config_origin(c, "boxes.queued"), "command line");
    assert_string_equal(gb_config_origin(c, "log.level"), "a.yaml:5");
    gb_config_free(c);
    unsetenv("GLOVEBOX_BOXES_RUNNING");
    unsetenv("GLOVEBOX_BOXES_QUEUED");
}

static void values_as_text(void **state)
{
    (void)state;
    static const struct {
        const char *path, *value;
    } good[] = {
            {"boxes.running", "4"},
            {"boxes.running", "null"}, /* back to the default */
            {"http.idle_seconds", "0.5"},
            {"sanitise", "false"},
            {"screen", "off"},
            {"screen", ""},
            {"hosts", "a.example, b.example"},
            {"hosts", ""},
            {"state_dir", "/x,y"},
            {"state_dir", ""},
            {"allow_degraded", "cgroup,landlock"},
            {"keys", "[{\"name\":\"a\",\"sha256\":"
                     "\"00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\"}]"},
            {"limits.timeout_seconds", "2.5"},
    };
    for (size_t i = 0; i < LEN(good); i++)
        gb_config_free(load(NULL, good[i].path, good[i].value));
    static const struct {
        const char *path, *value, *words;
    } bad[] = {
            {"boxes.running", "", "command line: boxes.running: \"\" is not allowed"},
            {"boxes.running", "4x", "\"4x\" is not allowed"},
            {"boxes.running", " 4", "is not allowed"},
            {"boxes.running", "yes", "whole number"},
            {"sanitise", "yes", "true or false"},
            {"screen", "loud", "block,warn,off"},
            {"hosts", "a,,b", "hosts"},
            {"hosts", "\xff", "UTF-8"},
            {"state_dir", "\xff", "UTF-8"},
            {"allow_degraded", "seccomp", "cannot be left out"},
            {"keys", "alice", "keys: it takes JSON"},
            {"boxes", "4", "settings of its own"},
            {"tls.key_pem", "x", "no such setting"},
            {"nothing", "x", "no such setting"},
            {"", "x", "no such setting"},
    };
    for (size_t i = 0; i < LEN(bad); i++)
        refused(NULL, bad[i].path, bad[i].value, bad[i].words);
}

static void environment(void **state)
{
    (void)state;
    char name[64];
    gb_config_variable("limits.max_cpu_percent", name, sizeof(name));
    assert_string_equal(name, "GLOVEBOX_LIMITS_MAX_CPU_PERCENT");
    static const struct {
        const char *name, *value, *words; /* words NULL: it is taken */
    } cases[] = {
            {"GLOVEBOX_LISTEN", "127.0.0.1:1,unix:/x", NULL},
            {"GLOVEBOX_LIMITS_TIMEOUT_SECONDS", "2.5", NULL},
            {"GLOVEBOX_CGROUP_PARENT", "/x", NULL},
            {"GLOVEBOX_TEST_SKIP", "anything", NULL},
            {"GLOVEBOXES", "anything", NULL},
            {"GLOVEBOX_LISTEN", "", "listen: an empty list"},
            {"GLOVEBOX_BOXES_RUNNING", "0",
             "environment variable GLOVEBOX_BOXES_RUNNING: boxes.running: 0 is not allowed"},
            {"GLOVEBOX_BOXES_RUNING", "4", "did you mean boxes.running?"},
            {"GLOVEBOX_DRAIN_SECOND", "4", "did you mean drain_seconds?"},
            {"GLOVEBOX_", "4", "there is no such setting"},
            {"GLOVEBOX_boxes_running", "4", "there is no such setting"},
            {"GLOVEBOX_TLS_KEY_PEM", "x", "there is no such setting"},
            {"GLOVEBOX_\x1b[2J", "x", "there is no such setting"},
    };
    for (size_t i = 0; i < LEN(cases); i++) {
        setenv(cases[i].name, cases[i].value, 1);
        if (cases[i].words)
            refused(NULL, NULL, NULL, cases[i].words);
        else
            gb_config_free(load(NULL, NULL, NULL));
        unsetenv(cases[i].name);
    }
}

static void files(void **state)
{
    (void)state;
    refused("absent.yaml", NULL, NULL, "absent.yaml': No such file");
    mkdir("dir", 0755);
    refused("dir", NULL, NULL, "directory");
    put("w.yaml", "screen: off\n", 0646);
    refused("w.yaml", NULL, NULL, "'w.yaml' can be written by others (mode 646); chmod o-rw");
    put("bad.yaml", "\n\nscren: off\n", 0644);
    refused("bad.yaml", NULL, NULL, "bad.yaml:3: scren: there is no such setting; did you mean screen?");
    put("bad.yaml", "screen: off\nscreen: [", 0644);
    refused("bad.yaml", NULL, NULL, "bad.yaml:2: ");
    put("empty.yaml", "", 0644);
    refused("empty.yaml", NULL, NULL, "nothing in it");
    assert_int_equal(mkfifo("fifo", 0600), 0);
    refused("fifo", NULL, NULL, "nothing in it"); /* and does not wait for a writer */
    char *big = malloc(GB_CONFIG_BYTES + 1);
    assert_non_null(big);
    memset(big, '#', GB_CONFIG_BYTES + 1);
    unit_write("big.yaml", big, GB_CONFIG_BYTES + 1);
    free(big);
    refused("big.yaml", NULL, NULL, "larger than 1048576 bytes");
    /* A name that could steer a terminal. */
    put("\x1b[2J.yaml", "screen: of\n", 0644);
    refused("\x1b[2J.yaml", NULL, NULL, "?[2J.yaml:1: screen");
}

static void key_files(void **state)
{
    (void)state;
    char config[4200], dir[4096];
    assert_non_null(getcwd(dir, sizeof(dir)));
    snprintf(config, sizeof(config), "keys: [{name: a, key_file: %s/key}]", dir);
    put("k.yaml", config, 0644);
    refused("k.yaml", NULL, NULL, "k.yaml:1: keys: key 'a': cannot read");
    put("key", "0123456789abcdef\n", 0600);
    struct gb_config *c = load("k.yaml", NULL, NULL);
    assert_null(c->keys[0].file);
    /* sha256 of "0123456789abcdef" */
    static const uint8_t hash[4] = {0x9f, 0x9f, 0x51, 0x11};
    assert_memory_equal(c->keys[0].sha256, hash, 4);
    gb_config_free(c);
    static const struct {
        const char *text;
        mode_t mode;
        const char *words; /* NULL: taken */
    } cases[] = {
            {"0123456789abcdef", 0400, NULL},
            {"0123456789abcdef\r\n", 0600, NULL},
            {"0123456789abcdef", 0640, "can be read by others"},
            {"0123456789abcdef", 0604, "chmod 600"},
            {"0123456789abcdef", 0620, "mode 620"},
            {"0123456789abcde\n", 0600, "15 bytes"},
            {"", 0600, "0 bytes"},
            {"\n", 0600, "0 bytes"},
            {"0123456789abcdef\n\n", 0600, "one line"},
            {"0123456789 abcdef", 0600, "one line"},
            {"0123456789\xc3\xa4"
             "bcdef",
             0600, "one line"},
            {"# a comment\n0123456789abcdef\n", 0600, "one line"},
    };
    for (size_t i = 0; i < LEN(cases); i++) {
        assert_int_equal(chmod("key", 0600), 0);
        put("key", cases[i].text, cases[i].mode);
        if (cases[i].words)
            refused("k.yaml", NULL, NULL, cases[i].words);
        else
            gb_config_free(load("k.yaml", NULL, NULL));
    }
    /* Two names for one key, one of them by its hash. */
    put("key", "0123456789abcdef", 0600);
    snprintf(config, sizeof(config),
             "keys: [{name: a, key_file: %s/key}, {name: b, sha256: "
             "9f9f5111f7b27a781f1f1ddde5ebc2dd2b796bfc7365c9c28b548e564176929f}]",
             dir);
    put("k.yaml", config, 0644);
    refused("k.yaml", NULL, NULL, "'a' and 'b' have the same key");
}

static void tls_files(void **state)
{
    (void)state;
    static const char pem[] = "-----BEGIN X-----\nabc\n-----END X-----\n";
    char config[9000], dir[4096];
    assert_non_null(getcwd(dir, sizeof(dir)));
    snprintf(config, sizeof(config), "tls: {certificate: %s/cert, key: %s/private}", dir, dir);
    put("t.yaml", config, 0644);
    refused("t.yaml", NULL, NULL, "t.yaml:1: tls.certificate: cannot read");
    put("cert", pem, 0644);
    put("private", pem, 0644);
    refused("t.yaml", NULL, NULL, "tls.key: ");
    assert_int_equal(chmod("private", 0640), 0); /* a group of those who may is usual */
    struct gb_config *c = load("t.yaml", NULL, NULL);
    assert_string_equal(c->tls_certificate_pem, pem);
    assert_string_equal(c->tls_key_pem, pem);
    struct gb_buf out = {.max = 1 << 20};
    assert_int_equal(gb_config_write(c, false, &out, NULL), 0);
    assert_null(strstr(out.data, "BEGIN"));
    gb_buf_done(&out);
    out.max = 1 << 20;
    assert_int_equal(gb_config_write(c, true, &out, NULL), 0);
    struct gb_config *handed = NULL;
    assert_int_equal(gb_config_from_json(out.data, out.len, &handed, NULL), 0);
    assert_string_equal(handed->tls_key_pem, pem);
    gb_config_free(handed);
    gb_buf_done(&out);
    gb_config_free(c);
    put("cert", "0\x82\x01", 0644);
    refused("t.yaml", NULL, NULL, "not in PEM form");
}

static void directories(void **state)
{
    (void)state;
    setenv("STATE_DIRECTORY", "/var/lib/a:/var/lib/b", 1);
    setenv("RUNTIME_DIRECTORY", "/run/a", 1);
    struct gb_config *c = load(NULL, NULL, NULL);
    assert_string_equal(c->state_dir, "/var/lib/a");
    assert_string_equal(c->runtime_dir, "/run/a");
    assert_string_equal(c->listen[1], "unix:/run/a/glovebox.sock");
    gb_config_free(c);
    c = load(NULL, "runtime_dir", "/y");
    assert_string_equal(c->listen[1], "unix:/y/glovebox.sock");
    gb_config_free(c);
    unsetenv("STATE_DIRECTORY");
    unsetenv("RUNTIME_DIRECTORY");
    if (geteuid() == 0) {
        c = load(NULL, NULL, NULL);
        assert_string_equal(c->state_dir, "/var/lib/glovebox");
        assert_string_equal(c->runtime_dir, "/run/glovebox");
        gb_config_free(c);
        assert_int_equal(seteuid(20001), 0); /* and now as a user */
    }
    setenv("HOME", "/home/u", 1);
    unsetenv("XDG_STATE_HOME");
    unsetenv("XDG_RUNTIME_DIR");
    c = load(NULL, NULL, NULL);
    assert_string_equal(c->state_dir, "/home/u/.local/state/glovebox");
    assert_string_equal(c->runtime_dir, "/home/u/.local/state/glovebox/run");
    gb_config_free(c);
    setenv("XDG_STATE_HOME", "/s", 1);
    setenv("XDG_RUNTIME_DIR", "relative", 1); /* which the specification wants ignored */
    c = load(NULL, NULL, NULL);
    assert_string_equal(c->state_dir, "/s/glovebox");
    assert_string_equal(c->runtime_dir, "/s/glovebox/run");
    gb_config_free(c);
    unsetenv("XDG_STATE_HOME");
    unsetenv("HOME");
    refused(NULL, NULL, NULL, "state_dir");
    gb_config_free(load(NULL, "state_dir", "/x"));
    if (getuid() == 0)
        assert_int_equal(seteuid(0), 0);
}

/* A user's own file wins over the host's; root has only the host's. */
static void usual_places(void **state)
{
    (void)state;
    char dir[4096];
    assert_non_null(getcwd(dir, sizeof(dir)));
    assert_int_equal(chmod(".", 0755), 0);
    setenv("XDG_CONFIG_HOME", dir, 1);
    mkdir("glovebox", 0755);
    put("glovebox/glovebox.yaml", "boxes: {queued: 11}\nstate_dir: /x\n", 0644);
    if (geteuid() == 0)
        assert_int_equal(seteuid(20001), 0);
    struct gb_config *c = load(NULL, NULL, NULL);
    assert_int_equal(c->boxes.queued, 11);
    assert_non_null(strstr(c->file, "glovebox/glovebox.yaml"));
    gb_config_free(c);
    if (getuid() == 0)
        assert_int_equal(seteuid(0), 0);
    put("glovebox/glovebox.yaml", "boxes: {queued: x}\n", 0644);
    if (geteuid() == 0)
        assert_int_equal(seteuid(20001), 0);
    refused(NULL, NULL, NULL, "glovebox/glovebox.yaml:1: boxes.queued");
    if (getuid() == 0)
        assert_int_equal(seteuid(0), 0);
    setenv("XDG_CONFIG_HOME", "/nonexistent", 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
            cmocka_unit_test(precedence),  cmocka_unit_test(values_as_text), cmocka_unit_test(environment),
            cmocka_unit_test(files),       cmocka_unit_test(key_files),      cmocka_unit_test(tls_files),
            cmocka_unit_test(directories), cmocka_unit_test(usual_places),
    };
    setenv("XDG_CONFIG_HOME", "/nonexistent", 1); /* whoever runs this may have a configuration */
    return cmocka_run_group_tests_name("config_load", tests, unit_enter_dir, unit_leave_dir);
}
