/* What threads that work beside a loop or a program, and waits for them, have in common. */
#pragma once

#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>

/* A thread that no signal is delivered to: they are the loop's, or the program's. 0 or a negative
 * errno. */
int thread_start(pthread_t *ret, const char *name, void *(*function)(void *), void *argument);

/* Lets go of one that may never end, because what it waits for hangs. */
void thread_leave(pthread_t thread);
/* Whether one was. Then the process must end by _exit(): exit() would take away under that thread
 * what the library that it is in works with. */
bool threads_were_left(void);

/* A condition that is waited for by the monotonic clock. */
void cond_init(pthread_cond_t *cond);
/* 0: woken, perhaps for nothing; -ETIMEDOUT. */
int cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t deadline_ns);

/* A semaphore, by the same clock: for a thread that mostly waits in vain, one system call each time
 * where a condition takes two, because its mutex is taken for contended. 0 or -ETIMEDOUT. */
int semaphore_wait_until(sem_t *semaphore, uint64_t deadline_ns);
