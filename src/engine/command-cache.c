#include "engine/command-cache.h"

#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "config/paths.h"
#include "model/process.h"
#include "probe/process-lookup.h"

/* Between two boxes: a storm of processes is not read one by one. */
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
        struct process_metric *process = &snapshot->processes.items[i];
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

/* What the process is now; of one that executed several programs since, only the last is known. */
static const char *present_command(const struct command_cache *cache,
                                   const struct process_event *event)
{
    const struct process_metric *process = map_get(&cache->present, (uint64_t)event->pid);
    const struct process_event *last_exec = map_get(&cache->executed, (uint64_t)event->pid);

    if (!process || (event->event_type == EVENT_EXEC && last_exec != event))
        return NULL;
    return process->command;
}

/* What it was, unless it has become something else since. */
static const char *known_command(const struct command_cache *cache,
                                 const struct process_event *event)
{
    return map_get(&cache->executed, (uint64_t)event->pid)
               ? NULL
               : map_get(&cache->known, (uint64_t)event->pid);
}

/* What it executed last, if that could be read when it did. */
static const char *executed_command(const struct command_cache *cache,
                                    const struct process_event *event)
{
    const struct process_event *last_exec = map_get(&cache->executed, (uint64_t)event->pid);
    return last_exec && last_exec < event ? last_exec->command : NULL;
}

static void name_event(struct command_cache *cache, struct tick_box *box,
                       struct process_event *event)
{
    bool is_beginning = event->event_type == EVENT_SPAWN || event->event_type == EVENT_EXEC;
    const char *executed = is_beginning ? NULL : executed_command(cache, event);
    const char *known = is_beginning ? NULL : known_command(cache, event);

    if (event->command || event->is_step)
        return;
    if (executed)
        event->command = executed;
    else if (known)
        event->command = arena_strdup(&box->arena, known);
    else
        event->command = present_command(cache, event);
}

static void note_commands(struct command_cache *cache, const struct snapshot *snapshot)
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

/* The next box may tell of their end before a snapshot has seen them. */
static void note_executed(struct command_cache *cache, const struct process_event_list *events)
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

void command_cache_expect(struct command_cache *cache, pid_t pid, const char *path)
{
    cache->expected_pid = pid;
    cache->expected_path = path;
}

void command_cache_distrust(struct command_cache *cache)
{
    cache->expected_pid = 0;
}

/* Of a process that was seen while it executed its program, a snapshot has only the name, which may
 * be that of its parent. */
static bool is_command_line(const char *command)
{
    return command && command[0] != '[';
}

/* What an expected process has executed, which cannot be read any more. NULL without memory. */
static char *name_expected(const struct command_cache *cache, struct tick_box *box)
{
    const char *known = map_get(&cache->known, (uint64_t)cache->expected_pid);
    char program[PROGRAM_MAX_BYTES + 1], name[PROGRAM_MAX_BYTES + 3];

    if (is_command_line(known))
        return arena_strdup(&box->arena, known);
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
    char command[COMMAND_MAX_BYTES + 1] = "";

    if (!reported && cache->reads++ < READS_MAX)
        process_lookup_command(PROC_ROOT, (pid_t)exec->pid, command, sizeof(command));
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
        note_commands(cache, box->tick.snapshot);
    else
        note_executed(cache, events);
    if (cache->expected_pid && tick_box_find_end(box, cache->expected_pid))
        cache->expected_pid = 0;
    cache->reads = 0;
}
