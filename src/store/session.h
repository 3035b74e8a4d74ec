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
    char *lock_path;
    uint64_t lock_device, lock_inode;
    bool was_unlocked; /* others may have taken it for dead, see session_resume() */
};

/* Begins a session and locks it, in one transaction. 0 or a negative errno. */
int session_begin(struct session *session, struct database *database,
                  const struct store_options *options, double now);
/* Lets go of the lock; that it has ended is noted in the transaction that the caller makes. */
void session_done(struct session *session);
int session_note_end(struct session *session, double now);

/* Before a transaction: if somebody has deleted the file with the locks, or put another in its
 * place, it is made and locked anew. What cannot be done is tried again the next time. */
void session_keep_lock(struct session *session);
/* After that, within the transaction: a session that others have ended goes on, and so do its jobs.
 * 1 if there was one, 0 or a negative errno. */
int session_resume(struct session *session);

/* The file with the locks, to ask session_is_alive() with: a descriptor, or a negative errno. */
int session_open_locks(const char *database_path, bool for_writing);
/* Reads from the file that is there by now, if it is another one. */
void session_reopen_locks(const char *database_path, int *lock_fd);
/* `lock_fd` may be -1, if there is no such file: then nobody lives. */
bool session_is_alive(int lock_fd, int64_t id);

/* What other writers left unfinished when they died: folds their samples, rolls up their last
 * minute, ends their processes; their running jobs become unknown, cause "lost", and their open
 * anomalies are over. One transaction each. */
int session_recover_others(struct session *session, const struct schema *schema);

/* The number of its last snapshot, 0 if it has none; and its time, REAL_UNKNOWN if it has none. */
int session_last_tick(struct database *database, int64_t session, int64_t *ret);
int session_last_time(struct database *database, int64_t session, double *ret);
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

/* Its anomalies that are still open were last seen in its last snapshot. */
int session_clear_anomalies(struct database *database, int64_t session);

/* Moves the samples of `recent`, all up to this tick, to `history`. Within a transaction. */
int session_fold(struct database *database, const struct schema *schema, int64_t session,
                 int64_t up_to_tick);
