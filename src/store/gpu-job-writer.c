/* Writes the rows of a snapshot for GPUs (table `gpu`) and for running jobs (table `usage`). */
#include <errno.h>

#include "store/sample-writer.h"

#define GPU_OWN_COUNT   2
#define USAGE_OWN_COUNT 3

/* Prepared only when needed: most machines have no GPU. */
static int prepare_gpus(struct sample_writer *writer)
{
    if (writer->insert_gpu)
        return 0;
    return schema_prepare_insert(writer->database, "INSERT OR REPLACE", "gpu", "session, tick",
                                 GPU_OWN_COUNT, &writer->schema->gpu, &writer->insert_gpu);
}

int sample_writer_add_gpu(struct sample_writer *writer, const struct gpu_metric *gpu)
{
    const struct columns *columns = &writer->schema->gpu;
    int64_t codes[COLUMNS_MAX];
    int r = prepare_gpus(writer);

    if (r < 0)
        return r;
    sqlite3_bind_int64(writer->insert_gpu, 1, writer->session);
    sqlite3_bind_int64(writer->insert_gpu, 2, writer->tick);
    for (size_t i = 0; i < columns->count && r == 0; i++) {
        const char *text = *(const char *const *)((const char *)gpu + columns->items[i].offset);
        codes[i] = INT_UNKNOWN;
        if (columns->items[i].form != COLUMN_SHARED)
            codes[i] = column_code(&columns->items[i], gpu);
        else if (text)
            r = text_pool_id(writer->texts, text, &codes[i]);
        column_bind_code(writer->insert_gpu, GPU_OWN_COUNT + 1 + (int)i, codes[i]);
    }
    if (r == 0)
        r = database_run(writer->database, writer->insert_gpu);
    if (r == 0 && minute_roller_add(&writer->roller.gpus, (uint64_t)gpu->index, codes, 1) < 0)
        r = database_fail_errno(writer->database, -ENOMEM);
    return r;
}

static int prepare_usages(struct sample_writer *writer)
{
    if (writer->insert_usage)
        return 0;
    return schema_prepare_insert(writer->database, "INSERT OR REPLACE", "usage",
                                 "session, tick, run", USAGE_OWN_COUNT, &writer->schema->usage,
                                 &writer->insert_usage);
}

int sample_writer_add_usage(struct sample_writer *writer, const struct job_usage *usage)
{
    const struct columns *columns = &writer->schema->usage;
    int64_t codes[COLUMNS_MAX];
    struct run_row *run;

    if (!usage->run_id)
        return 0;
    int r = prepare_usages(writer);
    if (r == 0)
        r = run_table_get(writer->runs, usage->run_id, usage->job_id, &run);
    if (r < 0)
        return r;
    run_table_add_usage(run, usage);
    sqlite3_bind_int64(writer->insert_usage, 1, writer->session);
    sqlite3_bind_int64(writer->insert_usage, 2, writer->tick);
    sqlite3_bind_int64(writer->insert_usage, 3, run->id);
    for (size_t i = 0; i < columns->count; i++) {
        codes[i] = column_code(&columns->items[i], usage);
        column_bind_code(writer->insert_usage, USAGE_OWN_COUNT + 1 + (int)i, codes[i]);
    }
    r = database_run(writer->database, writer->insert_usage);
    if (r == 0 && minute_roller_add(&writer->roller.usages, (uint64_t)run->id, codes, 1) < 0)
        r = database_fail_errno(writer->database, -ENOMEM);
    return r;
}
