#include "engine/command-cache.h"

#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "config/paths.h"
#include "explain/program-kind.h"
#include "model/process.h"
#include "model/redact.h"
#include "probe/proc-cmdline.h"
#include "probe/process-lookup.h"

/* Reads of /proc between two boxes; the limit bounds the cost of a storm of processes. */
#define READS_MAX 256

void command_cache_done(struct command_cache *cache)
{
    arena_done(&cache->arena);
    map_done(&cache->known);
    map_done(&cache->present);
    map_done(&cache->executed);
}

static void index_snapshot(struct command_cache *cache, const struct snapshot *snapshot)
{
    map_clear(&cache->present);
    for (size_t i = 0; snapshot && i < snapshot->processes.count; i++) {
        struct process_metric *process = &snapshot->processes.items[i]; /* only read */
        if (process->run_id && map_put(&cache->present, (uint64_t)process->pid, process) < 0)
            return;
    }
}

static void index_execs(struct command_cache *cache, struct process_event_list *events)
{
    map_clear(&cache->executed);
    for (size_t i = 0; i < events->count; i++)
        if (events->items[i].event_type == EVENT_EXEC &&
            map_put(&cache->executed, (uint64_t)events->items[i].pid, &events->items[i]) < 0)
            return;
}

static void name_event(struct command_cache *cache, struct tick_box *box,
                       struct process_event *event)
{
    const uint64_t pid = (uint64_t)event->pid;
    const struct process_metric *process = map_get(&cache->present, pid);
    const struct process_event *last_exec = map_get(&cache->executed, pid);
    const char *known = last_exec ? NULL : map_get(&cache->known, pid);
    bool is_beginning = event->event_type == EVENT_SPAWN || event->event_type == EVENT_EXEC;

    if (event->command || event->is_step == TRUTH_YES)
        return;
    if (!is_beginning && last_exec && last_exec < event && last_exec->command)
        event->command = last_exec->command;
    else if (!is_beginning && known)
        event->command = arena_strdup(&box->arena, known);
    /* Of a process that executed several programs, the snapshot has only the last one. */
    else if (process && (event->event_type != EVENT_EXEC || last_exec == event))
        event->command = process->command;
}

static void remember_commands(struct command_cache *cache, const struct snapshot *snapshot)
{
    arena_reset(&cache->arena);
    map_clear(&cache->known);
    for (size_t i = 0; i < snapshot->processes.count; i++) {
        const struct process_metric *process = &snapshot->processes.items[i];
        if (!process->run_id || !process->command)
            continue;
        char *command = arena_strdup(&cache->arena, process->command);
        if (!command || map_put(&cache->known, (uint64_t)process->pid, command) < 0)
            return;
    }
}

/* Remembers the commands of execs: the next box may have the ends of these processes before a
 * snapshot has the processes. */
static void remember_execs(struct command_cache *cache, const struct process_event_list *events)
{
    for (size_t i = 0; i < events->count; i++) {
        const struct process_event *event = &events->items[i];
        if (event->event_type != EVENT_EXEC || !event->command)
            continue;
        char *command = arena_strdup(&cache->arena, event->command);
        if (!command || map_put(&cache->known, (uint64_t)event->pid, command) < 0)
            return;
    }
}

void command_cache_redact(struct command_cache *cache, const struct text_list *words)
{
    size_t position = 0;

    for (char *command; (command = map_next(&cache->known, &position));)
        redact_buffer(words, command, strlen(command) + 1);
}

void command_cache_expect(struct command_cache *cache, pid_t pid, const char *path,
                          const char *command)
{
    cache->expected_pid = pid;
    cache->expected_path = path;
    cache->expected_command = command;
}

void command_cache_drop_expected(struct command_cache *cache)
{
    cache->expected_pid = 0;
}

/* Returns the command of the expected process, which is gone; NULL without memory. */
static char *name_expected(const struct command_cache *cache, struct tick_box *box)
{
    const char *known = map_get(&cache->known, (uint64_t)cache->expected_pid);
    char program[PROGRAM_MAX_BYTES + 1], name[PROGRAM_MAX_BYTES + 3];

    /* A snapshot during the exec has only the name in brackets, which may be the parent's. */
    if (known && known[0] != '[')
        return arena_strdup(&box->arena, known);
    /* Other programs may be scripts, whose command lines begin with their interpreter. */
    if (cache->expected_command && program_is_known(cache->expected_command))
        return arena_strdup(&box->arena, cache->expected_command);
    const char *slash = strrchr(cache->expected_path, '/');
    const char *base = slash ? slash + 1 : cache->expected_path;
    utf8_clean(program, sizeof(program), base, strlen(base));
    snprintf(name, sizeof(name), "[%s]", program);
    return arena_strdup(&box->arena, name);
}

void command_cache_name_exec(struct command_cache *cache, struct tick_box *box,
                             const char *reported, struct process_event *exec)
{
    bool is_expected = cache->expected_pid == exec->pid;
    bool is_read = !reported && cache->reads++ < READS_MAX;
    char command[COMMAND_MAX_BYTES + 1] = "";
    struct proc_stat stat;

    if (is_read)
        process_lookup_command(PROC_ROOT, (pid_t)exec->pid, command, sizeof(command));
    /* A process that has released its memory, and was not reaped yet, has only its short name. */
    if (is_read && !command[0] && !is_expected &&
        process_lookup_stat(PROC_ROOT, (pid_t)exec->pid, &stat) == 0)
        proc_cmdline_from_name(stat.name, command, sizeof(command));
    if (reported || command[0])
        exec->command = arena_strdup(&box->arena, reported ? reported : command);
    else if (is_expected)
        exec->command = name_expected(cache, box);
    if (is_expected)
        cache->expected_pid = 0;
}

void command_cache_name(struct command_cache *cache, struct tick_box *box)
{
    struct process_event_list *events = &box->tick.events;

    if (events->count) {
        index_snapshot(cache, box->tick.snapshot);
        index_execs(cache, events);
        for (size_t i = 0; i < events->count; i++)
            name_event(cache, box, &events->items[i]);
    }
    if (box->tick.snapshot)
        remember_commands(cache, box->tick.snapshot);
    else
        remember_execs(cache, events);
    if (cache->expected_pid && tick_box_find_end(box, cache->expected_pid))
        cache->expected_pid = 0;
    cache->reads = 0;
}
