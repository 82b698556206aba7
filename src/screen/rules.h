/* Between the files of screening. */
#pragma once

#include "screen/screen.h"

const struct gb_screen_rule *gb_screen_rule(const struct gb_screen *screen, size_t index);
bool gb_screen_is_for(const struct gb_screen_rule *rule, const char *runtime);
