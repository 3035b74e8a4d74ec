/* A database with many finished runs, written through the store's own interface.
 *
 *     many-runs DATABASE RUNS SECONDS
 *
 * The runs ended within the last SECONDS and belong to fifty types and two users. They have every
 * figure that a run under a daemon has, including a dozen system calls; one in ten has an anomaly.
 * One in ten fails, but four of five of those with a peak of 1 GB or more. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/macros.h"
#include "base/uuid.h"
#include "model/process.h"
#include "store/store.h"

#define TYPES 50

static double chance(void)
{
    return drand48();
}

static void fill_profile(struct job *job, struct tally *calls, size_t call_count)
{
    struct job_profile *profile = &job->profile;
    double memory_mb = chance() < 0.1 ? 1024 + 3000 * chance() : 10 + 900 * chance();

    *profile = (struct job_profile){
        .peak_rss_mb = memory_mb,
        .cpu_seconds = 100 * chance(),
        .processes = lrand48() % 1000,
        .unique_pid_count = lrand48() % 1000,
        .peak_total_mb = 1.4 * memory_mb,
        .peak_unique_mb = 1.2 * memory_mb,
        .wall_seconds = job->ended_at - job->started_at,
        .user_seconds = 80 * chance(),
        .system_seconds = 20 * chance(),
        .read_bytes = lrand48(),
        .write_bytes = lrand48(),
        .max_cpu_pct = 400 * chance(),
        .exit_count = lrand48() % 1000,
        .failed_exit_count = lrand48() % 10,
        .signal_count = 0,
        .kill_count = 0,
        .oom_count = 0,
        .zombie_count = 0,
        .left_running_count = 0,
        .num_samples = lrand48() % 1000,
        .gap_seconds = 0,
        .collector = "bpf",
        .syscall_source = SYSCALLS_BPF,
        .syscall_hotspots = {calls, call_count},
        .exactness = {EXACT, EXACT, EXACT, EXACT, SAMPLED, SAMPLED, EXACT},
    };
    bool has_failed = chance() < (memory_mb >= 1024 ? 0.8 : 0.1);
    job->outcome = has_failed ? OUTCOME_FAILURE : OUTCOME_SUCCESS;
    job->exit_code = has_failed;
    job->cause = has_failed ? "exit status 1" : NULL;
}

static int put_anomaly(struct store *store, const struct job *job)
{
    static const char *const types[] = {"memory_spike", "runaway_process", "zombie", "memory_leak"};
    struct anomaly anomaly;

    record_init(&anomaly_record, &anomaly);
    anomaly.timestamp = job->started_at + 1;
    anomaly.anomaly_type = types[lrand48() % (int)ARRAY_SIZE(types)];
    anomaly.run_id = job->run_id;
    anomaly.job_id = job->job_id;
    anomaly.description = "something was noticed about one of its processes";
    anomaly.severity = SEVERITY_HIGH;
    anomaly.cleared_at = job->ended_at;
    anomaly.uid = job->uid;
    return store_write_tick(store, &(struct tick){.anomalies = {&anomaly, 1}});
}

static int put_run(struct store *store, double ended_at)
{
    static const char *const names[] = {"read",  "write",  "openat", "mmap",  "futex", "wait4",
                                        "fstat", "clone3", "execve", "close", "lseek", "munmap"};
    struct tally calls[ARRAY_SIZE(names)];
    char run_id[UUID_TEXT_SIZE], stored_id[JOB_ID_NUMBERED_MAX_BYTES], type[64], job_id[64];
    long number = lrand48() % TYPES;
    struct job job;

    record_init(&job_record, &job);
    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        calls[i] = (struct tally){names[i], 100 * chance() * chance() / (double)(i + 1)};
    uuid_make(clock_real_ns(), run_id);
    snprintf(type, sizeof(type), "make part-%ld @workspace", number);
    snprintf(job_id, sizeof(job_id), "part-%ld", number);
    job.run_id = run_id;
    job.job_id = job_id;
    job.job_type = type;
    job.command = "/usr/bin/make -j8 --output-sync VERBOSE=1 CFLAGS=-O2 all check";
    job.cwd = "/home/user/projects/workspace";
    job.uid = 1000 + lrand48() % 2;
    job.host = "build-machine-17";
    job.ended_at = ended_at;
    job.started_at = ended_at - 4000 * chance() * chance() * chance();
    int r = store_begin_job(store, &job, stored_id);
    if (r < 0)
        return r;
    fill_profile(&job, calls, ARRAY_SIZE(names));
    r = store_finish_job(store, &job);
    return r == 0 && chance() < 0.1 ? put_anomaly(store, &job) : r;
}

int main(int argc, char **argv)
{
    struct store_options options = {
        .host = "build-machine-17",
        .boot_id = "bench",
        .collector = "bpf",
        .interval_seconds = 5,
        .is_long_lived = true,
        .retention = {24, 7, 30, 365},
    };
    struct store_error error = {""};
    struct store *store;

    if (argc != 4) {
        fprintf(stderr, "usage: %s DATABASE RUNS SECONDS\n", argv[0]);
        return 2;
    }
    long runs = atol(argv[2]);
    double now = ns_to_sec(clock_real_ns()), seconds = atof(argv[3]);
    options.path = argv[1];
    int r = store_open(&options, &store, &error);
    if (r < 0) {
        fprintf(stderr, "%s: %s\n", argv[0], error.text);
        return 1;
    }
    for (long i = 0; i < runs && r == 0; i++)
        r = put_run(store, now - seconds * (double)(runs - i) / (double)(runs + 1));
    if (r < 0)
        fprintf(stderr, "%s: %s\n", argv[0], store_error(store));
    return store_close(store) < 0 || r < 0;
}
