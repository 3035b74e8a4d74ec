#include "lib/target.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/macros.h"
#include "base/map.h"
#include "base/vec.h"
#include "config/paths.h"
#include "model/field.h"
#include "probe/last-pid.h"
#include "probe/process-children.h"
#include "probe/process-files.h"
#include "sample/ledger.h"

/* The library keeps at most a quarter of the program's descriptors open, and at most BUDGET_MAX. A
 * process needs four. */
#define BUDGET_SHARE 4
#define BUDGET_MAX   4096

/* The peak RSS of a process is read again after this much CPU time. Reading it costs as much as
 * everything else. The kernel keeps the peak until the process ends, and in this much CPU time it
 * can grow only by a fraction of what is possible between two samples. */
#define PEAK_CPU_NS (10 * NS_PER_MSEC)

/* A process that has used no CPU time has neither grown nor forked, but may have got orphans as
 * children: it is read completely once in this many readings. */
#define IDLE_READINGS 16
/* For a process without children, the expensive values (state, threads, time of reaped children)
 * are read once in this many readings; while no process is created in this pid namespace, as rarely
 * as for an idle process. */
#define LEAF_READINGS 4
/* A new process has a pid before it is listed as a child, for at most this many readings and this
 * time. */
#define BIRTH_READINGS 2
#define BIRTH_NS       (20 * NS_PER_MSEC)

/* A process of the target. */
struct watched {
    struct process_files *files;
    struct process_reading reading; /* the last one */
    uint64_t arg_start;             /* changes with every exec */
    int children_fd;                /* -1: not kept */
    unsigned brief_readings;        /* since the last complete one */
    bool may_have_forked;           /* since then */
    bool has_children;
    bool was_there_before; /* the first reading */
    bool is_read;          /* `reading` is valid */
    bool lives;
    int64_t peak_bytes; /* peak RSS when it was last read */
    int64_t peak_cpu_ns;
};

struct target {
    pid_t own_pid;
    bool with_descendants;
    int root_fd;
    struct proc_tree tree;
    struct VEC(struct watched *) watched; /* the process first, parents before their children */
    struct map by_pid;
    struct ledger *ledger;
    struct run run; /* for the ledger */
    bool is_first_reading;
    int last_pid_fd;         /* negative: not available */
    pid_t last_pid;          /* at the last reading */
    uint64_t birth_ns;       /* when it was last seen to have changed */
    unsigned quiet_readings; /* readings since then */
    bool has_births;         /* children may exist that were not listed at the last reading */
};

/* ---- watched processes ---- */

static void watched_free(struct target *target, struct watched *it)
{
    if (it->children_fd >= 0) {
        close_fd(it->children_fd);
        target->tree.kept--;
    }
    process_files_free(&target->tree, it->files);
    free(it);
}

static int add_watched(struct target *target, pid_t pid)
{
    struct watched *it = calloc(1, sizeof(*it));
    if (!it)
        return -ENOMEM;
    *it = (struct watched){
        .files = process_files_new(pid),
        .children_fd = -1,
        .was_there_before = target->is_first_reading,
        .peak_bytes = INT_UNKNOWN,
        .peak_cpu_ns = INT_UNKNOWN,
    };
    int r = it->files ? VEC_RESERVE(&target->watched, target->watched.count + 1) : -ENOMEM;
    if (r == 0)
        r = map_put(&target->by_pid, (uint64_t)pid, it);
    if (r < 0) {
        watched_free(target, it);
        return r;
    }
    target->watched.items[target->watched.count++] = it;
    target->run.node.processes++;
    return 0;
}

struct search {
    struct target *target;
    bool has_found;
};

/* Adds a child that is new. Without memory, the next reading finds it again. */
static int add_child(void *context, pid_t pid)
{
    struct search *search = context;

    search->has_found = true;
    if (!map_get(&search->target->by_pid, (uint64_t)pid))
        add_watched(search->target, pid);
    return 0;
}

static int find_children(struct target *target, struct watched *it)
{
    struct search search = {.target = target};
    int64_t threads = it->reading.threads;

    if (it->children_fd < 0 && threads <= 1 && target->tree.kept < target->tree.budget) {
        it->children_fd = process_children_open(target->root_fd, it->files->pid);
        if (it->children_fd >= 0)
            target->tree.kept++;
        else if (it->children_fd != -EMFILE && it->children_fd != -ENFILE)
            return it->children_fd;
    }
    int r = process_children_read(target->root_fd, it->files->pid, threads, it->children_fd,
                                  add_child, &search);
    it->has_children = search.has_found;
    return r;
}

/* ---- new processes ---- */

/* Sets has_births from the last pid that the kernel assigned; if that is not available, new
 * processes are always possible. */
static void check_births(struct target *target, uint64_t now_ns)
{
    pid_t last_pid;

    if (target->last_pid_fd < 0 || last_pid_read(target->last_pid_fd, &last_pid) < 0)
        last_pid = 0;
    if (last_pid && last_pid == target->last_pid) {
        target->quiet_readings++;
    } else {
        target->quiet_readings = 0;
        target->birth_ns = now_ns;
    }
    target->last_pid = last_pid;
    target->has_births =
        target->quiet_readings < BIRTH_READINGS || now_ns - target->birth_ns < BIRTH_NS;
}

/* ---- one process ---- */

static bool is_zombie(const struct proc_stat *stat)
{
    return stat->state == 'Z' && stat->threads <= 1;
}

static bool peak_is_due(const struct watched *it, const struct process_reading *reading,
                        bool thorough)
{
    return thorough || !int_is_known(it->peak_cpu_ns) ||
           reading->cpu_ns - it->peak_cpu_ns >= (int64_t)PEAK_CPU_NS;
}

/* Returns the peak RSS if it was reached since it was last read: if it has risen, or if the program
 * is new. The first peak of a process that existed before the monitor does not count. */
static int64_t risen_peak(struct watched *it, const struct process_reading *reading,
                          bool is_new_image)
{
    int64_t before = it->peak_bytes, now = reading->peak_rss_bytes;

    if (!int_is_known(now))
        return INT_UNKNOWN;
    it->peak_bytes = now;
    it->peak_cpu_ns = reading->cpu_ns;
    if (is_new_image)
        return now;
    if (!int_is_known(before))
        return it->was_there_before ? INT_UNKNOWN : now;
    return now > before ? now : INT_UNKNOWN;
}

/* Stores a reading as the last one; values that it does not have stay as they were. */
static void store_reading(struct watched *it, const struct process_reading *reading)
{
    const struct process_reading before = it->reading;

    it->reading = *reading;
    it->lives = true;
    if (!it->is_read)
        return;
    /* process_files_read_cpu() does not set these. */
    if (!reading->state) {
        it->reading.ppid = before.ppid;
        it->reading.state = before.state;
        it->reading.threads = before.threads;
        it->reading.user_ns = before.user_ns;
        it->reading.system_ns = before.system_ns;
        it->reading.reaped_user_ns = before.reaped_user_ns;
        it->reading.reaped_system_ns = before.reaped_system_ns;
    }
    if (!int_is_known(reading->peak_rss_bytes))
        it->reading.ignores_sigchld = before.ignores_sigchld;
}

/* Whether CPU clock and memory are enough this time: for this process itself, for an idle process
 * (the kernel may still have reclaimed its memory), and mostly for one without children. A file
 * that is not kept open may belong to another process by now. */
static bool is_brief_reading_enough(const struct target *target, struct watched *it, bool is_idle)
{
    if (!target->with_descendants && it->files->pid == target->own_pid)
        return true;
    if (it->files->fds[FILE_STATM] < 0)
        return false;
    if (is_idle)
        return ++it->brief_readings < IDLE_READINGS;
    return !it->has_children && it->reading.threads <= 1 &&
           ++it->brief_readings < (it->may_have_forked ? LEAF_READINGS : IDLE_READINGS);
}

/* Reads the cheap values of a process. Returns 1, 0 if a complete reading is needed, or a negative
 * errno. */
static int read_briefly(struct target *target, struct watched *it, bool thorough,
                        int64_t *ret_risen)
{
    struct process_reading reading;

    if (!it->is_read || !it->lives ||
        process_files_read_cpu(&target->tree, it->files, &reading) < 0)
        return 0;
    it->may_have_forked |= target->has_births;
    bool is_idle = reading.cpu_ns == it->reading.cpu_ns;
    bool is_alone = !target->with_descendants;
    if ((thorough && !is_alone) || !is_brief_reading_enough(target, it, is_idle))
        return 0;

    bool with_peak = thorough || (!is_idle && peak_is_due(it, &reading, false));
    process_files_memory(&target->tree, it->files, NULL, with_peak, &reading);
    if (!int_is_known(reading.rss_bytes))
        return 0;
    *ret_risen = risen_peak(it, &reading, false);
    store_reading(it, &reading);
    int r = !is_alone && !is_idle && target->has_births ? find_children(target, it) : 0;
    return r < 0 ? r : 1;
}

/* Whether the error fails the whole reading: a kernel that does not list children never will, and
 * at the start the caller must learn that there are no free descriptors. Later, some will be free
 * again. */
static bool is_fatal(const struct target *target, int r)
{
    return r == -EOPNOTSUPP || (target->is_first_reading && (r == -EMFILE || r == -ENFILE));
}

/* Reads all values of a process. Returns 0, -ESRCH (the process is gone) or another negative errno.
 */
static int read_closely(struct target *target, struct watched *it, bool thorough,
                        int64_t *ret_risen)
{
    struct process_reading reading;
    struct proc_stat stat;

    int r = process_files_begin(&target->tree, it->files, &stat, &reading);
    if (r < 0)
        return r == -EAGAIN ? -ESRCH : r;
    /* The address is 0 if this user may not see it. */
    bool is_new_image = it->arg_start && stat.arg_start && it->arg_start != stat.arg_start;
    if (stat.arg_start)
        it->arg_start = stat.arg_start;
    it->brief_readings = 0;
    it->may_have_forked = false;
    *ret_risen = INT_UNKNOWN;
    if (!is_zombie(&stat)) {
        bool with_peak = is_new_image || peak_is_due(it, &reading, thorough);
        r = process_files_memory(&target->tree, it->files, &stat, with_peak, &reading);
        if (is_fatal(target, r))
            return r;
        *ret_risen = risen_peak(it, &reading, is_new_image);
    }
    store_reading(it, &reading);
    it->is_read = true;
    it->lives = !is_zombie(&stat);
    return target->with_descendants ? find_children(target, it) : 0;
}

static int read_process(struct target *target, struct watched *it, bool thorough,
                        int64_t *ret_risen)
{
    int r = read_briefly(target, it, thorough, ret_risen);
    if (r == 0)
        r = read_closely(target, it, thorough, ret_risen);
    /* Without a free descriptor or memory, it keeps its last reading. */
    if (r < 0 && r != -ESRCH && !is_fatal(target, r) && it->is_read)
        return 0;
    return MIN(r, 0);
}

/* ---- all processes ---- */

/* Has the children of a parent that is gone read completely at the next reading: they have a new
 * parent, which will get their time. */
static void expedite_orphans(struct target *target, pid_t parent)
{
    for (size_t i = 0; i < target->watched.count; i++)
        if (target->watched.items[i]->reading.ppid == parent)
            target->watched.items[i]->brief_readings = IDLE_READINGS;
}

static void drop_gone(struct target *target)
{
    size_t kept = 0;

    for (size_t i = 0; i < target->watched.count; i++)
        if (!target->watched.items[i]->is_read)
            expedite_orphans(target, target->watched.items[i]->files->pid);
    for (size_t i = 0; i < target->watched.count; i++) {
        struct watched *it = target->watched.items[i];
        if (it->is_read) {
            target->watched.items[kept++] = it;
            continue;
        }
        map_remove(&target->by_pid, (uint64_t)it->files->pid);
        watched_free(target, it);
    }
    target->watched.count = kept;
}

/* Reads all processes, including the children that it finds on the way. */
static int read_all(struct target *target, bool thorough, struct target_reading *reading)
{
    for (size_t i = 0; i < target->watched.count; i++) {
        struct watched *it = target->watched.items[i];
        int64_t risen = INT_UNKNOWN;

        int r = read_process(target, it, thorough, &risen);
        if (r == -ESRCH) {
            it->is_read = it->lives = false;
            continue;
        }
        if (r < 0 && (i == 0 || is_fatal(target, r)))
            return r;
        if (r < 0)
            continue; /* it was never read, and cannot be */
        reading->risen_bytes = MAX(reading->risen_bytes, risen);
        if (target->with_descendants) {
            r = ledger_observe(target->ledger, &target->run.node, &it->reading);
            if (r < 0)
                return r;
        }
    }
    return 0;
}

static bool has_living(const struct target *target)
{
    for (size_t i = 0; i < target->watched.count; i++)
        if (target->watched.items[i]->lives)
            return true;
    return false;
}

static void fill_reading(const struct target *target, bool is_alive, struct target_reading *reading)
{
    const struct watched *first = target->watched.count ? target->watched.items[0] : NULL;

    if (!target->with_descendants) {
        reading->cpu_ns = first && first->is_read ? first->reading.cpu_ns : INT_UNKNOWN;
        reading->rss_bytes = is_alive ? first->reading.rss_bytes : INT_UNKNOWN;
        reading->mono_ns = first && first->is_read ? first->reading.mono_ns : reading->mono_ns;
        return;
    }
    /* Reading many processes takes a while: use the middle of that time. */
    reading->mono_ns += (clock_mono_ns() - reading->mono_ns) / 2;
    const struct run_usage *usage = ledger_find(target->ledger, &target->run.node);
    if (!usage)
        return;
    reading->cpu_ns = (int64_t)usage->largest.total_ns;
    if (is_alive && usage->rss_bytes > 0) /* 0: no memory could be read */
        reading->rss_bytes = usage->rss_bytes;
}

int target_read(struct target *target, bool thorough, struct target_reading *ret)
{
    struct target_reading reading = {.mono_ns = clock_mono_ns(),
                                     .cpu_ns = INT_UNKNOWN,
                                     .rss_bytes = INT_UNKNOWN,
                                     .risen_bytes = INT_UNKNOWN};

    ledger_begin(target->ledger, NULL);
    check_births(target, reading.mono_ns);
    int r = read_all(target, thorough, &reading);
    if (r < 0)
        return r;
    ledger_end(target->ledger);
    target->is_first_reading = false;
    bool is_alive = has_living(target);
    fill_reading(target, is_alive, &reading);
    drop_gone(target);
    *ret = reading;
    return is_alive ? 0 : -ESRCH;
}

int target_reset_peak(struct target *target)
{
    for (size_t i = 0; i < target->watched.count; i++) {
        struct watched *it = target->watched.items[i];
        int r = process_files_reset_peak(&target->tree, it->files);
        if (r < 0 && r != -ESRCH)
            return r;
        /* Every peak from now on was reached after the reset. */
        it->peak_bytes = it->peak_cpu_ns = INT_UNKNOWN;
        it->was_there_before = false;
    }
    return 0;
}

/* ---- new and free ---- */

static unsigned descriptor_budget(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return 0;
    return (unsigned)MIN(limit.rlim_cur / BUDGET_SHARE, (rlim_t)BUDGET_MAX);
}

int target_new(pid_t pid, bool with_descendants, struct target **ret)
{
    _cleanup_(target_freep) struct target *target = calloc(1, sizeof(*target));
    if (!target)
        return -ENOMEM;

    target->root_fd = target->last_pid_fd = -1;
    target->own_pid = getpid();
    target->with_descendants = with_descendants;
    target->is_first_reading = true;
    target->run.node.run = &target->run;
    int r = ledger_new(-1, &target->ledger); /* the library reaps no process */
    if (r < 0)
        return r;
    target->root_fd = open(PROC_ROOT, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (target->root_fd < 0)
        return errno == ENOENT ? -EXDEV : -errno;
    proc_tree_init(&target->tree, target->root_fd, descriptor_budget());
    if (!target->tree.is_live)
        return -EXDEV;
    if (with_descendants)
        target->last_pid_fd = last_pid_open(target->root_fd);
    r = add_watched(target, pid);
    if (r < 0)
        return r;
    *ret = TAKE_PTR(target);
    return 0;
}

void target_free(struct target *target)
{
    if (!target)
        return;
    for (size_t i = 0; i < target->watched.count; i++)
        watched_free(target, target->watched.items[i]);
    VEC_DONE(&target->watched);
    map_done(&target->by_pid);
    ledger_free(target->ledger);
    if (target->last_pid_fd >= 0)
        close_fd(target->last_pid_fd);
    close_fd(target->root_fd);
    free(target);
}

void target_freep(struct target **target)
{
    target_free(*target);
}
