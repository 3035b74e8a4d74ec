/* Runs commands in turn and prints the time of each run. It is small and in C, so that the loop
 * around the commands costs little.
 *
 *   run-rounds ROUNDS :: CMD [ARGUMENT…] :: CMD [ARGUMENT…] …
 *
 * Odd rounds go backwards through the list. Prints a line per run: index of the command, wall ns,
 * CPU ns (by wait4: the command and the children it has waited for), wait status. Discards the
 * output of the commands. */
#include <fcntl.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MAX_COMMANDS 16

static uint64_t now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static uint64_t timeval_ns(struct timeval time)
{
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_usec * 1000u;
}

static void run(int index, char **argv, const posix_spawn_file_actions_t *actions)
{
    struct rusage usage;
    pid_t pid;
    int status;
    uint64_t started_ns = now_ns();

    if (posix_spawnp(&pid, argv[0], actions, NULL, argv, environ) != 0 ||
        wait4(pid, &status, 0, &usage) != pid) {
        perror(argv[0]);
        exit(1);
    }
    printf("%d %llu %llu %d\n", index, (unsigned long long)(now_ns() - started_ns),
           (unsigned long long)(timeval_ns(usage.ru_utime) + timeval_ns(usage.ru_stime)), status);
}

int main(int argc, char **argv)
{
    posix_spawn_file_actions_t actions;
    char **commands[MAX_COMMANDS];
    int count = 0, rounds = argc > 1 ? atoi(argv[1]) : 0;

    for (int i = 2; i < argc; i++)
        if (strcmp(argv[i], "::") == 0 && count < MAX_COMMANDS) {
            argv[i] = NULL;
            commands[count++] = &argv[i + 1];
        }
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);

    for (int round = 0; round < rounds; round++)
        for (int i = 0; i < count; i++) {
            int index = round % 2 ? count - 1 - i : i;
            run(index, commands[index], &actions);
        }
    return 0;
}
