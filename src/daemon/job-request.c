#include "daemon/job-request.h"

#include <string.h>
#include <unistd.h>

#include "config/paths.h"
#include "daemon/connection.h"
#include "daemon/daemon-state.h"
#include "probe/process-lookup.h"

bool job_request_owns(const struct peer *peer, const struct run *run)
{
    return peer->sees_all || run->uid == (int64_t)peer->uid;
}

/* Finds a run by name, the peer's own first. Only peers with full view find runs of others by name.
 */
static struct run *find_by_name(const struct daemon *daemon, const struct peer *peer,
                                const char *name)
{
    struct run *run = registry_find_job(daemon->registry, name, peer->uid);

    return run || !peer->sees_all ? run : registry_find_job(daemon->registry, name, INT_UNKNOWN);
}

struct run *job_request_find_run(struct daemon *daemon, struct connection *connection,
                                 const struct rpc_request *request, struct answer *answer)
{
    const struct peer *peer = connection_peer(connection);
    const char *name = rpc_text(request, "job_id");
    struct run *run = registry_find_run(daemon->registry, name);

    if (!run)
        run = find_by_name(daemon, peer, name);
    if (!run) {
        answer_fail(answer, RPC_JOB_NOT_FOUND, "no job '%s' is running", name);
        return NULL;
    }
    if (!job_request_owns(peer, run)) {
        answer_fail(answer, RPC_NOT_PERMITTED, "run '%s' belongs to another user", name);
        return NULL;
    }
    run_lifecycle_set_owner(daemon, run, peer_process(peer));
    return run;
}

bool job_request_check_process(struct daemon *daemon, const struct connection *connection,
                               const struct rpc_request *request, struct process_id *ret,
                               struct answer *answer)
{
    const struct peer *peer = connection_peer(connection);
    pid_t pid = (pid_t)rpc_int(request, "pid", 0);
    int64_t uid;

    *ret = (struct process_id){.pid = pid};
    if (!pid)
        return true;
    if (!peer->pid) {
        answer_fail(answer, RPC_INVALID_PARAMS,
                    "pid: the caller is in another pid namespace, its pids mean nothing here");
        return false;
    }
    if (process_lookup_owner(PROC_ROOT, pid, &ret->start_ticks, &uid) < 0) {
        if (engine_saw_fork(daemon->engine, peer_process(peer), pid))
            return true; /* it ended before its parent reported it */
        answer_fail(answer, RPC_INVALID_PARAMS, "pid: there is no process %d", (int)pid);
        return false;
    }
    if (!peer->sees_all && uid != (int64_t)peer->uid) {
        answer_fail(answer, RPC_NOT_PERMITTED, "process %d belongs to another user", (int)pid);
        return false;
    }
    if (pid == getpid()) {
        answer_fail(answer, RPC_INVALID_PARAMS, "pid: %d is the daemon itself", (int)pid);
        return false;
    }
    return true;
}

bool job_request_may_join(const struct daemon *daemon, const struct peer *peer,
                          const struct run *run, pid_t pid, struct answer *answer)
{
    const struct member *member = registry_find(daemon->registry, pid);

    if (!member || job_request_owns(peer, member->run) || (run && run_is_within(run, member->run)))
        return true;
    answer_fail(answer, RPC_NOT_PERMITTED, "process %d is part of another user's job", (int)pid);
    return false;
}

enum event_replay job_request_replay(const struct peer *peer, pid_t pid)
{
    return pid == peer->pid ? REPLAY_FROM_NOW : REPLAY_FROM_BIRTH;
}

bool job_request_shares_store(const struct daemon *daemon, const struct connection *connection,
                              const struct rpc_request *request)
{
    const char *path = rpc_text(request, "stores_in");

    return path && connection_peer(connection)->uid == geteuid() &&
           strcmp(path, daemon->config->storage_path) == 0;
}

void job_request_begin_answer(const struct run *run, struct answer *answer)
{
    json_write_begin_object(&answer->json);
    json_write_key(&answer->json, "run_id");
    json_write_string(&answer->json, run->run_id);
    json_write_key(&answer->json, "job_id");
    json_write_string(&answer->json, run->job_id);
}
