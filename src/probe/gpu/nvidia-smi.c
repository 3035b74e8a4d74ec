#include "probe/gpu/nvidia-smi.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "base/number.h"
#include "base/utf8.h"
#include "probe/lines.h"

/* Longer names are cut. */
#define NAME_SIZE 128
/* More than any machine has, and its bytes fit into 64 bits. */
#define MEMORY_MAX_MB 1e12

/* Returns the text up to the next ", " or the end; false if there is no further column. */
static bool next_column(struct line *line, struct line *ret)
{
    if (!line->at)
        return false;
    *ret = *line;
    for (const char *at = line->at; at + 1 < line->end; at++)
        if (at[0] == ',' && at[1] == ' ') {
            ret->end = at;
            line->at = at + 2;
            return true;
        }
    line->at = NULL;
    return true;
}

static struct line trim(struct line column)
{
    while (column.at < column.end && (*column.at == ' ' || *column.at == '\t'))
        column.at++;
    while (column.at < column.end &&
           (column.end[-1] == ' ' || column.end[-1] == '\t' || column.end[-1] == '\r'))
        column.end--;
    return column;
}

/* Parses a number from 0 to `max`, with a decimal point or comma; anything else is unknown. */
static double parse_real_column(struct line *line, double max)
{
    struct line column;
    char text[32];
    double value;

    if (!next_column(line, &column))
        return REAL_UNKNOWN;
    column = trim(column);
    if (line_copy(&column, text, sizeof(text)) < 0)
        return REAL_UNKNOWN;
    char *comma = strchr(text, ',');
    if (comma)
        *comma = '.';
    if (number_parse_real(text, &value) < 0 || value < 0 || value > max)
        return REAL_UNKNOWN;
    return value;
}

/* Parses the index or pid at the start of a line. */
static int parse_id_column(struct line *line, int64_t max, int64_t *ret)
{
    struct line column;
    uint64_t value;

    if (!next_column(line, &column))
        return -EBADMSG;
    column = trim(column);
    if (line_scan_uint(&column, &value) < 0 || column.at != column.end || value > (uint64_t)max)
        return -EBADMSG;
    *ret = (int64_t)value;
    return 0;
}

/* Returns the rest of the line, including commas; NULL if it is empty or not a name. */
static const char *parse_name(const struct line *line, char into[static NAME_SIZE])
{
    if (!line->at)
        return NULL;
    struct line name = trim(*line);
    if (name.at == name.end || *name.at == '[')
        return NULL;
    utf8_clean(into, NAME_SIZE, name.at, (size_t)(name.end - name.at));
    return *into ? into : NULL;
}

static bool has_device(const struct gpu_reading *reading, int64_t index)
{
    for (size_t i = 0; i < reading->gpus.count; i++)
        if (reading->gpus.items[i].index == index)
            return true;
    return false;
}

int nvidia_smi_gpus_parse(const char *bytes, size_t length, struct gpu_reading *reading)
{
    const char *at = bytes;
    char name[NAME_SIZE];
    struct gpu_metric gpu;
    struct line line;

    while (lines_next(&at, bytes + length, &line)) {
        record_init(&gpu_metric_record, &gpu);
        if (parse_id_column(&line, GPU_DEVICES_MAX - 1, &gpu.index) < 0 ||
            has_device(reading, gpu.index))
            continue;
        if (!line.at) /* only a number: not a device, but a line of other output */
            continue;
        gpu.vendor = "NVIDIA";
        gpu.utilization_pct = parse_real_column(&line, 100);
        gpu.memory_used_mb = parse_real_column(&line, MEMORY_MAX_MB);
        gpu.memory_total_mb = parse_real_column(&line, MEMORY_MAX_MB);
        gpu.temperature_c = parse_real_column(&line, 1000);
        gpu.clock_mhz = parse_real_column(&line, 1e6);
        gpu.power_w = parse_real_column(&line, 1e6);
        gpu.name = parse_name(&line, name);
        int r = gpu_reading_add(reading, &gpu);
        if (r < 0)
            return r;
    }
    return 0;
}

int nvidia_smi_apps_parse(const char *bytes, size_t length, struct gpu_reading *reading)
{
    const char *at = bytes;
    struct line line;
    int64_t pid;

    while (lines_next(&at, bytes + length, &line)) {
        if (parse_id_column(&line, INT32_MAX, &pid) < 0 || pid == 0)
            continue;
        double memory_mb = parse_real_column(&line, MEMORY_MAX_MB);
        if (!real_is_known(memory_mb))
            continue;
        int r = gpu_reading_add_process(reading, (pid_t)pid, (int64_t)(memory_mb * BYTES_PER_MB));
        if (r < 0)
            return r;
    }
    return 0;
}
