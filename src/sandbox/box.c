#include "sandbox/box.h"

#include "base/auto.h"

#include <stdio.h>
#include <unistd.h>

void gb_box_init(struct gb_box *box, const struct gb_spec *spec)
{
    *box = (struct gb_box){
            .spec = spec,
            .cradle_fd = -1,
            .host_uid = geteuid(),
            .host_gid = getegid(),
            .lease_fd = -1,
            .init_pid = -1,
            .init_fd = -1,
            .channel = -1,
            .stdin_fd = -1,
            .out_fd = {-1, -1},
            .scratch_fd = -1,
            .mounts_fd = -1,
            .past_mounts_fd = -1,
            .box_channel = -1,
            .box_stdio = {-1, -1, -1},
            .image_fd = -1,
            .proc_fd = -1,
            .source_fd = -1,
            .root_fd = -1,
            .net_fd = -1,
    };
    for (size_t i = 0; i < GB_MOUNTS; i++)
        box->mount_fd[i] = -1;
    gb_cgroup_init(&box->cgroup);
    snprintf(box->receipt.backend, sizeof(box->receipt.backend), "native");
    snprintf(box->receipt.root, sizeof(box->receipt.root), "%s", spec->rootfs ? "rootfs" : "system");
    box->receipt.limits = spec->limits;
    box->receipt.host_uid = box->host_uid;
}

void gb_box_close_ends(struct gb_box *box)
{
    int *const fds[] = {&box->box_channel,  &box->box_stdio[0], &box->box_stdio[1],
                        &box->box_stdio[2], &box->image_fd,     &box->proc_fd};
    for (size_t i = 0; i < ARRAY_LEN(fds); i++)
        if (*fds[i] >= 0)
            close(TAKE_FD(*fds[i]));
}

void gb_box_close(struct gb_box *box)
{
    int *const fds[] = {&box->init_fd,   &box->channel,   &box->stdin_fd,
                        &box->out_fd[0], &box->out_fd[1], &box->scratch_fd};
    gb_box_close_ends(box);
    for (size_t i = 0; i < ARRAY_LEN(fds); i++)
        if (*fds[i] >= 0)
            close(TAKE_FD(*fds[i]));
}

void gb_box_again(struct gb_box *box, const struct gb_spec *spec)
{
    gb_box_close(box);
    gb_auto_close(&box->past_mounts_fd);
    const struct gb_box before = *box;
    gb_box_init(box, spec);
    box->zygote = before.zygote;
    box->cradle_fd = before.cradle_fd;
    box->past_mounts_fd = before.mounts_fd;
    box->cgroup = before.cgroup;
    box->buffer = before.buffer;
    box->lease_fd = before.lease_fd;
    if (before.lease_fd >= 0)
        box->receipt.host_uid = box->host_uid = box->host_gid = before.host_uid;
}

void gb_box_done(struct gb_box *box)
{
    gb_box_close(box);
    gb_auto_close(&box->mounts_fd);
    gb_auto_close(&box->past_mounts_fd);
    gb_auto_close(&box->cradle_fd);
    gb_cgroup_destroy(&box->cgroup);
    free(box->buffer);
    if (box->lease_fd >= 0)
        close(TAKE_FD(box->lease_fd)); /* the uid is free again only now that nothing of the box is left; its
                                          cradle ends soon, and reaches nobody */
}
