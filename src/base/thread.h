/* What threads that work beside a loop or a program, and waits for them, have in common. */
#pragma once

#include <pthread.h>
#include <stdint.h>

/* A thread that no signal is delivered to: they are the loop's, or the program's. 0 or a negative
 * errno. */
int thread_start(pthread_t *ret, const char *name, void *(*function)(void *), void *argument);

/* A condition that is waited for by the monotonic clock. */
void cond_init(pthread_cond_t *cond);
/* 0: woken, perhaps for nothing; -ETIMEDOUT. */
int cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t deadline_ns);
