/* The steps of a run and its progress. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/json-writer.h"
#include "daemon/daemon-state.h"
#include "daemon/run-lifecycle-parts.h"
#include "model/record-json.h"

/* An adopted run continues an earlier part, of whose steps the store has the sums. */
static void end_sheet(struct daemon *daemon, struct run *run, bool was_read, struct sheet *sheet)
{
    const struct lifecycle_entry *entry = lifecycle_find_entry(daemon, run);
    struct sheet figures = *sheet;

    if (!engine_end_step(daemon->engine, run, sheet->sheet_num, was_read, &figures))
        return;
    if (!entry || !entry->is_continued)
        *sheet = figures;
    else
        sheet->exactness = (struct sheet_exactness){LOWER_BOUND, LOWER_BOUND, LOWER_BOUND,
                                                    LOWER_BOUND, LOWER_BOUND};
}

static void store_sheet(struct daemon *daemon, struct run *run, int64_t sheet_num, const char *name,
                        int outcome, double at, bool is_reported, bool was_read)
{
    struct sheet sheet;

    record_init(&sheet_record, &sheet);
    sheet.run_id = run->run_id;
    sheet.sheet_num = sheet_num;
    sheet.name = name;
    sheet.outcome = outcome;
    if (outcome != OUTCOME_RUNNING) {
        if (outcome != OUTCOME_NONE) /* else with its run */
            sheet.ended_at = at;
        end_sheet(daemon, run, was_read, &sheet);
    } else if (!is_reported) {
        sheet.started_at = at;
    }
    if (daemon->writer) /* without memory, the step ends with its run */
        store_writer_sheet(daemon->writer, &sheet);
}

/* Stores the figures of the steps that end with the run. */
void lifecycle_end_sheets(struct daemon *daemon, struct run *run, bool was_read)
{
    while (run->active_sheets) {
        size_t i = 0;
        while (!run->sheets.items[i]->is_active)
            i++;
        store_sheet(daemon, run, run->sheets.items[i]->sheet_num, NULL, OUTCOME_NONE, 0, true,
                    was_read);
    }
}

static enum event_name step_event(int outcome)
{
    switch (outcome) {
    case OUTCOME_RUNNING: return EVENT_NAME_STEP_STARTED;
    case OUTCOME_SUCCESS: return EVENT_NAME_STEP_COMPLETED;
    default: return EVENT_NAME_STEP_FAILED;
    }
}

static void publish_step(struct daemon *daemon, const struct run *run,
                         const struct run_lifecycle_step *step)
{
    _cleanup_text_ struct text data = {0};
    struct json_writer json = {.out = &data};

    json_write_begin_object(&json);
    json_write_key(&json, "run_id");
    json_write_string(&json, run->run_id);
    json_write_key(&json, "name");
    json_write_string(&json, step->name);
    json_write_key(&json, "pid");
    if (step->process.pid)
        json_write_int(&json, step->process.pid);
    else
        json_write_null(&json);
    json_write_key(&json, "exit_code");
    if (int_is_known(step->exit_code))
        json_write_int(&json, step->exit_code);
    else
        json_write_null(&json);
    json_write_key(&json, "resource_context");
    text_append_string(&data, text_string(step->context_json));
    text_append_char(&data, '}');
    lifecycle_publish(daemon, step_event(step->outcome), run, step->sheet_num, &data);
}

static void note_progress(struct run *run, const struct run_lifecycle_step *step)
{
    if (step->outcome == OUTCOME_RUNNING) {
        run->current_sheet = step->sheet_num;
        return;
    }
    if (run->current_sheet == step->sheet_num)
        run->current_sheet = INT_UNKNOWN;
    if (step->outcome == OUTCOME_SUCCESS &&
        (!int_is_known(run->last_completed_sheet) || run->last_completed_sheet < step->sheet_num))
        run->last_completed_sheet = step->sheet_num;
}

int run_lifecycle_step(struct daemon *daemon, struct run *run,
                       const struct run_lifecycle_step *step)
{
    bool is_begin = step->outcome == OUTCOME_RUNNING;
    bool was_active = run_find_sheet(run, step->sheet_num);
    double at = step->at > 0 ? step->at : ns_to_sec(clock_real_ns());
    char details[64];

    if (is_begin) {
        if (!lifecycle_has_room(daemon))
            return -ENOBUFS;
        int r = registry_begin_sheet(daemon->registry, run, step->sheet_num, step->process.pid);
        if (r == 0 && step->process.pid)
            r = engine_register(daemon->engine, run, step->sheet_num, step->process, step->replay);
        if (r < 0)
            return r;
    }
    bool was_read = step->run_was_read ||
                    (!is_begin && was_active && engine_read_run(daemon->engine, run) == 0);
    store_sheet(daemon, run, step->sheet_num, step->name, step->outcome, at, was_active, was_read);
    if (is_begin && was_active) /* reported again, with its process or its name */
        return 0;
    snprintf(details, sizeof(details), STEP_DETAILS_FORMAT, (long long)step->sheet_num,
             event_name_word(step_event(step->outcome)));
    engine_report_step(daemon->engine, run, step->sheet_num, is_begin ? EVENT_SPAWN : EVENT_EXIT,
                       step->process.pid, step->exit_code, details, at);
    note_progress(run, step);
    publish_step(daemon, run, step);
    return 0;
}

void run_lifecycle_progressed(struct daemon *daemon, const struct run *run)
{
    _cleanup_text_ struct text data = {0};
    struct json_writer json = {.out = &data};
    const struct job_progress progress = {
        .job_id = run->job_id,
        .run_id = run->run_id,
        .total_sheets = run->total_sheets,
        .last_completed_sheet = run->last_completed_sheet,
        .current_sheet = run->current_sheet,
        .status = run->status[0] ? run->status : NULL,
    };

    record_encode(&job_progress_record, &progress, &json);
    lifecycle_publish(daemon, EVENT_NAME_JOB_PROGRESS, run, run->current_sheet, &data);
}
