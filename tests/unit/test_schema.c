/* The JSON Schema validator: what it says, what it refuses to compile, and that its work stays in bounds.
 * That it decides rightly is what the public suite shows: tests/integration/test_schema.py. In tables, '
 * stands for ". */
#include "unit.h"

#include "base/text.h"
#include "schema/schema.h"

static json_t *parse(const char *text)
{
    char *copy = strdup(text);
    json_t *value = NULL;
    struct gb_err err = {0};
    assert_non_null(copy);
    for (char *p = copy; *p; p++)
        *p = *p == '\'' ? '"' : *p;
    if (gb_json_read(copy, strlen(copy), &value, &err))
        fail_msg("%s: %s", copy, err.text);
    free(copy);
    return value;
}

static struct gb_schema *compile(const char *text, const struct gb_schema_options *options)
{
    AUTO_JSON json = parse(text);
    struct gb_schema *s = NULL;
    struct gb_err err = {0};
    if (gb_schema_new(json, options, &s, &err))
        fail_msg("%s: %s", text, err.text);
    return s;
}

/* All problems as "path: text" lines. */
static void explain(const struct gb_schema *s, const json_t *value, char *buf, size_t size)
{
    struct gb_schema_problem problems[GB_SCHEMA_PROBLEMS];
    const size_t count = gb_schema_check(s, value, "arguments", problems);
    size_t len = 0;
    assert_true(count <= GB_SCHEMA_PROBLEMS);
    buf[0] = '\0';
    for (size_t i = 0; i < count; i++)
        len += (size_t)snprintf(buf + len, size - len, "%s%s: %s", i ? "\n" : "", problems[i].path,
                                problems[i].text);
    assert_true(len < size);
}

/* --- texts --- */

#define TOOL                                                                                                 \
    "{'type':'object','properties':{'query':{'type':'string','minLength':2,'maxLength':5},"                  \
    "'max_results':{'type':'integer','minimum':1,'maximum':10}},'required':['query']}"
#define KINDS                                                                                                \
    "{'oneOf':[{'properties':{'kind':{'const':'a'},'x':{'type':'integer'}},'required':['kind','x']},"        \
    "{'properties':{'kind':{'const':'b'},'y':{'type':'integer'}},'required':['kind','y']}]}"

static const struct {
    const char *schema, *value, *text;
    bool format;
} texts[] = {
        {TOOL, "{'query':'abc','max_results':3}", ""},
        {TOOL, "{'query':'abc','max_results':50}", "arguments.max_results: must be at most 10; it is 50"},
        {TOOL, "{'query':'abc','max_results':0}", "arguments.max_results: must be at least 1; it is 0"},
        {TOOL, "{'query':'abc','max_results':'3'}",
         "arguments.max_results: must be a whole number; it is '3'"},
        {TOOL, "{'query':'abc','max_results':2.5}",
         "arguments.max_results: must be a whole number; it is 2.5"},
        {TOOL, "{}", "arguments: needs a member 'query'"},
        {TOOL, "{'query':'abc','foo':1}",
         "arguments: has a member 'foo' that is not allowed; allowed: query, max_results"},
        {TOOL, "{'query':'abcdef'}", "arguments.query: must have at most 5 characters; it has 6"},
        {TOOL, "{'query':'a'}", "arguments.query: must have at least 2 characters; it has 1"},
        {TOOL, "{'query':'\\ud83d\\ude00\\ud83d\\ude00\\ud83d\\ude00\\ud83d\\ude00\\ud83d\\ude00'}", ""},
        {TOOL, "[]", "arguments: must be an object; it is []"},
        {TOOL, "{'max_results':11,'foo':1}",
         "arguments: needs a member 'query'\narguments.max_results: must be at most 10; it is 11\n"
         "arguments: has a member 'foo' that is not allowed; allowed: query, max_results"},
        {"{'required':['a','b','c']}", "{'b':1}",
         "arguments: needs the members 'a', 'c'\narguments: has a member 'b' that is not allowed; allowed: "
         "none"},
        {"{'exclusiveMaximum':10}", "10", "arguments: must be less than 10; it is 10"},
        {"{'exclusiveMinimum':0.5}", "0.5", "arguments: must be more than 0.5; it is 0.5"},
        {"{'multipleOf':0.01}", "0.001", "arguments: must be a multiple of 0.01; it is 0.001"},
        {"{'enum':['a',1,null]}", "'b'", "arguments: must be one of 'a', 1, null; it is 'b'"},
        {"{'const':{'a':[1]}}", "2", "arguments: must be {'a':[1]}; it is 2"},
        {"{'type':['string','null','integer']}", "1.5",
         "arguments: must be a string, a whole number or null; it is 1.5"},
        {"{'type':'boolean'}", "null", "arguments: must be true or false; it is null"},
        {"{'pattern':'^[a-z]+$'}", "'A'", "arguments: must match the pattern ^[a-z]+$; it is 'A'"},
        {"{'items':{'type':'string'}}", "['a',2]", "arguments[1]: must be a string; it is 2"},
        {"{'maxItems':1}", "[1,2]", "arguments: must have at most 1 item; it has 2"},
        {"{'prefixItems':[true],'items':false}", "[1,2,3]", "arguments: must have at most 1 item; it has 3"},
        {"{'uniqueItems':true}", "[1,{'a':1,'b':2},1.0,{'b':2,'a':1.0}]",
         "arguments: must not have the same item twice; [0] and [2] are equal"},
        {"{'contains':{'type':'string'}}", "[1]",
         "arguments: must have at least 1 item that fit {'type':'string'}; it has 0"},
        {"{'contains':{'type':'string'},'maxContains':1}", "['a','b']",
         "arguments: must have at most 1 item that fit {'type':'string'}; it has more"},
        {"{'properties':{'a':true,'b':true},'dependentRequired':{'a':['b']}}", "{'a':1}",
         "arguments: needs a member 'b', because it has a member 'a'"},
        {"{'additionalProperties':true,'propertyNames':{'maxLength':2}}", "{'abc':1}",
         "arguments: the name of the member 'abc' must have at most 2 characters; it has 3"},
        {"{'properties':{'a':false}}", "{'a':1}", "arguments.a: is not allowed"},
        {"{'not':{'type':'string'}}", "'a'", "arguments: must not fit {'type':'string'}"},
        {"{'if':{'type':'integer'},'then':{'minimum':5},'else':{'maxLength':1}}", "3",
         "arguments: must be at least 5; it is 3"},
        {"{'if':{'type':'integer'},'then':{'minimum':5},'else':{'maxLength':1}}", "'ab'",
         "arguments: must have at most 1 character; it has 2"},
        /* the branch that was meant, or all of them */
        {"{'oneOf':[{'const':'a'},{'const':'b'}]}", "'c'", "arguments: must be 'a', or 'b'; it is 'c'"},
        {"{'anyOf':[{'type':'string'},{'type':'array','items':{'type':'string'}}]}", "null",
         "arguments: must be a string, or an array; it is null"},
        {"{'anyOf':[{'type':'string'},{'type':'array','items':{'type':'string'}}]}", "['a',1]",
         "arguments[1]: must be a string; it is 1"},
        {KINDS, "{'kind':'a','x':1}", ""},
        {KINDS, "{'kind':'a','x':'1'}", "arguments.x: must be a whole number; it is '1'"},
        {KINDS, "{'kind':'b'}", "arguments: needs a member 'y'"},
        {KINDS, "{'kind':'c','x':1,'y':1}", "arguments.kind: must be 'a', or 'b'; it is 'c'"},
        {"{'oneOf':[{'type':'integer'},{'type':'string'},{'minimum':2}]}", "3",
         "arguments: fits the forms 1 and 3 of 3, but must fit exactly one"},
        {"{'anyOf':[{'properties':{'a':{'type':'integer'}}},{'properties':{'b':true}}]}", "{'a':'x','b':1}",
         "arguments: has a member 'a' that is allowed only in a form which the value does not fit"},
        /* paths */
        {"{'properties':{'my key':{'items':{'properties':{'b':{'type':'null'}}}}}}",
         "{'my key':[{},{'b':0}]}", "arguments['my key'][1].b: must be null; it is 0"},
        /* what could steer a terminal */
        {"{'type':'integer'}", "'\\u001b[31m\\u0000\\u202e'",
         "arguments: must be a whole number; it is '?[31m ?"
         "?"
         "?'"},
        {"{'properties':{'\\u001b':{'type':'null'}}}", "{'\\u001b':1}",
         "arguments['?']: must be null; it is 1"},
        {"{'type':'integer'}",
         "'01234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567"
         "89'",
         "arguments: must be a whole number; it is "
         "'0123456789012345678901234567890123456789012345678901234567890123...'"},
        /* formats, if they are asserted */
        {"{'format':'date-time'}", "'yesterday'", ""},
        {"{'format':'date-time'}", "'yesterday'",
         "arguments: must be a date and time as 2026-11-15T09:23:41Z; it is 'yesterday'", true},
        {"{'format':'email'}", "'a@b@c'", "arguments: must be a mail address; it is 'a@b@c'", true},
        {"{'format':'something-else'}", "'x'", "", true},
};

static void what_it_says(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(texts); i++) {
        const struct gb_schema_options options = {.closed = true, .assert_format = texts[i].format};
        AUTO_SCHEMA s = compile(texts[i].schema, &options);
        AUTO_JSON value = parse(texts[i].value);
        char said[4096];
        explain(s, value, said, sizeof(said));
        for (char *p = said; *p; p++)
            *p = *p == '"' ? '\'' : *p;
        assert_string_equal(said, texts[i].text);
    }
}

/* More problems than are told, and one path that is too long to be shown. */
static void many_problems(void **state)
{
    struct gb_schema_problem problems[GB_SCHEMA_PROBLEMS];
    AUTO_SCHEMA s =
            compile("{'$defs':{'n':{'type':'array','items':{'$ref':'#/$defs/n'}}},'$ref':'#/$defs/n'}", NULL);
    AUTO_JSON wide = parse("[1,2,3,4,5,6,7,8,9,10]");
    AUTO_JSON deep = json_integer(1);
    (void)state;
    assert_int_equal(gb_schema_check(s, wide, "a", problems), GB_SCHEMA_PROBLEMS);
    assert_string_equal(problems[GB_SCHEMA_PROBLEMS - 1].path, "a[7]");
    for (int i = 0; i < 60; i++)
        deep = json_pack("[o]", deep);
    assert_int_equal(gb_schema_check(s, deep, "a", problems), 1);
    assert_true(strlen(problems[0].path) < sizeof(problems[0].path));
    assert_non_null(strstr(problems[0].path, "..."));
}

/* --- the option `closed` --- */

static const struct {
    const char *schema, *value;
    bool valid;
} closed_cases[] = {
        {"{}", "{}", true},
        {"{}", "{'a':1}", false},
        {"true", "{'a':1}", true},
        {"{'type':'object'}", "{'a':1}", false},
        {"{'additionalProperties':true}", "{'a':1}", true},
        {"{'additionalProperties':{'type':'integer'}}", "{'a':1}", true},
        {"{'unevaluatedProperties':true}", "{'a':1}", true},
        {"{'patternProperties':{'^a':true}}", "{'ab':1}", true},
        {"{'patternProperties':{'^a':true}}", "{'b':1}", false},
        {"{'allOf':[{'properties':{'a':true}},{'properties':{'b':true}}]}", "{'a':1,'b':1}", true},
        {"{'allOf':[{'properties':{'a':true}},{'properties':{'b':true}}]}", "{'a':1,'c':1}", false},
        {"{'$ref':'#/$defs/x','$defs':{'x':{'properties':{'a':true}}}}", "{'a':1}", true},
        {"{'$ref':'#/$defs/x','$defs':{'x':{'properties':{'a':true}}}}", "{'b':1}", false},
        {"{'anyOf':[{'required':['a'],'properties':{'a':true}},{'properties':{'b':true}}]}", "{'a':1}", true},
        {"{'anyOf':[{'required':['a'],'properties':{'a':true}},{'required':['b'],'properties':{'b':true}}]}",
         "{'a':1,'b':1,'c':1}", false},
        /* only the top: what is inside says for itself */
        {"{'properties':{'a':{'type':'object'}}}", "{'a':{'b':1}}", true},
        {"{'$schema':'http://json-schema.org/draft-07/schema#','properties':{'a':true}}", "{'b':1}", false},
        {"{'$schema':'http://json-schema.org/draft-07/schema#','$ref':'#/definitions/x',"
         "'definitions':{'x':{'properties':{'a':true}}}}",
         "{'a':1}", true},
        {"{'properties':{'a':true}}", "[1]", true},
};

static void closed(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(closed_cases); i++) {
        const struct gb_schema_options options = {.closed = true};
        AUTO_SCHEMA s = compile(closed_cases[i].schema, &options);
        AUTO_JSON value = parse(closed_cases[i].value);
        char said[4096];
        explain(s, value, said, sizeof(said));
        if (closed_cases[i].valid == (*said != '\0'))
            fail_msg("%s with %s: %s", closed_cases[i].schema, closed_cases[i].value, said);
        AUTO_SCHEMA open = compile(closed_cases[i].schema, NULL);
        explain(open, value, said, sizeof(said));
        assert_string_equal(said, "");
    }
}

/* --- what is not compiled --- */

#define D7 "'$schema':'http://json-schema.org/draft-07/schema#'"

static const struct {
    const char *schema, *text;
} refusals[] = {
        {"3", "must be a schema"},
        {"{'requred':['a']}",
         "at the top of the schema: unknown keyword 'requred' in 2020-12; did you mean 'required'?"},
        {"{'properties':{'a':{'maxLenght':1}}}", "at /properties/a: unknown keyword 'maxLenght'"},
        {"{'MaxLength':1}", "did you mean 'maxLength'?"},
        {"{'nullable':true}", "write \"type\""},
        {"{'additionalItems':false}", "it is a keyword of draft-07"},
        {"{" D7 ",'prefixItems':[true]}", "it is a keyword of 2020-12"},
        {"{" D7 ",'$ref':'#/definitions/a','maxLength':1,'definitions':{'a':true}}",
         "at /maxLength: has no effect beside '$ref'"},
        {"{'minimum':'5'}", "at /minimum: must be a number"},
        {"{'properties':{'a/b':{'minLength':-1}}}",
         "at /properties/a~1b/minLength: must be a whole number from 0 up"},
        {"{'minLength':1.5}", "must be a whole number"},
        {"{'multipleOf':0}", "must be a number above 0"},
        {"{'required':'a'}", "must be an array of strings"},
        {"{'required':[1]}", "must be an array of strings"},
        {"{'enum':'a'}", "must be an array"},
        {"{'type':'strin'}", "there is no type 'strin'; there are string,"},
        {"{'type':['string','string']}", "names 'string' twice"},
        {"{'type':[]}", "must be a string or an array"},
        {"{'properties':[]}", "must be an object whose members are schemas"},
        {"{'properties':{'a':1}}", "must be an object whose members are schemas"},
        {"{'allOf':[]}", "must be an array of at least one schema"},
        {"{'items':[true]}", "is called 'prefixItems' since 2020-12"},
        {"{'uniqueItems':1}", "must be true or false"},
        {"{'pattern':'('}", "at /pattern: not a pattern of ECMA-262: a ( without its ), at character 2"},
        {"{'pattern':'(a)\\\\1'}", "references back to a group"},
        {"{'pattern':'(?i)a'}", "a group of an unknown kind"},
        {"{'pattern':'a**'}", "a repeat of a repeat"},
        {"{'pattern':'a{2,1}'}", "repeats the wrong way round"},
        {"{'pattern':'\\\\Z'}", "a \\ before a character that it gives no meaning"},
        {"{'pattern':'\\\\p{Nonsense}'}", "a property that is not known"},
        {"{'patternProperties':{'[':true}}", "at /patternProperties: the pattern '[': not a pattern"},
        {"{'$ref':'#/$defs/a'}", "at /$ref: refers to '#/$defs/a', but there is no such place"},
        {"{'$ref':'#a'}", "there is no such place"},
        {"{'$ref':'http://localhost/x.json'}",
         "which is neither in the schema nor among the documents given"},
        {"{'$ref':'#/$defs/a','$defs':{'a':5}}", "at /$defs/a: must be a schema"},
        {"{'$ref':'#/default','default':5}", "must be a schema"},
        {"{'$ref':'#%00'}", "no URI reference"},
        {"{'$ref':'#'}", "refers to itself (by way of the top) without going deeper"},
        {"{'$defs':{'a':{'$ref':'#/$defs/b'},'b':{'not':{'$ref':'#/$defs/a'}}}}", "refers to itself"},
        {"{'$dynamicAnchor':'a','anyOf':[{'$dynamicRef':'#a'}]}", "refers to itself"},
        {"{'$defs':{'unused':{'minimum':'x'}}}", "at /$defs/unused/minimum: must be a number"},
        {"{'$defs':{'a':{'$anchor':'x'},'b':{'$anchor':'x'}}}", "a second anchor 'x'"},
        {"{'$defs':{'a':{'$anchor':'1x'}}}", "the anchor '1x' must begin with a letter"},
        {"{'$defs':{'a':{'$id':'http://x/a'},'b':{'$id':'http://x/a'}}}",
         "a second schema is called 'http://x/a'"},
        {"{'$id':'http://x/a#b'}", "must not have a fragment"},
        {"{'$schema':'http://json-schema.org/draft-04/schema#'}",
         "known are https://json-schema.org/draft/2020-12"},
        {"{'$schema':1}", "at /$schema: must be a string"},
        {"{'\\u001b[2J':1}", "unknown keyword '?[2J'"},
};

static void refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(refusals); i++) {
        AUTO_JSON json = parse(refusals[i].schema);
        struct gb_schema *s = NULL;
        struct gb_err err = {0};
        const int r = gb_schema_new(json, NULL, &s, &err);
        assert_null(s);
        assert_true(r < 0);
        assert_int_equal(err.code, GB_ERR_CONFIG);
        if (!strstr(err.text, refusals[i].text))
            fail_msg("%s: '%s', not '%s'", refusals[i].schema, err.text, refusals[i].text);
        char safe[sizeof(err.text)];
        memcpy(safe, err.text, sizeof(safe));
        gb_text_defuse(safe);
        assert_string_equal(safe, err.text);
        assert_true(gb_schema_new(json, NULL, &s, NULL) < 0);
    }
}

static void formats_that_cannot_be_checked(void **state)
{
    AUTO_JSON json = parse("{'format':'idn-hostname'}");
    const struct gb_schema_options options = {.assert_format = true};
    struct gb_err err = {0};
    struct gb_schema *s = NULL;
    (void)state;
    assert_true(gb_schema_new(json, &options, &s, &err) < 0);
    assert_non_null(strstr(err.text, "cannot be checked"));
    AUTO_SCHEMA remark = compile("{'format':'idn-hostname'}", NULL);
    assert_non_null(remark);
}

static void unknown_ignored(void **state)
{
    const struct gb_schema_options options = {.ignore_unknown = true};
    AUTO_SCHEMA s = compile("{'requred':['a'],'x':{'type':'integer'},'$ref':'#/x'}", &options);
    AUTO_JSON good = parse("1");
    AUTO_JSON bad = parse("'a'");
    struct gb_schema_problem problems[GB_SCHEMA_PROBLEMS];
    (void)state;
    assert_int_equal(gb_schema_check(s, good, "a", problems), 0);
    assert_int_equal(gb_schema_check(s, bad, "a", problems), 1);
}

/* A schema keeps what it needs. */
static void keeps_its_own_copy(void **state)
{
    json_t *json = parse("{'enum':['a'],'$ref':'http://x/y'}"),
           *documents = parse("{'http://x/y':{'type':'string'}}");
    const struct gb_schema_options options = {.documents = documents};
    struct gb_schema *s = NULL;
    struct gb_schema_problem problems[GB_SCHEMA_PROBLEMS];
    (void)state;
    assert_int_equal(gb_schema_new(json, &options, &s, NULL), 0);
    json_array_clear(json_object_get(json, "enum"));
    json_decref(json);
    json_object_clear(documents);
    json_decref(documents);
    AUTO_JSON good = parse("'a'");
    AUTO_JSON bad = parse("1");
    assert_int_equal(gb_schema_check(s, good, "a", problems), 0);
    assert_int_equal(gb_schema_check(s, bad, "a", problems), 2);
    gb_schema_free(s);
    gb_schema_free(NULL);
}

/* --- bounds: steps, not times --- */

static uint64_t steps_of(const struct gb_schema *s, const json_t *value, const char *expected)
{
    struct gb_schema_problem problems[GB_SCHEMA_PROBLEMS];
    uint64_t steps = 0;
    const size_t count = gb_schema_check_steps(s, value, "v", problems, &steps);
    if (!expected)
        assert_int_equal(count, 0);
    else if (!count || !strstr(problems[0].text, expected))
        fail_msg("'%s', not '%s'", count ? problems[0].text : "valid", expected);
    return steps;
}

/* Each level refers twice to the one below: 2^levels ways, but few nodes. */
static struct gb_schema *doubling(const char *keyword, const char *extra, int levels)
{
    char text[8192];
    size_t len = (size_t)snprintf(text, sizeof(text),
                                  "{'$ref':'#/$defs/d%d'%s,'$defs':{'d0':{'type':'integer'}", levels, extra);
    for (int i = 1; i <= levels; i++)
        len += (size_t)snprintf(text + len, sizeof(text) - len,
                                ",'d%d':{'%s':[{'$ref':'#/$defs/d%d'},{'$ref':'#/$defs/d%d','minimum':0}]}",
                                i, keyword, i - 1, i - 1);
    snprintf(text + len, sizeof(text) - len, "}}");
    return compile(text, NULL);
}

static void doubling_is_linear(void **state)
{
    static const char *const keywords[] = {"allOf", "anyOf", "oneOf"};
    static const char *const extras[] = {"", ",'unevaluatedProperties':false"};
    (void)state;
    for (size_t i = 0; i < LEN(keywords); i++)
        for (size_t j = 0; j < LEN(extras); j++) {
            AUTO_SCHEMA s = doubling(keywords[i], extras[j], 20);
            AUTO_SCHEMA l = doubling(keywords[i], extras[j], 40);
            AUTO_JSON number = parse("-1");
            AUTO_JSON text = parse("'a'");
            AUTO_JSON object = parse("{'a':1}");
            const json_t *const values[] = {number, text, object};
            for (size_t k = 0; k < LEN(values); k++) {
                struct gb_schema_problem problems[GB_SCHEMA_PROBLEMS];
                uint64_t small = 0, large = 0;
                gb_schema_check_steps(s, values[k], "v", problems, &small);
                gb_schema_check_steps(l, values[k], "v", problems, &large);
                assert_true(small < 20000);
                assert_true(large <= 3 * small);
            }
        }
}

static json_t *nested(int levels, json_t *inside)
{
    for (int i = 0; i < levels; i++)
        inside = json_pack("[oi]", inside, i);
    return inside;
}

/* Two branches that go the same way at each level of the value. */
static void recursion_is_linear(void **state)
{
    AUTO_SCHEMA s = compile("{'$ref':'#/$defs/t','$defs':{'t':{'anyOf':["
                            "{'type':'array','items':{'$ref':'#/$defs/t'},'minItems':3},"
                            "{'type':'array','items':{'$ref':'#/$defs/t'}},{'type':'integer'}]}}}",
                            NULL);
    AUTO_JSON good = nested(20, json_integer(1));
    AUTO_JSON larger = nested(60, json_integer(1));
    AUTO_JSON bad = nested(60, json_null());
    (void)state;
    const uint64_t small = steps_of(s, good, NULL), large = steps_of(s, larger, NULL);
    assert_true(large < 4 * small);
    assert_true(steps_of(s, bad, "") < 20 * large);
}

static json_t *integers(json_int_t count, json_int_t factor)
{
    json_t *list = json_array();
    for (json_int_t i = 0; i < count; i++)
        json_array_append_new(list, json_integer(i * factor));
    return list;
}

static void large_arrays_are_linear(void **state)
{
    static const char *const schemas[] = {
            "{'uniqueItems':true}", "{'items':{'type':'integer','minimum':0}}",
            "{'contains':{'type':'string'},'minContains':0,'unevaluatedItems':true}"};
    AUTO_JSON small = integers(1000, 1);
    AUTO_JSON large = integers(100000, 1);
    AUTO_JSON same = integers(100000, 0);
    (void)state;
    for (size_t i = 0; i < LEN(schemas); i++) {
        AUTO_SCHEMA s = compile(schemas[i], NULL);
        assert_true(steps_of(s, large, NULL) < 110 * steps_of(s, small, NULL));
    }
    AUTO_SCHEMA s = compile("{'uniqueItems':true}", NULL);
    steps_of(s, same, "[0] and [1] are equal");
}

static void large_enums_are_searched(void **state)
{
    AUTO_JSON many = json_array();
    AUTO_JSON json = json_pack("{s:{s:O}}", "items", "enum", many);
    struct gb_schema *made = NULL;
    (void)state;
    for (int i = 0; i < 5000; i++)
        json_array_append_new(many, json_sprintf("value %d", i));
    assert_int_equal(gb_schema_new(json, NULL, &made, NULL), 0);
    AUTO_SCHEMA s = made;
    assert_true(steps_of(s, many, NULL) < 5 * 5000);
}

/* A text that would take for ever, alone or among many. */
static void patterns_have_bounds(void **state)
{
    static const char *const patterns[] = {"^(a+)+$", "(a|aa)+$", "(a*)*b", "^(a|a?)+$",
                                           "(.*)(.*)(.*)(.*)(.*)z"};
    char text[5001];
    (void)state;
    memset(text, 'a', sizeof(text) - 2);
    text[sizeof(text) - 2] = 'c';
    text[sizeof(text) - 1] = '\0';
    for (size_t i = 0; i < LEN(patterns); i++) {
        AUTO_JSON json = json_pack("{s:{s:s}}", "items", "pattern", patterns[i]);
        AUTO_JSON negated = json_pack("{s:{s:s}}", "not", "pattern", patterns[i]);
        AUTO_JSON value = json_string(text);
        AUTO_JSON list = json_array();
        struct gb_schema *made = NULL;
        for (int j = 0; j < 1000; j++)
            json_array_append(list, value);
        assert_int_equal(gb_schema_new(json, NULL, &made, NULL), 0);
        AUTO_SCHEMA s = made;
        assert_true(steps_of(s, list, "takes too long to be matched") < 1000000);
        assert_int_equal(gb_schema_new(negated, NULL, &made, NULL), 0);
        AUTO_SCHEMA n = made;
        steps_of(n, value, "takes too long to be matched"); /* which is no "does not match" */
    }
}

static void depth_has_a_bound(void **state)
{
    AUTO_SCHEMA s = compile("{'items':{'$ref':'#'}}", NULL);
    AUTO_JSON fine = nested(150, json_null());
    AUTO_JSON deep = nested(5000, json_null());
    struct gb_schema *made = NULL;
    struct gb_err err = {0};
    (void)state;
    steps_of(s, fine, NULL);
    steps_of(s, deep, "has more than 200 levels");
    AUTO_JSON schema = json_true();
    for (int i = 0; i < 300; i++)
        schema = json_pack("{so}", "items", schema);
    assert_true(gb_schema_new(schema, NULL, &made, &err) < 0);
    assert_non_null(strstr(err.text, "levels"));
}

/* The check is given up, and that is not valid, even where the opposite is asked. */
static void steps_have_a_bound(void **state)
{
    char text[16384];
    size_t len = (size_t)snprintf(text, sizeof(text), "{'not':{'items':{'allOf':[");
    for (int i = 0; i < 100; i++)
        len += (size_t)snprintf(text + len, sizeof(text) - len, "%s{'required':['a%d']}", i ? "," : "", i);
    snprintf(text + len, sizeof(text) - len, "]}}}");
    AUTO_SCHEMA s = compile(text, NULL);
    AUTO_JSON list = integers(100000, 1);
    (void)state;
    const uint64_t steps = steps_of(s, list, "too large to be checked against this schema");
    assert_true(steps < 11000000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
            cmocka_unit_test(what_it_says),
            cmocka_unit_test(many_problems),
            cmocka_unit_test(closed),
            cmocka_unit_test(refused),
            cmocka_unit_test(formats_that_cannot_be_checked),
            cmocka_unit_test(unknown_ignored),
            cmocka_unit_test(keeps_its_own_copy),
            cmocka_unit_test(doubling_is_linear),
            cmocka_unit_test(recursion_is_linear),
            cmocka_unit_test(large_arrays_are_linear),
            cmocka_unit_test(large_enums_are_searched),
            cmocka_unit_test(patterns_have_bounds),
            cmocka_unit_test(depth_has_a_bound),
            cmocka_unit_test(steps_have_a_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
