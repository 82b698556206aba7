/* The JSON reader. What it takes, it takes again when written, and its caps hold. What it refuses, it says
 * why in text that is safe to print. */
#include "fuzz.h"

#include "base/text.h"
#include "json/json.h"

/* Counts values; checks depth, and that every key is a whole C string of valid UTF-8. */
static size_t check_tree(const json_t *value, size_t depth)
{
    size_t count = 1, i;
    const char *key;
    json_t *item;
    CHECK(depth <= GB_JSON_DEPTH);
    if (json_is_string(value)) {
        const char *text = json_string_value(value);
        const size_t len = json_string_length(value);
        for (size_t at = 0; at < len; at += gb_text_utf8_len(text + at, len - at))
            CHECK(gb_text_utf8_len(text + at, len - at));
    }
    json_array_foreach((json_t *)value, i, item)
        count += check_tree(item, depth + (json_is_array(item) || json_is_object(item)));
    json_object_foreach((json_t *)value, key, item) {
        CHECK(gb_text_find_binary(key, strlen(key)) == strlen(key));
        CHECK(json_object_get(value, key) == item);
        count += check_tree(item, depth + (json_is_array(item) || json_is_object(item)));
    }
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gb_err err = {0};
    json_t *value = NULL, *again = NULL;
    char *copy = fuzz_copy(data, size);
    int r = gb_json_read(copy, size, &value, &err);
    free(copy);
    if (r) {
        char shown[sizeof(err.text)];
        CHECK(r < 0 && !value && err.code == GB_ERR_SYNTAX && !strncmp(err.text, "line ", 5));
        memcpy(shown, err.text, sizeof(shown));
        gb_text_defuse(shown);
        CHECK(!strcmp(shown, err.text));
        return 0;
    }
    CHECK(check_tree(value, json_is_array(value) || json_is_object(value)) <= GB_JSON_VALUES);
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(17));
    CHECK(text);
    CHECK(!gb_json_read(text, strlen(text), &again, &err));
    CHECK(json_equal(value, again));
    free(text);
    json_decref(value);
    json_decref(again);
    return 0;
}
