/* What the files of the supervisor share. */
#pragma once

#include "base/loop.h"
#include "config/config.h"
#include "serve/child.h"
#include "serve/listen.h"
#include "serve/serve.h"
#include "serve/state.h"
#include "wire/msg.h"

enum gb_phase {
    GB_PHASE_STARTING, /* one process after the other, each waits for the READY of the one before */
    GB_PHASE_SERVING,
    GB_PHASE_CLEARING, /* one died: the others are killed, and we wait until all are gone, boxes included */
    GB_PHASE_WAITING,  /* before the next attempt */
    GB_PHASE_DRAINING, /* told to stop: calls that are under way may finish */
    GB_PHASE_STOPPING, /* they had their time */
    GB_PHASE_KILLING,  /* they had more than that */
    GB_PHASE_COUNT
};

#define GB_FAILURES 5 /* so many in ten seconds are borne without a pause */

struct gb_service {
    const struct gb_serve_options *options;
    struct gb_config *config;
    struct gb_config *before; /* in force until broker and front have taken the new one; else NULL */
    uint64_t reloads;         /* so many were begun: the tag of what the broker is told */
    struct gb_loop *loop;
    struct gb_source signals;
    struct gb_timer timer;  /* when the phase has lasted long enough */
    struct gb_timer answer; /* when broker or front has had long enough to take a new configuration */
    struct gb_state state;
    struct gb_listen listen[GB_CONFIG_LISTEN];
    size_t listen_count;
    int diag_fd;             /* -1: the kernel does not tell who calls */
    char cgroup_parent[256]; /* found by us; the configuration's goes first */
    struct gb_child children[GB_CHILDREN];
    int pair[4][2]; /* channels between the children, until they are handed out */
    int config_fd;  /* what the broker has been given and the front not yet; -1: none */

    enum gb_phase phase;
    bool was_ready;     /* all of them, at least once */
    bool reload_wanted; /* as soon as all are ready */
    bool on_terminal;
    int64_t failed_us[GB_FAILURES]; /* when it last went wrong, in a ring */
    size_t failures;
    unsigned early_failures; /* before all were ready for the first time */
    int64_t pause_us;        /* before the next start */
    struct gb_err *err;      /* why the loop ended, if it was not told to */
    struct gb_msg msg;
};

/* --- life.c --- */

/* Starts the children as soon as the loop runs. */
void gb_life_begin(struct gb_service *s);
/* Reaps whoever has ended and acts on it. */
void gb_life_reap(struct gb_service *s);
/* Asks for a stop; asked for once more, everything is killed. */
void gb_life_stop(struct gb_service *s);

/* --- reload.c --- */

void gb_reload(struct gb_service *s);
/* A child that was ready before says so again: it has taken the new configuration. */
void gb_reload_heard(struct gb_service *s, const struct gb_child *c, uint64_t tag);
/* The new configuration is in force, or is not taken. */
void gb_reload_answered(struct gb_service *s, bool taken, const char *why);
/* May this configuration be served here? */
int gb_reload_check(const struct gb_service *s, const struct gb_config *config, struct gb_err *err);

/* --- start.c: what the children are told --- */

int gb_start_config_fd(const struct gb_config *config, struct gb_err *err);
void gb_start_ceiling(const struct gb_service *s, struct gb_msg_ceiling *ret);
/* From the policy of the configuration; without pools if that cannot be had. Warns of profiles that get none.
 */
void gb_start_pools(const struct gb_service *s, struct gb_msg_pools *ret);
void gb_start_retention(const struct gb_service *s, struct gb_msg_retention *ret);
void gb_start_broker(const struct gb_service *s, struct gb_msg_broker *ret);
int gb_start_pairs(struct gb_service *s);
void gb_start_close_pairs(struct gb_service *s);
/* Sends START_* with the descriptors that msg.def lists. */
int gb_start_tell(struct gb_service *s, enum gb_child_index who, struct gb_err *err);

/* --- banner.c --- */

void gb_banner_write(const struct gb_service *s, struct gb_buf *out);
