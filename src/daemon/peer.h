/* The process at the other end of a connection, as the kernel reports it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct peer {
    pid_t pid;            /* 0: in another pid namespace */
    uint64_t start_ticks; /* 0: the process was gone, or its pid belonged to another user */
    uid_t uid;
    bool sees_all; /* root or the daemon's owner */
};

/* Reads the peer of a connected socket. Returns 0 or a negative errno. */
int peer_read(int fd, struct peer *ret);

/* The pid of the process that connected, or 0 if it has ended: a connection can be passed on and
 * outlive it. */
pid_t peer_process(const struct peer *peer);

/* Whether the peer may use a process: false if the process exists and belongs to another user. A
 * peer with full view may use all. */
bool peer_may_use(const struct peer *peer, pid_t pid);
