/* The native backend: this host's kernel, by the steps of sandbox/steps.c. */
#include "backend/native.h"

#include "backend/rehearsal.h"
#include "base/sha256.h"
#include "base/text.h"
#include "sandbox/launch.h"
#include "sandbox/outputs.h"
#include "sandbox/seccomp.h"
#include "sandbox/steps.h"
#include "sandbox/supervise.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static void hash_text(struct gb_sha256 *ctx, const char *text)
{
    gb_sha256_add(ctx, text, strlen(text) + 1);
}

void gb_native_hash_policy(const struct gb_spec *spec, char *ret_hex)
{
    struct gb_sha256 ctx;
    const struct gb_seccomp_program *filter = &gb_seccomp_filter()->full;
    gb_sha256_init(&ctx);
    hash_text(&ctx, "glovebox policy 1 native");
    for (size_t i = 0; i < gb_limit_count; i++) {
        char text[32];
        gb_text_decimal(gb_limits_get(&spec->limits, &gb_limit_rows[i]), gb_limit_rows[i].decimals, text,
                        sizeof(text));
        hash_text(&ctx, text);
    }
    hash_text(&ctx, spec->rootfs ? spec->rootfs : "");
    hash_text(&ctx, spec->degraded ? spec->degraded : "");
    char count[24];
    snprintf(count, sizeof(count), "%zu", spec->mount_count);
    hash_text(&ctx, count);
    for (size_t i = 0; i < spec->mount_count; i++) {
        hash_text(&ctx, spec->mounts[i].source);
        hash_text(&ctx, spec->mounts[i].target);
        hash_text(&ctx, spec->mounts[i].writable ? "rw" : "ro");
    }
    gb_sha256_add(&ctx, filter->code, filter->len * sizeof(*filter->code));
    uint8_t digest[GB_SHA256_BYTES];
    gb_sha256_end(&ctx, digest);
    gb_text_hex(digest, sizeof(digest), ret_hex);
}

static int serve(struct gb_box *box, gb_backend_output_fn *on_output, void *context, struct gb_result *result,
                 struct gb_err *err)
{
    int r = gb_supervise(box, on_output, context, result, err);
    return r ? r : gb_outputs_collect(box, result, err);
}

int gb_native_serve(struct gb_box *box, gb_backend_output_fn *on_output, void *context,
                    struct gb_result *result, struct gb_err *err)
{
    if (!*box->receipt.policy_hash) /* else it is known from a box like this */
        gb_native_hash_policy(box->spec, box->receipt.policy_hash);
    return serve(box, on_output, context, result, err);
}

void gb_native_cancelled(const struct gb_box *box, struct gb_result *result, struct gb_err *err)
{
    *result = (struct gb_result){.status = GB_STATUS_CANCELLED,
                                 .kill_reason = "cancelled",
                                 .exit_code = -1,
                                 .enforced = box->receipt};
    *err = (struct gb_err){0};
}

static int native_run(const struct gb_spec *spec, gb_backend_output_fn *on_output, void *context,
                      struct gb_result *result, struct gb_err *err)
{
#ifdef GB_TESTING
    if (gb_rehearsal_wanted())
        return gb_rehearsal_run(spec, on_output, context, result, err);
#endif
    struct gb_box box;
    gb_box_init(&box, spec);
    int r = gb_launch(&box, err);
    if (!r)
        r = serve(&box, on_output, context, result, err);
    else if (r == -ECANCELED) { /* before the program started: an end like any other */
        gb_native_cancelled(&box, result, err);
        r = 0;
    }
    gb_box_done(&box);
    return r;
}

const struct gb_backend gb_backend_native = {
        "native", "namespaces, cgroups, landlock and seccomp of this host's kernel", native_run};
