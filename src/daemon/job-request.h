/* What the handlers of job.* and sheet.* share: the run and the process that a request names, and
 * whether the peer may use them. */
#pragma once

#include "daemon/dispatch.h"
#include "daemon/peer.h"
#include "engine/engine.h"
#include "jobs/registry.h"

/* Tolerance for clock differences and late reports. */
#define JOB_REQUEST_CLOCK_SLACK_SEC 10

/* Whether the peer may change the run: its own runs, or all with full view. */
bool job_request_owns(const struct peer *peer, const struct run *run);

/* Finds the run that `job_id` of the request names, and makes the peer its owner if it was adopted.
 * Returns NULL, with an error in the answer, if there is no such run or the peer may not change it.
 */
struct run *job_request_find_run(struct daemon *daemon, struct connection *connection,
                                 const struct rpc_request *request, struct answer *answer);

/* Reads `pid` of the request into *ret; 0: the request has none. Returns false, with an error in
 * the answer, if the peer may not report that process. A process that ended before its parent
 * reported it has no start time. */
bool job_request_check_process(struct daemon *daemon, const struct connection *connection,
                               const struct rpc_request *request, struct process_id *ret,
                               struct answer *answer);

/* Whether the process may join `run`, or a run started in `run` (NULL: in none). A process cannot
 * be taken out of another user's run; then there is an error in the answer. */
bool job_request_may_join(const struct daemon *daemon, const struct peer *peer,
                          const struct run *run, pid_t pid, struct answer *answer);

/* Which past events of a process belong to the run or step that it begins: none for a process that
 * reports itself, all since its fork for one that the caller started. */
enum event_replay job_request_replay(const struct peer *peer, pid_t pid);

/* Whether the caller stores in the daemon's database. Readers of the daemon's database do not find
 * data that a caller stores in another one. */
bool job_request_shares_store(const struct daemon *daemon, const struct connection *connection,
                              const struct rpc_request *request);

/* Begins the object of an answer with the run_id and job_id of the run. */
void job_request_begin_answer(const struct run *run, struct answer *answer);
