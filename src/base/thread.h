/* Starting threads, and waiting by the monotonic clock. */
#pragma once

#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>

/* Starts a thread with all signals blocked: signals belong to the main loop or to the program that
 * uses libsonde. Returns 0 or a negative errno. */
int thread_start(pthread_t *ret, const char *name, void *(*function)(void *), void *argument);

/* Detaches a thread that may never end, because it hangs in a call. */
void thread_abandon(pthread_t thread);
/* Returns whether thread_abandon() was ever called. The process must then end with _exit(): exit()
 * would run destructors of libraries that the thread still uses. */
bool threads_were_abandoned(void);

/* Initialises a condition variable that uses the monotonic clock. */
void cond_init(pthread_cond_t *cond);
/* Waits for the condition until `deadline_ns` on the monotonic clock. Returns 0 when woken
 * (possibly spuriously) or -ETIMEDOUT. */
int cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t deadline_ns);

/* Waits for a semaphore by the monotonic clock. For a thread whose wait mostly times out, this
 * costs one system call; a condition variable costs two, because its mutex counts as contended.
 * Returns 0 or -ETIMEDOUT. */
int semaphore_wait_until(sem_t *semaphore, uint64_t deadline_ns);
