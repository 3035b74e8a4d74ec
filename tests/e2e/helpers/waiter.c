/* Threads that wait, for a known part of their time in poll() and for the rest in nanosleep().
 *
 *     waiter THREADS ROUNDS POLL_MS SLEEP_MS
 *
 * Prints at its end how long the threads were in poll(). They start at different times, so that
 * samples at regular times find them in all phases. One more thread waits for ever: the program
 * ends while that thread is in a call that never returns. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define THREADS_MAX 64

static int rounds, poll_ms, sleep_ms;
static _Atomic long long poll_ns, sleep_ns; /* measured, because timers fire late */

static long long now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void sleep_for(long ns)
{
    struct timespec left = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};

    while (nanosleep(&left, &left) < 0 && errno == EINTR)
        ;
}

static void *wait_in_turns(void *argument)
{
    (void)argument;
    for (int i = 0; i < rounds; i++) {
        long long began = now_ns();
        poll(NULL, 0, poll_ms);
        long long between = now_ns();
        sleep_for(sleep_ms * 1000000L);
        poll_ns += between - began;
        sleep_ns += now_ns() - between;
    }
    return NULL;
}

static void *wait_for_ever(void *argument)
{
    for (;;)
        pause();
    return argument;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS_MAX], last;
    int count = argc == 5 ? atoi(argv[1]) : 0;

    if (count < 1 || count > THREADS_MAX)
        return 2;
    rounds = atoi(argv[2]);
    poll_ms = atoi(argv[3]);
    sleep_ms = atoi(argv[4]);
    if (pthread_create(&last, NULL, wait_for_ever, NULL) != 0)
        return 1;
    for (int i = 0; i < count; i++) {
        if (pthread_create(&threads[i], NULL, wait_in_turns, NULL) != 0)
            return 1;
        sleep_for((poll_ms + sleep_ms) * 1000000L / count);
    }
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    printf("poll_pct %.2f\n", 100.0 * (double)poll_ns / (double)(poll_ns + sleep_ns));
    return 0;
}
