/* The configuration: YAML and table. What is taken is handed to the front and read there as the same; it
 * keeps what must agree. JSON means the same to both readers. What is refused is refused in text that is safe
 * to print. */
#include "fuzz.h"

#include "base/text.h"
#include "config/config.h"

static struct gb_buf written(const struct gb_config *config, bool secrets)
{
    struct gb_buf out = {.max = (size_t)16 << 20};
    CHECK(!gb_config_write(config, secrets, &out, NULL));
    return out;
}

static void check_same(const struct gb_config *a, const struct gb_config *b)
{
    struct gb_buf one = written(a, true), two = written(b, true);
    CHECK(one.len == two.len && !memcmp(one.data, two.data, one.len));
    gb_buf_done(&one);
    gb_buf_done(&two);
}

static void check_config(const struct gb_config *config)
{
    struct gb_config *again = NULL;
    struct gb_buf text = written(config, true);
    CHECK(gb_text_find_binary(text.data, text.len) == text.len);
    CHECK(!gb_config_from_json(text.data, text.len, &again, NULL));
    check_same(config, again);
    gb_config_free(again);
    gb_buf_done(&text);

    for (size_t i = 0; i < gb_limit_count; i++) {
        const struct gb_limit_row *row = &gb_limit_rows[i];
        CHECK(gb_limits_get(&config->limits, row) >= row->least);
        CHECK(gb_limits_get(&config->limits, row) <= gb_limits_get(&config->ceilings, row));
        CHECK(gb_limits_get(&config->ceilings, row) <= row->ceiling);
    }
    CHECK(config->listen_count >= 1 && config->listen_count <= GB_CONFIG_LISTEN);
    for (size_t i = 0; i < config->listen_count; i++) {
        struct gb_config_address address;
        CHECK(!gb_config_parse_address(config->listen[i], &address, NULL));
        CHECK(address.loopback || config->key_count);
    }
    CHECK(!config->tls_certificate == !config->tls_key);
    CHECK(!config->tls_key_pem && !config->tls_certificate_pem); /* only the supervisor has these */
    CHECK(config->boxes.running >= 1 && config->http.connections >= 1);
    for (size_t i = 0; i < config->key_count; i++)
        CHECK(*config->keys[i].name);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gb_err err = {0};
    struct gb_config *config = NULL, *as_json = NULL;
    char *copy = fuzz_copy(data, size);
    int r = gb_config_read(copy, size, &config, &err);
    if (r) {
        char shown[sizeof(err.text)];
        CHECK(r < 0 && !config && err.code == GB_ERR_CONFIG && *err.text);
        memcpy(shown, err.text, sizeof(shown));
        gb_text_defuse(shown);
        CHECK(!strcmp(shown, err.text));
    } else {
        check_config(config);
        if (!gb_config_from_json(copy, size, &as_json, NULL))
            check_same(config, as_json);
    }
    gb_config_free(config);
    gb_config_free(as_json);
    free(copy);
    return 0;
}
