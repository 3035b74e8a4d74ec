#include "model/process.h"

#include <string.h>

#include "base/macros.h"
#include "base/utf8.h"

const char *const syscall_source_names[SYSCALL_SOURCE_COUNT] = {
    [SYSCALLS_UNKNOWN] = NULL,
    [SYSCALLS_SAMPLED] = "sampled",
    [SYSCALLS_BPF] = "bpf",
    [SYSCALLS_STRACE] = "strace",
};

/* The kernel counts memory in pages. */
#define PAGE_MB (4096.0 / BYTES_PER_MB)

#define FIELD(member, type, ...) FIELD_OF(struct process_metric, member, type, __VA_ARGS__)

static const struct field process_metric_fields[] = {
    FIELD(pid, FIELD_INT, .required = true, .cost = COST_CORE, .origin = "stat", .title = "PID",
          .width = 7, .meaning = "process id, in sonde's own pid namespace"),
    FIELD(ppid, FIELD_INT, .cost = COST_CORE, .origin = "stat", .title = "PPID", .width = 7,
          .meaning = "parent's process id"),
    FIELD(command, FIELD_TEXT, .holds_command = true, .cost = COST_ONCE, .origin = "cmdline",
          .title = "COMMAND", .width = 40,
          .meaning = "command line, truncated at 500 bytes; [name] if there is none"),
    FIELD(state, FIELD_CHAR, .cost = COST_CORE, .origin = "stat", .title = "S", .width = 1,
          .meaning = "R running, S sleeping, D uninterruptible wait, Z zombie, T stopped, …"),
    FIELD(cpu_percent, FIELD_REAL, .rollup = ROLLUP_MEAN, .unit = UNIT_PERCENT, .cost = COST_CORE,
          .origin = "CPU clock", .resolution = 0.01, .title = "CPU%", .width = 6,
          .meaning = "CPU use over the last interval, or since the start of a process that started "
                     "within it"),
    FIELD(rss_mb, FIELD_REAL, .rollup = ROLLUP_MEAN, .unit = UNIT_MB, .cost = COST_CORE,
          .origin = "statm", .resolution = PAGE_MB, .title = "RSS", .width = 9,
          .meaning = "memory in RAM"),
    FIELD(vms_mb, FIELD_REAL, .rollup = ROLLUP_MEAN, .unit = UNIT_MB, .cost = COST_CORE,
          .origin = "stat", .resolution = PAGE_MB, .title = "VIRT", .width = 10,
          .meaning = "address space"),
    FIELD(threads, FIELD_INT, .rollup = ROLLUP_MEAN, .unit = UNIT_COUNT, .cost = COST_CORE,
          .origin = "stat", .title = "THR", .width = 4, .meaning = "threads"),
    FIELD(open_fds, FIELD_INT, .rollup = ROLLUP_MEAN, .unit = UNIT_COUNT, .cost = COST_CORE,
          .origin = "fd", .title = "FDS", .width = 5, .meaning = "open file descriptors"),
    FIELD(age_seconds, FIELD_REAL, .unit = UNIT_SECONDS, .cost = COST_CORE, .origin = "stat",
          .resolution = 0.01, .title = "AGE", .width = 9, .meaning = "time since it started"),
    FIELD(job_id, FIELD_TEXT, .origin = "jobs", .title = "JOB", .width = 16,
          .meaning = "job of the process"),
    FIELD(sheet_num, FIELD_INT, .origin = "jobs", .title = "STEP", .width = 5,
          .meaning = "step of the job"),
    FIELD(syscall_counts, FIELD_TALLY, .unit = UNIT_COUNT, .cost = COST_TRACED, .origin = "kernel",
          .meaning = "number of system calls by name, if they are counted"),
    FIELD(syscall_time_pct, FIELD_TALLY, .unit = UNIT_PERCENT, .cost = COST_TRACED,
          .origin = "kernel", .resolution = 0.01,
          .meaning = "shares of the wall time in system calls, by name"),
    FIELD(run_id, FIELD_TEXT, .origin = "jobs", .meaning = "run of the job (UUIDv7)"),
    FIELD(start_time, FIELD_REAL, .unit = UNIT_EPOCH, .cost = COST_CORE, .origin = "stat",
          .resolution = 0.01, .meaning = "start time"),
    FIELD(uid, FIELD_INT, .cost = COST_ONCE, .origin = "status", .title = "UID", .width = 6,
          .meaning = "real user id"),
    FIELD(cpu_seconds, FIELD_REAL, .unit = UNIT_SECONDS, .cost = COST_CORE, .origin = "CPU clock",
          .resolution = 0.001, .title = "TIME", .width = 10,
          .meaning = "CPU time of all threads, including ended ones"),
    FIELD(shared_mb, FIELD_REAL, .rollup = ROLLUP_MEAN, .unit = UNIT_MB, .cost = COST_CORE,
          .origin = "statm", .resolution = PAGE_MB, .title = "SHR", .width = 9,
          .meaning = "the part of RSS that is file-backed or shared memory"),
    FIELD(peak_rss_mb, FIELD_REAL, .unit = UNIT_MB, .cost = COST_EXTRA, .origin = "status",
          .resolution = PAGE_MB, .title = "PEAK", .width = 9,
          .meaning = "the kernel's high-water mark of RSS"),
    FIELD(fd_limit, FIELD_INT, .unit = UNIT_COUNT, .cost = COST_EXTRA, .origin = "limits",
          .title = "FDLIM", .width = 7,
          .meaning = "soft limit of open file descriptors; for processes outside jobs only if many "
                     "are open"),
    FIELD(read_bytes, FIELD_INT, .unit = UNIT_BYTES, .cost = COST_EXTRA, .origin = "io",
          .title = "READ", .width = 12, .meaning = "bytes read from storage"),
    FIELD(write_bytes, FIELD_INT, .unit = UNIT_BYTES, .cost = COST_EXTRA, .origin = "io",
          .title = "WRITE", .width = 12, .meaning = "bytes written to storage"),
    FIELD(gpu_memory_mb, FIELD_REAL, .rollup = ROLLUP_MEAN, .unit = UNIT_MB, .origin = "gpu",
          .resolution = 0.01, .meaning = "GPU memory of the process"),
    FIELD(syscall_source, FIELD_ENUM, .origin = "kernel", .names = syscall_source_names,
          .name_count = SYSCALL_SOURCE_COUNT, .meaning = "source of the system call figures"),
};

const struct record process_metric_record =
    RECORD_OF(struct process_metric, "ProcessMetric", process_metric_fields);

bool command_program(const char *command, char into[static PROGRAM_MAX_BYTES + 1])
{
    bool is_name = command[0] == '[';

    command += is_name;
    size_t length = strcspn(command, is_name ? "/:-]" : " ");
    const char *slash = memrchr(command, '/', length);
    if (slash && slash + 1 < command + length) {
        length -= (size_t)(slash + 1 - command);
        command = slash + 1;
    }
    return utf8_clean(into, PROGRAM_MAX_BYTES + 1, command, length) > 0;
}
