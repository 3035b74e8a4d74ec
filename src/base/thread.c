#include "base/thread.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>

#include "base/clock.h"

int thread_start(pthread_t *ret, const char *name, void *(*function)(void *), void *argument)
{
    sigset_t all, before;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int r = -pthread_create(ret, NULL, function, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (r == 0)
        pthread_setname_np(*ret, name);
    return r;
}

static atomic_bool were_abandoned;

void thread_abandon(pthread_t thread)
{
    were_abandoned = true;
    pthread_detach(thread);
}

bool threads_were_abandoned(void)
{
    return were_abandoned;
}

void cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attributes;

    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &attributes);
    pthread_condattr_destroy(&attributes);
}

int cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t deadline_ns)
{
    const struct timespec deadline = ns_to_timespec(deadline_ns);

    return pthread_cond_timedwait(cond, lock, &deadline) == ETIMEDOUT ? -ETIMEDOUT : 0;
}

int semaphore_wait_until(sem_t *semaphore, uint64_t deadline_ns)
{
    const struct timespec deadline = ns_to_timespec(deadline_ns);

    while (sem_clockwait(semaphore, CLOCK_MONOTONIC, &deadline) < 0)
        if (errno != EINTR)
            return -ETIMEDOUT; /* any other error would be a bug */
    return 0;
}
