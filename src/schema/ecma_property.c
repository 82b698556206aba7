#include "schema/ecma_write.h"

#include "base/auto.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

/* Long names of ECMA-262 for what PCRE2 calls by two letters. */
static const char *const categories[][2] = {
        {"Letter", "L"},
        {"Cased_Letter", "L&"},
        {"LC", "L&"},
        {"Uppercase_Letter", "Lu"},
        {"Lowercase_Letter", "Ll"},
        {"Titlecase_Letter", "Lt"},
        {"Modifier_Letter", "Lm"},
        {"Other_Letter", "Lo"},
        {"Mark", "M"},
        {"Combining_Mark", "M"},
        {"Nonspacing_Mark", "Mn"},
        {"Spacing_Mark", "Mc"},
        {"Enclosing_Mark", "Me"},
        {"Number", "N"},
        {"Decimal_Number", "Nd"},
        {"digit", "Nd"},
        {"Letter_Number", "Nl"},
        {"Other_Number", "No"},
        {"Punctuation", "P"},
        {"punct", "P"},
        {"Connector_Punctuation", "Pc"},
        {"Dash_Punctuation", "Pd"},
        {"Open_Punctuation", "Ps"},
        {"Close_Punctuation", "Pe"},
        {"Initial_Punctuation", "Pi"},
        {"Final_Punctuation", "Pf"},
        {"Other_Punctuation", "Po"},
        {"Symbol", "S"},
        {"Math_Symbol", "Sm"},
        {"Currency_Symbol", "Sc"},
        {"Modifier_Symbol", "Sk"},
        {"Other_Symbol", "So"},
        {"Separator", "Z"},
        {"Space_Separator", "Zs"},
        {"Line_Separator", "Zl"},
        {"Paragraph_Separator", "Zp"},
        {"Other", "C"},
        {"Control", "Cc"},
        {"cntrl", "Cc"},
        {"Format", "Cf"},
        {"Surrogate", "Cs"},
        {"Private_Use", "Co"},
        {"Unassigned", "Cn"},
};

static bool is_known(const char *escape)
{
    int code = 0;
    size_t at = 0;
    pcre2_code *compiled =
            pcre2_compile((PCRE2_SPTR)escape, PCRE2_ZERO_TERMINATED, PCRE2_UTF, &code, &at, NULL);
    const bool known = compiled;
    pcre2_code_free(compiled);
    return known;
}

/* Name, General_Category=Name, Script=Name, Script_Extensions=Name. PCRE2 knows which names there are. */
int gb_ecma_property(char letter, const char *name, char ret_escape[static GB_ECMA_PROPERTY])
{
    static const char *const kinds[][2] = {
            {"General_Category=", ""},      {"gc=", ""}, {"Script=", "sc:"}, {"sc=", "sc:"}, {"scx=", "scx:"},
            {"Script_Extensions=", "scx:"},
    };
    const char *kind = "";
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        if (!strncmp(name, kinds[i][0], strlen(kinds[i][0]))) {
            name += strlen(kinds[i][0]);
            kind = kinds[i][1];
            break;
        }
    for (size_t i = 0; i < ARRAY_LEN(categories) && !*kind; i++)
        if (!strcmp(name, categories[i][0]))
            name = categories[i][1];
    snprintf(ret_escape, GB_ECMA_PROPERTY, "\\%c{%s%s}", letter, kind, name);
    return is_known(ret_escape) ? 0 : -ENOENT;
}
