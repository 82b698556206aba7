/* What a finding of screening does: shared by configuration, rules and replies. */
#pragma once

enum gb_screen_action { GB_SCREEN_BLOCK, GB_SCREEN_WARN, GB_SCREEN_OFF };
extern const char *const gb_screen_names[]; /* as they are written in the configuration */
