/* Sessions: one writer from its start to its end. Ticks, deltas, keyframes and gaps are a session's
 * own, so that several may write at once.
 *
 * Whether the writer of a session lives is told by a lock in a file beside the database, one byte a
 * session: the kernel lets go of it however the writer ends, and it holds across pid namespaces,
 * where a pid would mean nothing. */
#pragma once

#include "base/uuid.h"
#include "store/schema.h"

struct session {
    struct database *database;
    int64_t id;
    int lock_fd;
};

/* Begins a session and locks it, in one transaction. 0 or a negative errno. */
int session_begin(struct session *session, struct database *database,
                  const struct store_options *options, double now);
/* Lets go of the lock; that it has ended is noted in the transaction that the caller makes. */
void session_done(struct session *session);
int session_note_end(struct session *session, double now);

/* The file with the locks, to ask session_is_alive() with: a descriptor, or a negative errno. */
int session_open_locks(const char *database_path, bool for_writing);
/* `lock_fd` may be -1, if there is no such file: then nobody lives. */
bool session_is_alive(int lock_fd, int64_t id);

/* What other writers left unfinished when they died: folds their samples, rolls up their last
 * minute, ends their processes; their running jobs become unknown, cause "lost". One transaction
 * each. */
int session_recover_others(struct session *session, const struct schema *schema);

/* The number of its last snapshot, 0 if it has none. */
int session_last_tick(struct database *database, int64_t session, int64_t *ret);
/* Nothing of what came up to this tick, its last, will be added to: folds it, rolls up what was not
 * rolled up, ends its processes. Within a transaction. */
int session_settle(struct database *database, const struct schema *schema, int64_t session,
                   int64_t last_tick);

/* The run of the nearest ancestor that is a living session of this machine with a running job: 1
 * with its run_id, 0 if there is none. */
int session_find_parent(const struct session *session, const int64_t *ancestors, size_t count,
                        char ret_run_id[static UUID_TEXT_SIZE]);

/* Its jobs that are still running become unknown, cause "lost": nobody will tell of their end. */
int session_lose_jobs(struct database *database, int64_t session);

/* Moves the samples of `recent`, all up to this tick, to `history`. Within a transaction. */
int session_fold(struct database *database, const struct schema *schema, int64_t session,
                 int64_t up_to_tick);
