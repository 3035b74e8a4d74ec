#include "run/run-record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd-io.h"
#include "base/text.h"
#include "base/utf8.h"
#include "config/paths.h"
#include "model/process.h"
#include "model/redact.h"
#include "probe/host.h"
#include "probe/proc-cmdline.h"
#include "probe/process-lookup.h"

/* A run begins with this collector; it does not wait for the kernel collector. */
#define COLLECTOR "procfs"

/* ---- session ---- */

/* Lists the ancestors of sonde, by which a run that was started in another run is recognised. If
 * /proc is not readable, only the parent is known. */
static size_t list_ancestors(int64_t *into, size_t max)
{
    struct proc_stat stat = {.ppid = getppid()};
    size_t count = 0;

    while (stat.ppid > 0 && count < max) {
        into[count++] = stat.ppid;
        if (process_lookup_stat(PROC_ROOT, stat.ppid, &stat) < 0)
            break;
    }
    return count;
}

int run_record_place(double interval_seconds, const char *collector, struct arena *arena,
                     struct store_options *store)
{
    store->host = host_read_name(arena);
    store->boot_id = host_read_boot_id(PROC_ROOT, arena);
    store->collector = collector;
    store->interval_seconds = interval_seconds;
    return store->host && store->boot_id ? 0 : -ENOMEM;
}

int run_record_session(const struct job_run_options *options, struct arena *arena,
                       struct store_options *store)
{
    store->ancestor_count = list_ancestors(store->ancestors, STORE_ANCESTORS_MAX);
    return run_record_place(ns_to_sec(options->interval_ns), COLLECTOR, arena, store);
}

const char *run_record_command(const struct job_run_options *options, struct arena *arena)
{
    _cleanup_text_ struct text raw = {0};
    char *const *argv = options->argv;
    char command[COMMAND_MAX_BYTES + 1];

    for (size_t i = 0; argv[i] && raw.length < sizeof(command) + 3; i++)
        text_append(&raw, argv[i], strlen(argv[i]) + 1);
    if (text_error(&raw) < 0)
        return NULL;
    size_t length = proc_cmdline_parse(raw.bytes, raw.length, command, sizeof(command));
    const char *shown = arena_copy(arena, command, length);
    return shown && redact_replace(&options->config->redact, arena, &shown) == 0 ? shown : NULL;
}

/* ---- the run ---- */

int run_record_begin(const struct job_run_options *options, double started_at, struct arena *arena,
                     struct job *ret)
{
    _cleanup_free_ char *cwd = getcwd(NULL, 0); /* NULL if the directory was deleted */

    record_init(&job_record, ret);
    ret->run_id = options->run_id;
    ret->job_id = options->job_id;
    ret->job_type = options->job_type;
    ret->command = run_record_command(options, arena);
    const char *shown_cwd = cwd ? utf8_clean_copy(arena, cwd) : NULL;
    bool has_cwd = shown_cwd && redact_replace(&options->config->redact, arena, &shown_cwd) == 0;
    ret->cwd = has_cwd ? shown_cwd : NULL;
    ret->host = host_read_name(arena);
    ret->uid = getuid();
    ret->started_at = started_at;
    ret->outcome = OUTCOME_RUNNING;
    ret->profile.collector = COLLECTOR;
    return ret->command && ret->host && (ret->cwd || !cwd) ? 0 : -ENOMEM;
}

void run_record_end(const struct run_summary *summary, double ended_at, struct job *ret)
{
    record_init(&job_record, ret);
    ret->run_id = summary->run_id;
    ret->job_id = summary->profile.job_id;
    ret->job_type = summary->job_type;
    ret->started_at = summary->started_at;
    ret->ended_at = ended_at;
    ret->outcome = summary->outcome;
    ret->exit_code = summary->exit_code;
    ret->signal_num = summary->signal_num;
    ret->cause = summary->cause;
    ret->chain = summary->chain;
    ret->profile = summary->profile;
}

void run_record_sheet(const char *run_id, int64_t sheet_num, double started_at, struct sheet *ret)
{
    record_init(&sheet_record, ret);
    ret->run_id = run_id;
    ret->sheet_num = sheet_num;
    ret->started_at = started_at;
    ret->outcome = OUTCOME_RUNNING;
}

void run_record_sheet_end(const struct run_summary *summary, double ended_at, struct sheet *ret)
{
    run_record_sheet(summary->run_id, summary->sheet_num, summary->started_at, ret);
    ret->ended_at = ended_at;
    ret->outcome = summary->outcome;
    sheet_set_figures(ret, &summary->profile);
}
