#include "probe/bpf/kernel-probe.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/macros.h"
#include "probe/bpf/kernel-object.h"
#include "probe/bpf/kernel-skeleton.h"
#include "probe/bpf/libbpf-loader.h"
#include "probe/bpf/type-excerpt.h"
#include "probe/pid-namespace.h"

#define TYPE_INFORMATION "/sys/kernel/btf/vmlinux"

#ifndef CAP_PERFMON
#define CAP_PERFMON 38
#define CAP_BPF     39
#endif

/* ---- permission ---- */

static void set_error(struct kernel_probe_error *error, const char *format, ...) _printf_(2, 3);

static void set_error(struct kernel_probe_error *error, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(error->text, sizeof(error->text), format, arguments);
    va_end(arguments);
}

static bool has_capability(int capability)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {0};

    if (syscall(SYS_capget, &header, data) < 0)
        return false;
    return data[capability / 32].effective >> capability % 32 & 1;
}

/* CAP_SYS_ADMIN includes the others: it was required before Linux 5.8. */
static bool may_load(void)
{
    return has_capability(CAP_SYS_ADMIN) ||
           (has_capability(CAP_BPF) && has_capability(CAP_PERFMON));
}

static bool is_in_initial_pid_namespace(const char *proc_root)
{
    _cleanup_close_ int root_fd = open(proc_root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct stat st;

    return root_fd >= 0 && fstatat(root_fd, "self/ns/pid", &st, 0) == 0 &&
           st.st_ino == INITIAL_PID_NAMESPACE;
}

bool kernel_probe_is_allowed(const char *proc_root, struct kernel_probe_error *error)
{
    if (!may_load())
        set_error(error, "it needs CAP_BPF and CAP_PERFMON");
    else if (!is_in_initial_pid_namespace(proc_root))
        set_error(error, "sonde is not in the machine's initial pid namespace");
    else if (access(TYPE_INFORMATION, R_OK) < 0)
        set_error(error, "the kernel has no type information (" TYPE_INFORMATION ")");
    else
        return true;
    return false;
}

/* ---- loading ---- */

static const char *const part_names[] = {
    [KERNEL_PART_PROCESSES] = "processes",
    [KERNEL_PART_EVENTS] = "forks and exits",
    [KERNEL_PART_FINAL_CPU] = "final CPU times",
    [KERNEL_PART_SIGNALS] = "signals",
    [KERNEL_PART_OOM] = "OOM kills",
    [KERNEL_PART_CALL_SAMPLES] = "current system calls",
    [KERNEL_PART_CALL_COUNTS] = "counts of system calls",
};

/* Discards libbpf's output: sonde reports a rejected program itself. */
static int discard_message(enum libbpf_print_level level _unused_, const char *format _unused_,
                           va_list arguments _unused_)
{
    return 0;
}

/* One combination of parts to try to load. */
struct attempt {
    bool parts[KERNEL_PART_COUNT];
    bool reads_plain_memory;
    const char *types_path; /* of the excerpt of the kernel's types; NULL: libbpf searches all */
};

/* Maps that only the counting of system calls uses. Without it, the verifier removes what refers to
 * them. */
static void choose_maps(struct kernel *object, bool counts_calls)
{
    struct bpf_map *maps[] = {object->maps.calling, object->maps.call_sums, object->maps.callers,
                              object->maps.calls_buffer};

    for (size_t i = 0; i < ARRAY_SIZE(maps); i++)
        bpf_map__set_autocreate(maps[i], counts_calls);
}

static void choose_programs(struct kernel *object, const struct attempt *attempt)
{
    const bool *parts = attempt->parts;
    bool has_events = parts[KERNEL_PART_EVENTS];
    const struct {
        struct bpf_program *program;
        bool is_wanted;
    } choices[] = {
        {object->progs.read_processes, parts[KERNEL_PART_PROCESSES]},
        {object->progs.tag_threads, has_events && parts[KERNEL_PART_PROCESSES]}, /* both walk */
        {object->progs.on_fork, has_events},
        {object->progs.on_exec, has_events},
        {object->progs.on_exit, has_events},
        {object->progs.on_switch, has_events && parts[KERNEL_PART_FINAL_CPU]},
        {object->progs.on_signal, has_events && parts[KERNEL_PART_SIGNALS]},
        {object->progs.on_oom, has_events && parts[KERNEL_PART_OOM]},
        {object->progs.sample_calls,
         parts[KERNEL_PART_PROCESSES] && parts[KERNEL_PART_CALL_SAMPLES]},
        {object->progs.on_call, has_events && parts[KERNEL_PART_CALL_COUNTS]},
        {object->progs.on_return, has_events && parts[KERNEL_PART_CALL_COUNTS]},
    };

    for (size_t i = 0; i < ARRAY_SIZE(choices); i++)
        bpf_program__set_autoload(choices[i].program, choices[i].is_wanted);
    bpf_program__set_autoattach(object->progs.on_call, false);
    bpf_program__set_autoattach(object->progs.on_return, false);
}

static int load(const struct kernel_probe_options *options, const struct attempt *attempt,
                struct kernel **ret)
{
    LIBBPF_OPTS(bpf_object_open_opts, open_options, .btf_custom_path = attempt->types_path);
    struct kernel *object = kernel__open_opts(&open_options);
    if (!object)
        return -errno;

    object->rodata->cpu_count = (uint32_t)MAX(libbpf_num_possible_cpus(), 1);
    object->rodata->wants_all = options->wants_all;
    object->rodata->reads_plain_memory = attempt->reads_plain_memory;
    object->rodata->reports_final_cpu = attempt->parts[KERNEL_PART_FINAL_CPU];
    object->rodata->can_count_calls = attempt->parts[KERNEL_PART_CALL_COUNTS];
    choose_maps(object, attempt->parts[KERNEL_PART_CALL_COUNTS]);
    choose_programs(object, attempt);
    int r = kernel__load(object);
    if (r == 0)
        r = kernel__attach(object);
    if (r < 0) {
        kernel__destroy(object);
        return r;
    }
    *ret = object;
    return 0;
}

/* The structures of the kernel whose members the programs read. If one is missing here, loading
 * takes more time. */
static const char *const read_structures[] = {
    "bpf_array", "cred",           "fdtable",       "files_struct", "mm_struct",
    "pt_regs",   "sighand_struct", "signal_struct", "task_struct",
};

/* Loads everything, with an excerpt of the kernel's types: libbpf then takes a third less time. */
static int load_quickly(const struct kernel_probe_options *options, const struct attempt *all,
                        struct kernel **ret)
{
    struct attempt attempt = *all;
    char path[64];

    _cleanup_close_ int fd =
        type_excerpt_open(TYPE_INFORMATION, read_structures, ARRAY_SIZE(read_structures));
    if (fd < 0)
        return fd;
    snprintf(path, sizeof(path), "%s/self/fd/%d", options->proc_root, fd);
    attempt.types_path = path;
    return load(options, &attempt, ret);
}

/* A kernel may lack what one part needs; that part is then omitted. Only trying shows which part it
 * is. The memory access that only newer kernels support is given up first. */
static int load_supported(const struct kernel_probe_options *options, struct attempt *ret_attempt,
                          bool *ret_is_quick, struct kernel **ret)
{
    struct attempt all = {.reads_plain_memory = true};
    int first_error = 0;

    memset(all.parts, true, sizeof(all.parts));
    all.parts[KERNEL_PART_CALL_COUNTS] = options->counts_calls;
    *ret_is_quick = load_quickly(options, &all, ret) == 0;
    if (*ret_is_quick) {
        *ret_attempt = all;
        return 0;
    }
    for (int plain = 1; plain >= 0; plain--) {
        for (int left_out = KERNEL_PART_COUNT; left_out >= -1; left_out--) {
            struct attempt attempt = all;
            attempt.reads_plain_memory = plain;
            if (left_out >= 0 && left_out < KERNEL_PART_COUNT)
                attempt.parts[left_out] = false;
            if (left_out < 0) /* the useful minimum */
                attempt = (struct attempt){.parts = {[KERNEL_PART_PROCESSES] = true},
                                           .reads_plain_memory = plain};
            int r = load(options, &attempt, ret);
            if (r == 0) {
                *ret_attempt = attempt;
                return 0;
            }
            first_error = first_error ? first_error : r;
            if (r == -EPERM || r == -ENOMEM)
                return r;
            if (plain && left_out == KERNEL_PART_COUNT)
                break;
        }
    }
    return first_error;
}

/* The part that a part depends on. */
static enum kernel_part required_part(enum kernel_part part)
{
    switch (part) {
    case KERNEL_PART_PROCESSES:
    case KERNEL_PART_CALL_SAMPLES: return KERNEL_PART_PROCESSES; /* for the list of pids */
    default: return KERNEL_PART_EVENTS;
    }
}

static void record_parts(struct kernel_probe *probe, const struct kernel_probe_options *options,
                         const struct attempt *attempt)
{
    const char *missing[KERNEL_PART_COUNT];
    size_t count = 0;

    for (int part = 0; part < KERNEL_PART_COUNT; part++) {
        probe->has[part] = attempt->parts[part] && attempt->parts[required_part(part)];
        if (!probe->has[part] && (part != KERNEL_PART_CALL_COUNTS || options->counts_calls))
            missing[count++] = part_names[part];
    }
    size_t length = 0;
    for (size_t i = 0; i < count && length < sizeof(probe->missing_parts.text); i++)
        length += (size_t)snprintf(probe->missing_parts.text + length,
                                   sizeof(probe->missing_parts.text) - length, "%s%s",
                                   i ? ", " : "this kernel rejects the program for ", missing[i]);
}

int kernel_run(int program_fd)
{
    LIBBPF_OPTS(bpf_test_run_opts, options);

    int r = bpf_prog_test_run_opts(program_fd, &options);
    return r < 0 ? r : (int)options.retval;
}

static int start_supported(struct kernel_probe *probe, const struct kernel_probe_options *options)
{
    int r = kernel_run(bpf_program__fd(probe->object->progs.find_cpu_offsets));
    if (r == 0 && probe->has[KERNEL_PART_PROCESSES])
        r = kernel_processes_start(probe, options->proc_root);
    if (r == 0 && probe->has[KERNEL_PART_EVENTS])
        r = kernel_events_start(probe);
    if (r == 0 && probe->has[KERNEL_PART_CALL_SAMPLES])
        r = kernel_calls_start(probe);
    return r;
}

int kernel_probe_open(const struct kernel_probe_options *options, struct kernel_probe **ret,
                      struct kernel_probe_error *error)
{
    struct attempt attempt;

    if (!kernel_probe_is_allowed(options->proc_root, error))
        return -EPERM;
    if (libbpf_load(error->text, sizeof(error->text)) < 0)
        return -ENOENT;
    _cleanup_(kernel_probe_closep) struct kernel_probe *probe = calloc(1, sizeof(*probe));
    if (!probe) {
        set_error(error, "out of memory");
        return -ENOMEM;
    }
    probe->processes.root_fd = -1;
    probe->ns_per_tick = NS_PER_SEC / (uint64_t)sysconf(_SC_CLK_TCK);
    libbpf_set_print(discard_message);
    int r = load_supported(options, &attempt, &probe->is_loaded_quickly, &probe->object);
    if (r == 0) {
        record_parts(probe, options, &attempt);
        r = start_supported(probe, options);
    }
    if (r < 0) {
        if (r == -EXDEV)
            set_error(error,
                      "its start times differ from those in /proc (another time namespace?)");
        else
            set_error(error, "the kernel rejects the programs: %s", strerror(-r));
        return r;
    }
    *ret = TAKE_PTR(probe);
    return 0;
}

void kernel_probe_close(struct kernel_probe *probe)
{
    if (!probe)
        return;
    kernel_processes_stop(probe);
    kernel_events_stop(probe);
    kernel_calls_stop(probe);
    kernel__destroy(probe->object);
    free(probe);
}

void kernel_probe_closep(struct kernel_probe **probe)
{
    kernel_probe_close(*probe);
}

/* ---- memory shared with the programs ---- */

static size_t page_align(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (bytes + page - 1) / page * page;
}

void *kernel_map_memory(const struct bpf_map *map, size_t item_bytes, size_t count, int protection)
{
    void *memory =
        mmap(NULL, page_align(item_bytes * count), protection, MAP_SHARED, bpf_map__fd(map), 0);

    return memory == MAP_FAILED ? NULL : memory;
}

void kernel_unmap_memory(const void *memory, size_t item_bytes, size_t count)
{
    if (memory)
        munmap((void *)(uintptr_t)memory, page_align(item_bytes * count));
}

/* ---- available parts ---- */

bool kernel_probe_has(const struct kernel_probe *probe, enum kernel_part part)
{
    return probe->has[part];
}

const char *kernel_probe_missing_parts(const struct kernel_probe *probe)
{
    return probe->missing_parts.text;
}

/* ---- membership ---- */

/* The walk of the threads needs what the walk of the processes needs. */
static bool tags_threads(const struct kernel_probe *probe)
{
    return probe->has[KERNEL_PART_EVENTS] && probe->has[KERNEL_PART_PROCESSES];
}

int kernel_probe_tag(struct kernel_probe *probe, pid_t pid, uint32_t tag)
{
    int map_fd = bpf_map__fd(probe->object->maps.membership);
    _cleanup_close_ int pid_fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (pid_fd < 0)
        return -errno;

    int r = tag ? bpf_map_update_elem(map_fd, &pid_fd, &tag, BPF_ANY)
                : bpf_map_delete_elem(map_fd, &pid_fd);
    if (r < 0 && !(r == -ENOENT && !tag))
        return r;
    probe->object->bss->tag_request = (struct tag_request){.pid = pid, .tag = tag};
    if (tags_threads(probe))
        return kernel_run(bpf_program__fd(probe->object->progs.tag_threads));
    if (tag)
        probe->object->bss->lost_tags = 1; /* of its other threads: they have that of the process */
    return 0;
}
