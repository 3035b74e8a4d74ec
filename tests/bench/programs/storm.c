/* Starts short-lived children, some at a time.
 *
 *   storm COUNT AT_ONCE PROGRAM [ARGUMENT…]   "-": the child ends at once and executes no program
 *
 * Prints wall and CPU time, its own and that of the children, in nanoseconds. Exits with 0 if all
 * of them could be started, whatever their exit status. */
#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static int start(char **argv)
{
    pid_t pid;

    if (strcmp(argv[0], "-") != 0)
        return posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ);
    pid = vfork();
    if (pid == 0)
        _exit(0);
    return pid < 0 ? errno : 0;
}

static long long wall_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static long long cpu_ns(int who)
{
    struct rusage usage;

    getrusage(who, &usage);
    return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000000LL +
           (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1000LL;
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "usage: storm COUNT AT_ONCE PROGRAM [ARGUMENT…]\n");
        return 2;
    }
    int count = atoi(argv[1]), at_once = atoi(argv[2]), running = 0;
    long long started_ns = wall_ns();

    for (int started = 0; started < count || running; running--) {
        for (; running < at_once && started < count; started++, running++) {
            int error = start(argv + 3);
            if (error) {
                fprintf(stderr, "storm: %s: %s\n", argv[3], strerror(error));
                return 1;
            }
        }
        wait(NULL);
    }
    printf("%lld %lld\n", wall_ns() - started_ns, cpu_ns(RUSAGE_SELF) + cpu_ns(RUSAGE_CHILDREN));
    return 0;
}
