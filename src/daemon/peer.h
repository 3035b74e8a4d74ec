/* Who is at the other end of a connection, by the kernel's word. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct peer {
    pid_t pid;            /* that has connected; 0: of another pid namespace */
    uint64_t start_ticks; /* of that process; 0: it was gone, or its pid another user's by then */
    uid_t uid;
    bool sees_all; /* root, or the daemon's owner */
};

/* 0 or a negative errno. */
int peer_read(int fd, struct peer *ret);

/* The pid of the process that has connected, as long as it is that process; else 0: a connection
 * can be handed on, and outlive it. */
pid_t peer_process(const struct peer *peer);
