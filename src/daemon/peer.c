#include "daemon/peer.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "config/paths.h"
#include "probe/process-lookup.h"

/* The kernel reports the pid that connected. If that pid belongs to another user now, the process
 * that connected is gone. */
static uint64_t identify(pid_t pid, uid_t uid)
{
    uint64_t start_ticks;
    int64_t owner;

    return pid && process_lookup_owner(PROC_ROOT, pid, &start_ticks, &owner) == 0 &&
                   owner == (int64_t)uid
               ? start_ticks
               : 0;
}

int peer_read(int fd, struct peer *ret)
{
    struct ucred credentials;
    socklen_t length = sizeof(credentials);

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &length) < 0)
        return -errno;
    *ret = (struct peer){.pid = credentials.pid,
                         .start_ticks = identify(credentials.pid, credentials.uid),
                         .uid = credentials.uid,
                         .sees_all = credentials.uid == 0 || credentials.uid == geteuid()};
    return 0;
}

pid_t peer_process(const struct peer *peer)
{
    struct proc_stat stat;

    return peer->start_ticks && process_lookup_stat(PROC_ROOT, peer->pid, &stat) == 0 &&
                   stat.start_ticks == peer->start_ticks
               ? peer->pid
               : 0;
}

bool peer_may_use(const struct peer *peer, pid_t pid)
{
    uint64_t start_ticks;
    int64_t uid;

    return peer->sees_all || process_lookup_owner(PROC_ROOT, pid, &start_ticks, &uid) < 0 ||
           uid == (int64_t)peer->uid;
}
