/* Forks COUNT processes that sleep, prints "ready", and ends them when its input ends.
 *
 *   zoo COUNT
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static void sleep_for_ever(void)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;)
        pause();
}

static void end_all(const pid_t *pids, int count)
{
    for (int i = 0; i < count; i++)
        kill(pids[i], SIGKILL);
    for (int i = 0; i < count; i++)
        waitpid(pids[i], NULL, 0);
}

int main(int argc, char **argv)
{
    int count = argc > 1 ? atoi(argv[1]) : 0;
    pid_t *pids = calloc((size_t)count + 1, sizeof(*pids));
    char byte;

    for (int i = 0; pids && i < count; i++) {
        pids[i] = fork();
        if (pids[i] == 0)
            sleep_for_ever();
        if (pids[i] < 0) {
            perror("fork");
            end_all(pids, i);
            return 1;
        }
    }
    puts("ready");
    fflush(stdout);
    while (read(STDIN_FILENO, &byte, 1) > 0)
        ;
    end_all(pids, count);
    return 0;
}
