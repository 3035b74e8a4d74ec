#include "probe/gpu/drm-fdinfo.h"

#include <errno.h>
#include <string.h>

#include "model/field.h"
#include "probe/lines.h"

/* One line: `drm-KEY[-NAME]:<blanks>VALUE`. */
struct entry {
    struct line key; /* without `drm-` */
    struct line value;
};

static bool split_entry(struct line line, struct entry *ret)
{
    if (!line_skip_key(&line, "drm-"))
        return false;
    const char *colon = memchr(line.at, ':', (size_t)(line.end - line.at));
    if (!colon)
        return false;
    ret->key = (struct line){.at = line.at, .end = colon};
    ret->value = (struct line){.at = colon, .end = line.end};
    line_skip_key(&ret->value, ":");
    return true;
}

static int parse_name(struct line value, char into[static DRM_NAME_SIZE])
{
    struct line word;

    return line_scan_word(&value, &word) ? line_copy(&word, into, DRM_NAME_SIZE) : -EBADMSG;
}

static int parse_bytes(struct line value, int64_t *ret)
{
    int64_t bytes, unit = 1;

    if (line_scan_int(&value, &bytes) < 0)
        return -EBADMSG;
    if (line_skip_key(&value, "KiB"))
        unit = 1024;
    else if (line_skip_key(&value, "MiB"))
        unit = 1024 * 1024;
    if (value.at != value.end || __builtin_mul_overflow(bytes, unit, &bytes))
        return -EBADMSG;
    *ret = bytes;
    return 0;
}

static bool is_named(const char *name, const struct line *word)
{
    size_t length = (size_t)(word->end - word->at);

    return strlen(name) == length && memcmp(name, word->at, length) == 0;
}

/* Returns the engine of that name, added if it is new; NULL if there is no room or no valid name.
 */
static struct drm_engine *engine_of(struct drm_fdinfo *info, struct line name)
{
    for (size_t i = 0; i < info->engine_count; i++)
        if (is_named(info->engines[i].name, &name))
            return &info->engines[i];
    if (info->engine_count == DRM_ENGINES_MAX)
        return NULL;
    struct drm_engine *engine = &info->engines[info->engine_count];
    *engine = (struct drm_engine){
        .busy_ns = INT_UNKNOWN, .cycles = INT_UNKNOWN, .total_cycles = INT_UNKNOWN, .capacity = 1};
    if (line_copy(&name, engine->name, DRM_NAME_SIZE) < 0)
        return NULL;
    info->engine_count++;
    return engine;
}

static struct drm_region *region_of(struct drm_fdinfo *info, struct line name)
{
    for (size_t i = 0; i < info->region_count; i++)
        if (is_named(info->regions[i].name, &name))
            return &info->regions[i];
    if (info->region_count == DRM_REGIONS_MAX)
        return NULL;
    struct drm_region *region = &info->regions[info->region_count];
    *region = (struct drm_region){.resident_bytes = INT_UNKNOWN, .total_bytes = INT_UNKNOWN};
    if (line_copy(&name, region->name, DRM_NAME_SIZE) < 0)
        return NULL;
    info->region_count++;
    return region;
}

static int parse_busy(struct line value, int64_t *ret)
{
    int64_t ns;

    if (line_scan_int(&value, &ns) < 0 || !line_skip_key(&value, "ns") || value.at != value.end)
        return -EBADMSG;
    *ret = ns;
    return 0;
}

static int parse_number(struct line value, int64_t *ret)
{
    int64_t number;

    if (line_scan_int(&value, &number) < 0 || value.at != value.end)
        return -EBADMSG;
    *ret = number;
    return 0;
}

/* Rejects 0, because the capacity is a divisor. */
static int parse_capacity(struct line value, int64_t *ret)
{
    int64_t capacity;

    if (parse_number(value, &capacity) < 0 || capacity < 1)
        return -EBADMSG;
    *ret = capacity;
    return 0;
}

/* A key that is a prefix of another must be tested after it. */
static int parse_engine(struct drm_fdinfo *info, struct entry entry)
{
    struct drm_engine *engine, ignored;
    struct line name = entry.key;

    if (line_skip_key(&name, "engine-capacity-")) {
        engine = engine_of(info, name);
        return parse_capacity(entry.value, engine ? &engine->capacity : &ignored.capacity);
    }
    if (line_skip_key(&name, "engine-")) {
        engine = engine_of(info, name);
        return parse_busy(entry.value, engine ? &engine->busy_ns : &ignored.busy_ns);
    }
    if (line_skip_key(&name, "cycles-")) {
        engine = engine_of(info, name);
        return parse_number(entry.value, engine ? &engine->cycles : &ignored.cycles);
    }
    if (line_skip_key(&name, "total-cycles-")) {
        engine = engine_of(info, name);
        return parse_number(entry.value, engine ? &engine->total_cycles : &ignored.total_cycles);
    }
    return -ENOENT;
}

static int parse_region(struct drm_fdinfo *info, struct entry entry)
{
    struct drm_region *region, ignored;
    struct line name = entry.key;

    /* the old and the new name of the same figure */
    if (line_skip_key(&name, "memory-") || line_skip_key(&name, "resident-")) {
        region = region_of(info, name);
        return parse_bytes(entry.value, region ? &region->resident_bytes : &ignored.resident_bytes);
    }
    if (line_skip_key(&name, "total-")) {
        region = region_of(info, name);
        return parse_bytes(entry.value, region ? &region->total_bytes : &ignored.total_bytes);
    }
    return 0;
}

static int parse_entry(struct drm_fdinfo *info, struct entry entry)
{
    if (is_named("driver", &entry.key))
        return parse_name(entry.value, info->driver);
    if (is_named("pdev", &entry.key))
        return parse_name(entry.value, info->pdev);
    if (is_named("client-id", &entry.key))
        return parse_number(entry.value, &info->client_id);
    int r = parse_engine(info, entry);
    return r == -ENOENT ? parse_region(info, entry) : r;
}

int drm_fdinfo_parse(const char *bytes, size_t length, struct drm_fdinfo *ret)
{
    struct drm_fdinfo info = {.client_id = INT_UNKNOWN};
    const char *at = bytes;
    struct line line;
    struct entry entry;

    while (lines_next(&at, bytes + length, &line)) {
        int r = split_entry(line, &entry) ? parse_entry(&info, entry) : 0;
        if (r < 0)
            return r;
    }
    if (!info.driver[0])
        return -ENODATA;
    *ret = info;
    return 0;
}

/* amdgpu and xe: `vram`, `vram0`; i915: `local0`. */
static bool is_of_device(const struct drm_region *region)
{
    return strncmp(region->name, "vram", 4) == 0 || strncmp(region->name, "local", 5) == 0;
}

static void add_known(int64_t *sum, const struct drm_region *region)
{
    int64_t bytes =
        int_is_known(region->resident_bytes) ? region->resident_bytes : region->total_bytes;

    if (!int_is_known(bytes))
        return;
    if (!int_is_known(*sum))
        *sum = 0;
    if (__builtin_add_overflow(*sum, bytes, sum))
        *sum = INT64_MAX;
}

int64_t drm_fdinfo_memory_bytes(const struct drm_fdinfo *info)
{
    int64_t of_device = INT_UNKNOWN, of_all = INT_UNKNOWN;

    for (size_t i = 0; i < info->region_count; i++) {
        add_known(&of_all, &info->regions[i]);
        if (is_of_device(&info->regions[i]))
            add_known(&of_device, &info->regions[i]);
    }
    return int_is_known(of_device) ? of_device : of_all;
}
