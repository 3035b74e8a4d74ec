#include "sample/memory-reader.h"

#include <errno.h>
#include <linux/kcmp.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/macros.h"
#include "model/field.h"
#include "probe/proc-file.h"
#include "probe/proc-pss.h"
#include "probe/proc-stat.h"
#include "probe/proc-statm.h"

/* A pause of so many times the duration of a reading follows it. */
#define PAUSE_TIMES 9

/* No file that is read here is larger. */
#define FILE_BYTES 4096

/* What changes when processes begin or cease to use memory. */
struct fingerprint {
    uint64_t processes, faults, resident_pages, shared_pages;
};

static int read_stat(int proc_fd, pid_t pid, struct proc_stat *ret)
{
    char bytes[FILE_BYTES];
    ssize_t length = proc_file_read(proc_fd, pid, "stat", bytes, sizeof(bytes));

    return length < 0 ? (int)length : proc_stat_parse(bytes, (size_t)length, ret);
}

static int read_statm(int proc_fd, pid_t pid, struct proc_statm *ret)
{
    char bytes[FILE_BYTES];
    ssize_t length = proc_file_read(proc_fd, pid, "statm", bytes, sizeof(bytes));

    return length < 0 ? (int)length : proc_statm_parse(bytes, (size_t)length, ret);
}

static int add_fingerprint(int proc_fd, pid_t pid, struct fingerprint *sum)
{
    struct proc_stat stat;
    struct proc_statm statm;

    int r = read_stat(proc_fd, pid, &stat);
    if (r == 0)
        r = read_statm(proc_fd, pid, &statm);
    if (r < 0)
        return r;
    sum->processes++;
    sum->faults += stat.faults;
    sum->resident_pages += statm.resident_pages;
    sum->shared_pages += statm.shared_pages;
    return 0;
}

/* Returns 1 if the process uses the memory of its parent (vfork), 0 if not, or a negative errno. */
static int uses_memory_of_parent(int proc_fd, pid_t pid)
{
    struct proc_stat stat;
    struct proc_statm own, parent;

    int r = read_stat(proc_fd, pid, &stat);
    if (r < 0 || !proc_stat_is_forked(&stat))
        return r;
    r = read_statm(proc_fd, pid, &own);
    if (r < 0)
        return r;
    if (read_statm(proc_fd, stat.ppid, &parent) < 0 || own.size_pages != parent.size_pages ||
        own.resident_pages != parent.resident_pages || own.shared_pages != parent.shared_pages)
        return 0;
    long different = syscall(SYS_kcmp, pid, stat.ppid, KCMP_VM, 0, 0);
    return different < 0 ? -errno : different == 0;
}

/* A zombie has no memory. */
static int add_pss(int proc_fd, pid_t pid, struct proc_pss *sum)
{
    char bytes[FILE_BYTES];
    struct proc_pss pss;

    int r = uses_memory_of_parent(proc_fd, pid);
    if (r != 0)
        return MIN(r, 0);
    ssize_t length = proc_file_read(proc_fd, pid, "smaps_rollup", bytes, sizeof(bytes));
    if (length == 0 || length == -ESRCH)
        return 0;
    r = length < 0 ? (int)length : proc_pss_parse(bytes, (size_t)length, &pss);
    if (r < 0)
        return r;
    sum->total_bytes += pss.total_bytes;
    sum->anon_bytes += pss.anon_bytes;
    return 0;
}

static int read_all(const struct measured_run *run, struct fingerprint *fingerprint,
                    struct proc_pss *pss)
{
    const struct member *member = NULL;
    int r = 0;

    while (r == 0 && (member = registry_next(run->registry, member)))
        if (!member->has_ended && run_node_is_within(member->node, run->node))
            r = fingerprint ? add_fingerprint(run->proc_fd, member->pid, fingerprint)
                            : add_pss(run->proc_fd, member->pid, pss);
    return r;
}

/* The processes are read one after the other. If one of them changes its memory meanwhile, the
 * parts do not belong together. */
static bool read_while_still(const struct measured_run *run, struct proc_pss *ret)
{
    struct fingerprint before = {0}, after = {0};

    return read_all(run, &before, NULL) == 0 && read_all(run, NULL, ret) == 0 &&
           read_all(run, &after, NULL) == 0 && memcmp(&before, &after, sizeof(before)) == 0;
}

void memory_reader_measure(struct memory_reader *reader, const struct measured_run *run,
                           struct ledger *ledger)
{
    struct proc_pss sum = {0};
    uint64_t before_ns = clock_mono_ns(), growth;

    /* Without a page fault since, there is no more memory than was measured. */
    if (!ledger_may_have_peak(ledger, run->node, &growth) || growth == reader->growth)
        return;
    bool is_measured = before_ns >= reader->next_ns && read_while_still(run, &sum);
    if (before_ns >= reader->next_ns) {
        uint64_t after_ns = clock_mono_ns();
        reader->next_ns = after_ns + PAUSE_TIMES * (after_ns - before_ns);
    }
    if (is_measured)
        reader->growth = growth;
    ledger_measured(ledger, run->node,
                    is_measured ? &(struct measured_memory){.total_bytes = sum.total_bytes,
                                                            .anon_bytes = sum.anon_bytes}
                                : NULL);
}
