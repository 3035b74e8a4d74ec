#include "loop/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/close_range.h>
#include <linux/openat2.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/macros.h"

/* The environment of helpers: only system directories in PATH, and output independent of the
 * locale. */
static const char *const helper_environment[] = {
    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C", NULL};

struct execution {
    /* Returns only on failure, with errno. */
    void (*execute)(const struct execution *execution, struct spawn_report *report);
    char *const *argv;
    const struct signal_state *signals;
    const struct spawn_helper_options *helper;
    pid_t parent;
};

static _Noreturn void run_child(const struct execution *execution, int report_fd)
{
    struct spawn_report report = {.step = SPAWN_STEP_EXEC};

    execution->execute(execution, &report);
    report.error = errno;
    while (write(report_fd, &report, sizeof(report)) < 0 && errno == EINTR)
        ;
    _exit(127);
}

bool spawn_read_report(int fd, struct spawn_report *ret)
{
    ssize_t n;

    do
        n = read(fd, ret, sizeof(*ret));
    while (n < 0 && errno == EINTR);
    return n == sizeof(*ret);
}

/* The child writes its report to the pipe if it fails; the exec closes the pipe. */
static int spawn(const struct execution *execution, pid_t *ret_pid, int *ret_report_fd)
{
    int pipe_fds[2];
    if (pipe2(pipe_fds, O_CLOEXEC) < 0)
        return -errno;
    _cleanup_close_ int read_fd = pipe_fds[0];
    _cleanup_close_ int write_fd = pipe_fds[1];

    /* fork, not vfork or posix_spawn: the kernel's ru_maxrss survives exec, and a child that shares
     * our memory is charged with all of it. A forked child is charged only with the pages copied
     * for it, which are fewer than any program needs. */
    pid_t pid = fork();
    if (pid < 0)
        return -errno;
    if (pid == 0)
        run_child(execution, write_fd);
    *ret_pid = pid;
    *ret_report_fd = TAKE_FD(read_fd);
    return 0;
}

static void execute_command(const struct execution *execution, struct spawn_report *report _unused_)
{
    signals_restore(execution->signals);
    execvp(execution->argv[0], execution->argv);
}

int spawn_command(char *const argv[], const struct signal_state *signals, pid_t *ret_pid,
                  int *ret_exec_errno)
{
    const struct execution execution = {
        .execute = execute_command, .argv = argv, .signals = signals};
    struct spawn_report report;
    int report_fd;
    pid_t pid;

    int r = spawn(&execution, &pid, &report_fd);
    if (r < 0)
        return r;
    bool has_failed = spawn_read_report(report_fd, &report);
    close_fd(report_fd);
    if (!has_failed) {
        *ret_pid = pid;
        return 0;
    }
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    *ret_exec_errno = report.error;
    return -ECHILD;
}

/* ---- helpers ---- */

/* Raw system calls: libc's functions would signal other threads, which do not exist after a fork.
 */
static int become_user(const struct spawn_user *user)
{
    if (syscall(SYS_setgroups, 0, NULL) < 0 ||
        syscall(SYS_setresgid, user->gid, user->gid, user->gid) < 0 ||
        syscall(SYS_setresuid, user->uid, user->uid, user->uid) < 0)
        return -errno;
    return 0;
}

/* A raw system call: libc refuses to change its two internal signals, which may be ignored too. */
static void reset_signals(void)
{
    const unsigned long default_action[8] = {0}; /* SIG_DFL, no flags, empty mask */
    sigset_t none;

    for (int number = 1; number < NSIG; number++)
        syscall(SYS_rt_sigaction, number, default_action, NULL, NSIG / 8);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Moves the descriptors to 0, 1 and 2, with /dev/null for a missing one. They are above 2, because
 * main() ensures that sonde's standard descriptors are open. */
static int place_streams(const struct spawn_helper_options *options)
{
    int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);

    if (null_fd < 0 || dup2(null_fd, STDIN_FILENO) < 0 ||
        dup2(options->stdout_fd >= 0 ? options->stdout_fd : null_fd, STDOUT_FILENO) < 0 ||
        dup2(options->stderr_fd >= 0 ? options->stderr_fd : null_fd, STDERR_FILENO) < 0)
        return -errno;
    /* sonde's descriptors are close-on-exec; inherited ones may not be. */
    return syscall(SYS_close_range, STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC) < 0 &&
                   errno != ENOSYS && errno != EINVAL
               ? -errno
               : 0;
}

/* execve() does not change its arguments, but is declared without const. */
static char *const *as_exec_arguments(const char *const *strings)
{
    union {
        const char *const *constant;
        char *const *mutable;
    } list = {.constant = strings};

    return list.mutable;
}

/* Follows no symbolic link in the whole path: another user may have chosen its target. */
static int open_new(const char *path)
{
    const struct open_how how = {.flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
                                 .mode = 0600,
                                 .resolve = RESOLVE_NO_SYMLINKS};
    int fd = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));

    if (fd < 0 && errno == ENOSYS) /* before Linux 5.6 */
        fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    return fd;
}

static void limit_files(const struct spawn_helper_options *options)
{
    const struct rlimit no_core = {0};
    struct rlimit size = {options->file_max_bytes, options->file_max_bytes};

    setrlimit(RLIMIT_CORE, &no_core);
    if (options->file_max_bytes)
        setrlimit(RLIMIT_FSIZE, &size);
}

static void execute_helper(const struct execution *execution, struct spawn_report *report)
{
    const struct spawn_helper_options *options = execution->helper;

    setsid();
    limit_files(options);
    report->step = SPAWN_STEP_OTHER;
    if (chdir("/") < 0 || place_streams(options) < 0)
        return;
    report->step = SPAWN_STEP_USER;
    if (options->user && become_user(options->user) < 0)
        return;
    report->step = SPAWN_STEP_FILE;
    if (options->stdout_path) {
        int fd = open_new(options->stdout_path);
        if (fd < 0 || dup2(fd, STDOUT_FILENO) < 0)
            return;
    }
    report->step = SPAWN_STEP_OTHER;
    reset_signals();
    /* After the change of user, which would reset it. If sonde died before this call, no signal
     * would come. */
    if (prctl(PR_SET_PDEATHSIG, options->death_signal, 0, 0, 0) < 0)
        return;
    if (getppid() != execution->parent) {
        errno = ESRCH;
        return;
    }
    report->step = SPAWN_STEP_EXEC;
    execve(options->argv[0], as_exec_arguments(options->argv),
           as_exec_arguments(helper_environment));
}

int spawn_helper(const struct spawn_helper_options *options, pid_t *ret_pid, int *ret_report_fd)
{
    const struct execution execution = {
        .execute = execute_helper, .helper = options, .parent = getpid()};

    return spawn(&execution, ret_pid, ret_report_fd);
}
