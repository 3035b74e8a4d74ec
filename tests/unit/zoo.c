#include "zoo.h"

#include "unit.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/macros.h"

int ready_fd;

void wait_for_ever(void)
{
    for (;;)
        pause();
}

static void *sleep_in_thread(void *argument _unused_)
{
    wait_for_ever();
    return NULL;
}

void do_nothing(void)
{
}

void have_threads(void)
{
    pthread_t thread;

    for (int i = 0; i < 7; i++)
        pthread_create(&thread, NULL, sleep_in_thread, NULL);
}

void open_files(void)
{
    for (int i = 0; i < 700; i++)
        open("/dev/null", O_RDONLY | O_CLOEXEC);
}

void lower_fd_limit(void)
{
    setrlimit(RLIMIT_NOFILE, &(struct rlimit){.rlim_cur = 64, .rlim_max = 128});
}

void touch_memory(void)
{
    char *memory = mmap(NULL, 48 * MB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(memory, 1, 48 * MB);
    munmap(memory, 24 * MB); /* the high-water mark stays */
    char *shared = mmap(NULL, 8 * MB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    memset(shared, 1, 8 * MB);
}

static void write_file(void)
{
    char path[] = "/tmp/sonde-kernel-XXXXXX", block[4096] = {1};
    int fd = mkstemp(path);

    unlink(path);
    for (int i = 0; i < 300; i++)
        write(fd, block, sizeof(block));
    fsync(fd);
}

void spin(void)
{
    struct timespec now;

    do
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    while (now.tv_nsec < 60000000);
}

static void reap_children(void)
{
    for (int i = 0; i < 20; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            spin();
            _exit(0);
        }
        waitpid(pid, NULL, 0);
    }
}

void leave_zombie(void)
{
    siginfo_t info;
    pid_t pid = fork();

    if (pid == 0) {
        prctl(PR_SET_NAME, "deceased");
        _exit(3);
    }
    waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT); /* until it is a zombie */
}

static void become_other_user(void)
{
    if (getuid() == 0)
        setresuid(4242, 4242, 4242);
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* a change of user resets this */
}

static void rename_itself(void)
{
    prctl(PR_SET_NAME, ") Z 1 \n(");
}

static void ignore_children(void)
{
    signal(SIGCHLD, SIG_IGN);
}

static void *go_on_without_leader(void *argument _unused_)
{
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    write(ready_fd, "r", 1);
    wait_for_ever();
    return NULL;
}

void end_leader(void)
{
    pthread_t thread;

    pthread_create(&thread, NULL, go_on_without_leader, NULL);
    pthread_exit(NULL);
}

const habit_fn habits[HABIT_COUNT] = {
    do_nothing,      have_threads, open_files,        lower_fd_limit, touch_memory,
    write_file,      spin,         reap_children,     leave_zombie,   rename_itself,
    ignore_children, end_leader,   become_other_user,
};

struct animal animal_start(habit_fn habit)
{
    int ready[2];
    char byte;

    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    struct animal animal = {.pid = fork()};
    if (animal.pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(ready[0]);
        ready_fd = ready[1];
        habit();
        write(ready[1], "r", 1);
        wait_for_ever();
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    return animal;
}

void animal_end(const struct animal *animal)
{
    kill(animal->pid, SIGKILL);
    waitpid(animal->pid, NULL, 0);
}

/* The state letter of a thread; 0: it has ended. */
static char state_of_thread(pid_t pid, const char *tid)
{
    char path[300], stat[512] = "";

    snprintf(path, sizeof(path), "/proc/%d/task/%s/stat", (int)pid, tid);
    FILE *file = fopen(path, "r");
    if (!file)
        return 0;
    fread(stat, 1, sizeof(stat) - 1, file);
    fclose(file);
    const char *end_of_name = strrchr(stat, ')');
    return end_of_name ? end_of_name[2] : 0;
}

static bool is_asleep(pid_t pid)
{
    char path[64];
    bool is_quiet = true;

    snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    DIR *threads = opendir(path);
    assert_non_null(threads);
    for (struct dirent *entry; (entry = readdir(threads));) {
        char state = entry->d_name[0] == '.' ? 'S' : state_of_thread(pid, entry->d_name);
        is_quiet &= state == 'S' || state == 'Z';
    }
    closedir(threads);
    return is_quiet;
}

void await_sleep(pid_t pid)
{
    while (!is_asleep(pid))
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}
