/* Sessions: one writer from its start to its end. Each session has its own ticks, keyframes and
 * gaps, so that several can write at the same time.
 *
 * A living session holds a lock on one byte of a file beside the database. The kernel releases it
 * however the writer ends. It also works across pid namespaces, where pids do not. */
#pragma once

#include "base/uuid.h"
#include "store/schema.h"

struct session {
    struct database *database;
    int64_t id;
    int lock_fd;
    char *lock_path;
    uint64_t lock_device, lock_inode;
    bool was_unlocked; /* other writers may have ended the session, see session_resume() */
};

/* Begins a session and locks it, in one transaction. Returns 0 or a negative errno. */
int session_begin(struct session *session, struct database *database,
                  const struct store_options *options, double now);
/* Releases the lock. The caller stores the end before, with session_write_end(). */
void session_done(struct session *session);
/* Call it within a transaction. Returns 0 or a negative errno. */
int session_write_end(struct session *session, double now);

/* Call before a transaction: if the lock file was deleted or replaced, creates and locks it again.
 * An error is ignored; the next call tries again. */
void session_keep_lock(struct session *session);
/* Call it then within the transaction: reopens the session and its jobs if another writer has ended
 * them. Returns 1 if it has, 0 or a negative errno. */
int session_resume(struct session *session);

/* Opens the lock file, for session_is_alive(): a descriptor, or a negative errno. */
int session_open_locks(const char *database_path, bool for_writing);
/* Replaces *lock_fd if the lock file was replaced. */
void session_reopen_locks(const char *database_path, int *lock_fd);
/* Returns whether the writer of a session lives. `lock_fd` is -1 if there is no lock file: then
 * none does.
 */
bool session_is_alive(int lock_fd, int64_t id);

/* Ends the sessions of writers that died, in one transaction each: folds their samples, rolls up
 * their last minute and ends their processes. Their running jobs become unknown, cause "lost";
 * their open anomalies are cleared. Returns 0 or a negative errno. */
int session_recover_others(struct session *session, const struct schema *schema);

/* Read the tick of the last snapshot of a session (0: it has none), and the time of that snapshot
 * (REAL_UNKNOWN: it has none). Return 0 or a negative errno. */
int session_last_tick(struct database *database, int64_t session, int64_t *ret);
int session_last_time(struct database *database, int64_t session, double *ret);
/* Completes the samples of a session up to its last tick: folds them, rolls up the rest and ends
 * its processes. Call it within a transaction. Returns 0 or a negative errno. */
int session_settle(struct database *database, const struct schema *schema, int64_t session,
                   int64_t last_tick);

/* Finds the running run of the nearest of these ancestor processes that is a living session on this
 * machine. Returns 1, 0 if there is none, or a negative errno. */
int session_find_parent(const struct session *session, const int64_t *ancestors, size_t count,
                        char ret_run_id[static UUID_TEXT_SIZE]);

/* Marks the running jobs of a session as ended, with the outcome unknown and the cause "lost". Call
 * it within a transaction. */
int session_mark_jobs_lost(struct database *database, int64_t session);

/* Clears the open anomalies of a session as of its last snapshot. Call it within a transaction. */
int session_clear_anomalies(struct database *database, int64_t session);

/* Moves the samples of a session, up to its last tick `up_to_tick`, from `recent` to `history`.
 * Call it within a transaction. */
int session_fold(struct database *database, const struct schema *schema, int64_t session,
                 int64_t up_to_tick);
