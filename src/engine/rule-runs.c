#include "engine/rule-runs.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/uuid.h"
#include "probe/process-facts.h"

/* Younger processes are not matched: their parent may be about to register them as a job. */
#define RULE_MIN_AGE_NS (200 * NS_PER_MSEC)

void rule_runs_init(struct rule_runs *runs, struct registry *registry, int proc_fd)
{
    *runs = (struct rule_runs){.registry = registry,
                               .proc_fd = proc_fd,
                               .ns_per_tick = NS_PER_SEC / (uint64_t)sysconf(_SC_CLK_TCK),
                               .watch = {.proc_fd = proc_fd}};
}

void rule_runs_done(struct rule_runs *runs)
{
    rule_watch_done(&runs->watch);
}

void rule_runs_begin(struct rule_runs *runs)
{
    runs->scan_boot_ns = clock_boot_ns();
    rule_watch_begin(&runs->watch);
}

void rule_runs_scanned(struct rule_runs *runs)
{
    rule_watch_end(&runs->watch);
}

/* ---- excluded processes ---- */

/* Whether the process is sonde itself, to which no rule applies. A `sonde run` of another version
 * is recognised by the run that it registered. */
static bool is_sonde(const struct rule_runs *runs, pid_t pid)
{
    struct stat own, other;
    char path[32];

    snprintf(path, sizeof(path), "%d/exe", (int)pid);
    return registry_is_foster(runs->registry, pid) ||
           (fstatat(runs->proc_fd, "self/exe", &own, 0) == 0 &&
            fstatat(runs->proc_fd, path, &other, 0) == 0 && own.st_ino == other.st_ino &&
            own.st_dev == other.st_dev);
}

/* ---- runs ---- */

/* Finds the running run of a job by a rule. Its name has a number if a registered run had the same
 * name. */
static struct run *find_run(const struct rule_runs *runs, const char *job_id, int64_t uid)
{
    char name[JOB_ID_NUMBERED_MAX_BYTES];
    struct run *run;

    snprintf(name, sizeof(name), "%s", job_id);
    for (unsigned number = 2; (run = registry_find_job(runs->registry, name, uid)); number++) {
        if (run->origin == RUN_BY_RULE && run->uid == uid)
            return run;
        snprintf(name, sizeof(name), "%s-%u", job_id, number);
    }
    return NULL;
}

static int begin_run(struct rule_runs *runs, const char *job_id, int64_t uid, struct run **ret)
{
    char run_id[UUID_TEXT_SIZE], name[JOB_ID_NUMBERED_MAX_BYTES];
    const struct run_options options = {
        .run_id = run_id, .job_id = name, .uid = uid, .origin = RUN_BY_RULE};

    if (!registry_has_room(runs->registry, uid))
        return -EDQUOT; /* its processes stay without a job */
    registry_find_free_name(runs->registry, job_id, uid, false, name);
    int r = uuid_make(clock_real_ns(), run_id);
    return r < 0 ? r : registry_add_run(runs->registry, &options, ret);
}

int rule_runs_find(struct rule_runs *runs, pid_t pid, uint64_t start_ticks, struct arena *arena,
                   struct rule_match *ret)
{
    const struct fact_request request = {.facts = FACT_COMMAND | FACT_CWD};
    char job_id[JOB_ID_MAX_BYTES + 1];
    struct rule_match found = {0};
    struct process_facts more;

    if (runs->scan_boot_ns < start_ticks * runs->ns_per_tick + RULE_MIN_AGE_NS)
        return 0;
    int r = rule_watch_match(&runs->watch, pid, start_ticks, arena, &found.facts, job_id);
    if (r <= 0 || is_sonde(runs, pid))
        return MIN(r, 0);
    found.run = find_run(runs, job_id, found.facts.uid);
    found.is_new = !found.run;
    if (found.is_new) {
        r = begin_run(runs, job_id, found.facts.uid, &found.run);
        if (r < 0)
            return r;
        if (process_facts_read(runs->proc_fd, pid, &request, arena, &more) == 0) {
            found.facts.command = more.command;
            found.facts.cwd = more.cwd;
        }
    }
    *ret = found;
    return 1;
}

/* ---- ends ---- */

/* A reported end is exact. If the last process vanished without a report, `now_ns` is the best
 * known time of its end. */
static uint64_t end_of_last_process(const struct run *run, uint64_t now_ns)
{
    return run->last_end_ns > run->lived_ns ? MIN(run->last_end_ns, now_ns) : now_ns;
}

void rule_runs_end(struct rule_runs *runs, uint64_t now_ns,
                   void (*on_over)(void *context, struct run *run), void *context)
{
    for (struct run *run = registry_next_run(runs->registry, NULL), *next; run; run = next) {
        next = registry_next_run(runs->registry, run);
        if (run->origin != RUN_BY_RULE)
            continue;
        if (run->living) {
            run->empty_since_ns = 0;
            run->lived_ns = now_ns;
        } else if (!run->empty_since_ns) {
            run->empty_since_ns = end_of_last_process(run, now_ns);
        } else if (now_ns - run->empty_since_ns >= runs->linger_ns) {
            on_over(context, run);
        }
    }
}
