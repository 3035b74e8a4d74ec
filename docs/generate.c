/* Generates the parts of the documentation that come from tables in the code. Such a part is
 * between `<!-- generated: NAME -->` and `<!-- end -->`, or `; generated: NAME` and `; end` in a
 * man page.
 *
 *     generate               rewrites the files of the working directory
 *     generate --check DIR   reports as TAP whether the files of DIR are up to date */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd-io.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/man-page.h"
#include "config/config.h"
#include "daemon/methods.h"
#include "detect/admission-constants.h"
#include "model/analysis.h"
#include "model/calibration.h"
#include "model/daemon-status.h"
#include "model/estimate.h"
#include "model/event-name.h"
#include "model/gap.h"
#include "model/job.h"
#include "model/machine-use.h"
#include "model/pattern.h"
#include "model/resource-summary.h"
#include "model/snapshot.h"
#include "report/earlier-runs.h"
#include "report/job-report.h"
#include "report/machine-report.h"
#include "report/run-diff.h"
#include "store/schema.h"

#define DOCUMENT_MAX_BYTES (256 * 1024)

static void append_resolution(const struct field *field, struct text *out)
{
    if (field->resolution == 0)
        text_append_string(out, field->type == FIELD_REAL ? "full" : "");
    else
        text_printf(out, "%g", field->resolution);
}

/* The fields of an inner record that are fields of the outer one in JSON. Their older names are not
 * written where the outer record has a field of that name, as in model/record-encode.c. */
static void append_inline(const struct field *field, const struct record *outer, struct text *out)
{
    text_printf(out, "| all fields of %s | | | | | | %s", field->record->name, field->meaning);
    for (size_t i = 0; i < field->record->field_count; i++) {
        const struct field *inner = &field->record->fields[i];
        if (inner->alias && record_find(outer, inner->alias))
            text_printf(out, "; `%s` has only this name, because `%s` is another field here",
                        inner->name, inner->alias);
    }
    text_append_string(out, " |\n");
}

static void append_record(const struct record *record, struct text *out)
{
    text_printf(out, "\n## %s\n\n", record->name);
    text_append_string(out, "| field | type | unit | source | cost | resolution | meaning |\n"
                            "| --- | --- | --- | --- | --- | --- | --- |\n");
    for (size_t i = 0; i < record->field_count; i++) {
        const struct field *field = &record->fields[i];
        if (field->type == FIELD_INLINE) {
            append_inline(field, record, out);
            continue;
        }
        text_printf(out, "| `%s` | %s%s%s | %s | %s | %s | ", field->name,
                    field_type_name(field->type), field->record ? ": " : "",
                    field->record ? field->record->name : "", field_unit_name(field->unit),
                    field->origin ? field->origin : "",
                    field->cost ? field_cost_name(field->cost) : "");
        append_resolution(field, out);
        text_printf(out, " | %s", field->meaning);
        if (field->alias)
            text_printf(out, "; also as `%s`", field->alias);
        text_append_string(out, " |\n");
    }
}

static void append_fields(struct text *out)
{
    static const struct record *const records[] = {
        &process_metric_record,  &snapshot_record,
        &gpu_metric_record,      &job_progress_record,
        &job_usage_record,       &process_event_record,
        &anomaly_record,         &job_record,
        &sheet_record,           &job_profile_record,
        &pattern_record,         &gap_record,
        &run_summary_record,     &machine_use_record,
        &job_report_record,      &earlier_runs_record,
        &machine_report_record,  &resource_estimate_record,
        &daemon_status_record,   &memory_point_record,
        &analysis_record,        &correlation_record,
        &calibration_record,     &run_diff_record,
        &figure_pair_record,     &run_difference_record,
        &resource_sample_record, &resource_summary_record,
    };

    for (size_t i = 0; i < ARRAY_SIZE(records); i++)
        append_record(records[i], out);
}

static void append_column(const struct column *column, struct text *out)
{
    const struct field *field = column->field;

    text_printf(out, "| `%s` | ", column->name);
    if (column->form == COLUMN_SHARED)
        text_append_string(out, "id of a row of `text`");
    else if (column->form == COLUMN_STEPS && field->type == FIELD_CHAR)
        text_append_string(out, "character code");
    else if (column->form == COLUMN_STEPS && column->steps_per_unit != 0)
        text_printf(out, "integer: %s × %g", field_unit_name(field->unit), column->steps_per_unit);
    else if (field->type == FIELD_BOOL)
        text_append_string(out, "integer: 1 for true, 0 for false");
    else if (field->type == FIELD_INT)
        text_printf(out, "integer%s%s", field->unit ? ": " : "", field_unit_name(field->unit));
    else if (field->type == FIELD_REAL)
        text_printf(out, "real%s%s", field->unit ? ": " : "", field_unit_name(field->unit));
    else if (field->type == FIELD_TEXT || field->type == FIELD_ENUM)
        text_append_string(out, "text");
    else
        text_append_string(out, "JSON");
    text_printf(out, " | %s |\n", field->meaning);
    if (field->alias)
        text_printf(out, "| `%s` | generated | the same as `%s` |\n", field->name, column->name);
}

static void append_tables(struct text *out)
{
    static struct schema schema;
    size_t count;
    const struct schema_table *tables = schema_tables(&count);

    schema_init(&schema);
    for (size_t i = 0; i < count; i++) {
        const struct columns *columns = schema_columns(&schema, &tables[i]);
        text_printf(out, "\n### `%s`\n\n%s.\n\n", tables[i].name, tables[i].purpose);
        if (tables[i].own)
            text_printf(out, "Columns outside the field table: `%s`.", tables[i].own);
        if (tables[i].key)
            text_printf(out, "%sOrdered by (`%s`).", tables[i].own ? " " : "", tables[i].key);
        text_append_string(out, "\n\n| column | stored as | meaning |\n| --- | --- | --- |\n");
        for (size_t k = 0; k < columns->count; k++)
            append_column(&columns->items[k], out);
    }
}

static void append_methods(struct text *out)
{
    rpc_methods_markdown(&daemon_methods, out);
}

struct part {
    const char *file;
    const char *name;
    void (*append)(struct text *out);
    void (*append_page)(const struct command *command, struct text *out); /* if it is of a verb */
};

static const struct part parts[] = {
    {"FIELDS.md", "fields", append_fields},
    {"CONFIGURATION.md", "keys", config_schema_markdown},
    {"SCHEMA.md", "tables", append_tables},
    {"ANOMALIES.md", "pressure", pressure_markdown},
    {"ANOMALIES.md", "admission-with-daemon", admission_with_daemon_list},
    {"ANOMALIES.md", "admission-without-daemon", admission_without_daemon_list},
    {"RPC.md", "methods", append_methods},
    {"RPC.md", "events", event_name_markdown},
    {"man/sonde.1.scd", "verbs", man_page_verbs},
    {"man/sonde.1.scd", "options", man_page_common_options},
    {"man/sonde-daemon.1.scd", "restart-keys", config_restart_keys_page},
    {"man/sonde-admit.1.scd", "admission-with-daemon", admission_with_daemon_list},
    {"man/sonde-admit.1.scd", "admission-without-daemon", admission_without_daemon_list},
};

/* The parts of a verb's page, whose file name contains the verb. */
static const struct part page_parts[] = {
    {.name = "name", .append_page = man_page_name},
    {.name = "synopsis", .append_page = man_page_synopsis},
    {.name = "options", .append_page = man_page_options},
};

/* Appends the document to `out` with its generated part replaced. `command` is the verb of a verb's
 * page. Returns 0, -EBADMSG if the markers are missing, or -ENOMEM. */
static int update_document(const char *document, const struct part *part,
                           const struct command *command, struct text *out)
{
    bool is_markdown = strstr(part->file, ".md");
    const char *closing = is_markdown ? "<!-- end -->" : "; end\n";
    char opening[64];

    snprintf(opening, sizeof(opening),
             is_markdown ? "<!-- generated: %s -->\n" : "; generated: %s\n", part->name);
    const char *start = strstr(document, opening);
    const char *end = start ? strstr(start, closing) : NULL;
    if (!end)
        return -EBADMSG;
    start += strlen(opening);
    text_append(out, document, (size_t)(start - document));
    if (command)
        part->append_page(command, out);
    else
        part->append(out);
    text_append_string(out, end);
    return text_error(out);
}

static int write_document(int dir_fd, const char *file, const struct text *text)
{
    _cleanup_close_ int fd = openat(dir_fd, file, O_WRONLY | O_TRUNC | O_CLOEXEC);
    return fd < 0 ? -errno : fd_write_all(fd, text->bytes, text->length);
}

struct generator {
    int dir_fd; /* of docs */
    bool only_check;
    size_t count, failed;
};

/* Checks or rewrites one part. Returns whether it is up to date now. */
static bool process_part(const struct generator *generator, const struct part *part,
                         const struct command *command)
{
    static char document[DOCUMENT_MAX_BYTES];
    _cleanup_text_ struct text updated = {0};

    if (fd_read_file(generator->dir_fd, part->file, document, sizeof(document)) < 0 ||
        update_document(document, part, command, &updated) < 0)
        return false;
    if (generator->only_check)
        return strcmp(document, text_string(&updated)) == 0;
    return write_document(generator->dir_fd, part->file, &updated) == 0;
}

static void report_part(struct generator *generator, const struct part *part,
                        const struct command *command)
{
    bool is_good = process_part(generator, part, command);

    generator->failed += !is_good;
    printf("%sok %zu - %s: %s is up to date (else: make docs)\n", is_good ? "" : "not ",
           ++generator->count, part->file, part->name);
}

static void report_page(struct generator *generator, const struct command *command)
{
    char file[64];

    snprintf(file, sizeof(file), "man/sonde-%s.1.scd", command->name);
    for (size_t i = 0; i < ARRAY_SIZE(page_parts); i++) {
        struct part part = page_parts[i];
        part.file = file;
        report_part(generator, &part, command);
    }
}

int main(int argc, char **argv)
{
    struct generator generator = {.only_check = argc > 2 && strcmp(argv[1], "--check") == 0};
    _cleanup_close_ int dir_fd =
        open(generator.only_check ? argv[2] : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    generator.dir_fd = dir_fd;
    for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
        report_part(&generator, &parts[i], NULL);
    for (size_t i = 0; i < command_count; i++)
        if (!commands[i]->has_no_page)
            report_page(&generator, commands[i]);
    printf("1..%zu\n", generator.count);
    return generator.failed != 0;
}
