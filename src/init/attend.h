/* What PID 1 of a box does, whoever it is: glovebox-init, or a fork of a zygote whose interpreter waits. No C
 * library, no heap: it shares its uid and its pid namespace with the program. */
#pragma once

/* To be said first in a box that waits for its call. */
void gb_init_wait(void);

/* A program that is there already and waits for its words (argv, then environment) on this pipe. */
struct gb_init_waiting {
    long pid;
    int control; /* the writing end */
};

/* Starts argv, which is looked up in the PATH of env, as a child; -1 after a report when that failed.
 * `words`, unless -1, becomes its descriptor 3. */
long gb_init_spawn(char **argv, char **env, int words);
/* In what PID 1 of a waiting box has forked: gives back what only PID 1 may have. */
void gb_init_give_back(void);
/* Waits for the word to start, puts the files of the call into the current directory, and starts its program:
 * by spawning it with the call's environment in place of that of `env`, or by telling the one that waits.
 * Returns its pid. Does not return if nobody will ever say the word. */
long gb_init_await(char **env, const struct gb_init_waiting *waiting);
/* Reaps until `program` ends, reports how, and exits. With `watch`, exits too when the supervisor is gone. */
void gb_init_attend(long program, int watch) __attribute__((noreturn));
void gb_init_quit(int code) __attribute__((noreturn));
