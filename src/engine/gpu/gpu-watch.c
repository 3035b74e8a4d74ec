#include "engine/gpu/gpu-watch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/macros.h"
#include "base/text.h"
#include "engine/gpu/gpu-thread.h"
#include "loop/alarm.h"

/* Sources are queried this long before a snapshot: most answer in time. */
#define LEAD_NS (NS_PER_SEC / 4)
/* Drivers update their figures no faster. */
#define QUERY_EVERY_NS (NS_PER_SEC / 2)
#define SLACK_NS       (QUERY_EVERY_NS / 10) /* of the loop's clock */
/* How late an answer may be before its figures count as unknown. */
#define LATE_NS (2 * NS_PER_SEC)
/* Searches again, because devices may be plugged in, or drivers loaded, later. */
#define SEARCH_EVERY_NS (60 * NS_PER_SEC)

enum slot_state {
    SLOT_EMPTY,   /* no device found */
    SLOT_QUERIED, /* queried for the first time, no answer yet */
    SLOT_ANSWERS, /* … or did, until now */
    SLOT_FAILED,  /* no device, or an error */
};

/* A kind of devices and its source. */
struct slot {
    struct gpu_watch *watch;
    enum gpu_source source;
    enum slot_state state;
    struct gpu_thread *thread; /* NULL: none */
    bool is_ending;            /* the thread is ending: no queries until it has */
    uint64_t queried_mono_ns;
    struct gpu_smi *smi; /* NULL: not used; for NVIDIA only */
    bool uses_smi;
    struct gpu_reading *latest; /* NULL: none yet */
    const char *reason;         /* of the thread or of smi: why there are no figures */
    const char *nvml_reason;    /* why nvidia-smi is used instead of NVML */
};

struct gpu_watch {
    struct gpu_watch_options options;
    uv_loop_t *loop;
    int proc_fd;
    enum auto_switch choice;
    struct alarm *alarm; /* for the start, then for queries */
    bool is_due;         /* starts once may_begin() allows it */
    bool has_begun;
    bool is_planned;   /* the next query */
    bool has_reported; /* called on_none */
    uint64_t queried_mono_ns;
    uint64_t searched_mono_ns;
    uint64_t interval_ns;
    struct slot slots[GPU_SOURCE_COUNT];
    int64_t first_card; /* index of the first device that is not NVIDIA's */
};

/* ---- answers ---- */

static void report_if_none(struct gpu_watch *watch)
{
    char reason[GPU_TEXT_SIZE];

    if (watch->choice != SWITCH_ON || watch->has_reported || !watch->options.on_none)
        return;
    for (size_t i = 0; i < GPU_SOURCE_COUNT; i++)
        if (watch->slots[i].state != SLOT_FAILED || watch->slots[i].latest)
            return;
    watch->has_reported = true;
    gpu_watch_describe(watch, reason);
    watch->options.on_none(watch->options.context, reason);
}

static void on_reading(void *context, struct gpu_reading *reading)
{
    struct slot *slot = context;
    struct gpu_watch *watch = slot->watch;

    gpu_reading_free(slot->latest);
    slot->latest = reading;
    slot->state = SLOT_ANSWERS;
    for (size_t i = 0; slot->source == GPU_SOURCE_NVML && i < reading->gpus.count; i++)
        watch->first_card = MAX(watch->first_card, reading->gpus.items[i].index + 1);
}

static void on_smi_answer(void *context, struct gpu_reading *reading, const char *reason)
{
    struct slot *slot = context;

    if (!slot->uses_smi) { /* it was disabled meanwhile */
        gpu_reading_free(reading);
        return;
    }
    if (reading) {
        on_reading(slot, reading);
        return;
    }
    slot->state = SLOT_FAILED;
    slot->reason = reason;
    report_if_none(slot->watch);
}

static int use_smi(struct slot *slot)
{
    const struct gpu_smi_options options = {
        .helpers = slot->watch->options.helpers,
        .proc_fd = slot->watch->proc_fd,
        .on_answer = on_smi_answer,
        .context = slot,
    };
    int r = slot->smi ? 0 : gpu_smi_new(&options, &slot->smi);

    if (r < 0)
        return r;
    slot->uses_smi = true;
    slot->state = SLOT_QUERIED;
    gpu_smi_query(slot->smi, clock_mono_ns());
    return 0;
}

static void begin_slot(struct slot *slot);

static void on_thread_end(void *context, const char *reason)
{
    struct slot *slot = context;

    gpu_thread_close(TAKE_PTR(slot->thread));
    if (TAKE(slot->is_ending, false)) {
        if (slot->state == SLOT_QUERIED) /* it was enabled again */
            begin_slot(slot);
        return;
    }
    slot->state = SLOT_FAILED;
    slot->reason = slot->nvml_reason = reason;
    if (slot->source == GPU_SOURCE_NVML && use_smi(slot) == 0)
        return;
    report_if_none(slot->watch);
}

/* ---- beginning and ending ---- */

static void begin_slot(struct slot *slot)
{
    const struct gpu_thread_options options = {
        .source = slot->source,
        .roots = slot->watch->options.roots,
        .on_answer = on_reading,
        .on_end = on_thread_end,
        .context = slot,
    };

    slot->state = SLOT_QUERIED;
    slot->queried_mono_ns = clock_mono_ns();
    if (slot->thread) /* a hanging thread is not started again: its end restarts the slot */
        return;
    if (gpu_thread_start(slot->watch->loop, &options, &slot->thread) == 0)
        return;
    slot->thread = NULL;
    slot->state = SLOT_FAILED;
    slot->reason = "no thread can be started";
}

static void end_slot(struct slot *slot)
{
    slot->is_ending = slot->thread != NULL;
    if (slot->thread)
        gpu_thread_end(slot->thread);
    slot->uses_smi = false;
    gpu_smi_stop(slot->smi);
    gpu_reading_free(TAKE_PTR(slot->latest));
    slot->state = SLOT_EMPTY;
}

/* A source without devices is tried again: one may have appeared. */
static void search_devices(struct gpu_watch *watch)
{
    watch->searched_mono_ns = clock_mono_ns();
    unsigned present = gpu_sources_present(&watch->options.roots);
    for (size_t i = 0; i < GPU_SOURCE_COUNT; i++) {
        struct slot *slot = &watch->slots[i];
        bool is_present = present & GPU_SOURCE_BIT(i);
        bool is_wanted = watch->choice == SWITCH_ON;
        if ((slot->state == SLOT_EMPTY && (is_wanted || is_present)) ||
            (slot->state == SLOT_FAILED && !slot->uses_smi && is_present))
            begin_slot(slot);
    }
    watch->first_card = MAX(watch->first_card, (int64_t)gpu_nvidia_nodes(&watch->options.roots));
}

static void query(struct gpu_watch *watch)
{
    uint64_t now_ns = clock_mono_ns();

    if (now_ns - watch->searched_mono_ns >= SEARCH_EVERY_NS)
        search_devices(watch);
    if (now_ns - watch->queried_mono_ns + SLACK_NS < QUERY_EVERY_NS)
        return;
    watch->queried_mono_ns = now_ns;
    for (size_t i = 0; i < GPU_SOURCE_COUNT; i++) {
        struct slot *slot = &watch->slots[i];
        if (slot->thread && !slot->is_ending) {
            gpu_thread_query(slot->thread);
            slot->queried_mono_ns = now_ns;
        }
        if (slot->uses_smi)
            gpu_smi_query(slot->smi, now_ns);
    }
}

static void begin(struct gpu_watch *watch)
{
    const struct gpu_watch_options *options = &watch->options;

    watch->is_due = options->may_begin && !options->may_begin(options->context);
    if (watch->is_due)
        return;
    watch->has_begun = true;
    watch->has_reported = false;
    watch->queried_mono_ns = clock_mono_ns(); /* each source starts with a query */
    search_devices(watch);
}

static void on_alarm(void *context)
{
    struct gpu_watch *watch = context;

    watch->is_planned = false;
    if (watch->choice == SWITCH_OFF)
        return;
    if (watch->has_begun)
        query(watch);
    else
        begin(watch);
}

void gpu_watch_configure(struct gpu_watch *watch, enum auto_switch choice)
{
    bool is_same = choice == watch->choice;

    watch->choice = choice;
    if (is_same)
        return;
    for (size_t i = 0; i < GPU_SOURCE_COUNT && choice == SWITCH_OFF; i++)
        end_slot(&watch->slots[i]);
    alarm_stop(watch->alarm);
    watch->is_due = watch->has_begun = watch->is_planned = false;
    if (choice != SWITCH_OFF)
        alarm_set(watch->alarm, watch->options.delay_ms);
}

int gpu_watch_new(uv_loop_t *loop, const struct gpu_watch_options *options, struct gpu_watch **ret)
{
    struct gpu_watch *watch = calloc(1, sizeof(*watch));
    if (!watch)
        return -ENOMEM;

    watch->options = *options;
    watch->loop = loop;
    watch->choice = SWITCH_OFF;
    for (size_t i = 0; i < GPU_SOURCE_COUNT; i++)
        watch->slots[i] = (struct slot){.watch = watch, .source = (enum gpu_source)i};
    watch->proc_fd = open(options->roots.proc, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int r = watch->proc_fd < 0 ? -errno : alarm_new(loop, on_alarm, watch, &watch->alarm);
    if (r < 0) {
        close_fd(watch->proc_fd);
        free(watch);
        return r;
    }
    *ret = watch;
    return 0;
}

void gpu_watch_close(struct gpu_watch *watch)
{
    if (!watch)
        return;
    for (size_t i = 0; i < GPU_SOURCE_COUNT; i++) {
        gpu_thread_close(watch->slots[i].thread);
        gpu_smi_free(watch->slots[i].smi);
        gpu_reading_free(watch->slots[i].latest);
    }
    alarm_close(watch->alarm);
    close_fd(watch->proc_fd);
    free(watch);
}

/* ---- into a snapshot ---- */

/* Whether the latest reading is valid: a later query has not been unanswered for long, and its age
 * is normal. */
static bool is_current(const struct slot *slot, uint64_t mono_ns)
{
    uint64_t usual_ns = slot->uses_smi ? GPU_SMI_EVERY_NS + GPU_SMI_LIMIT_MS * NS_PER_MSEC
                                       : MAX(slot->watch->interval_ns, QUERY_EVERY_NS);

    if (slot->state != SLOT_ANSWERS || !slot->latest)
        return false;
    uint64_t age_ns = mono_ns - slot->latest->begun_mono_ns;
    bool is_overtaken = slot->thread && slot->latest->begun_mono_ns < slot->queried_mono_ns;
    return age_ns <= LATE_NS || (!is_overtaken && age_ns <= usual_ns + LATE_NS);
}

static int copy_gpu(const struct gpu_metric *gpu, bool is_current, struct arena *arena,
                    struct gpu_metric *ret)
{
    *ret = *gpu;
    if (!is_current) {
        record_init(&gpu_metric_record, ret);
        ret->index = gpu->index;
    }
    ret->name = gpu->name ? arena_strdup(arena, gpu->name) : NULL;
    ret->vendor = gpu->vendor ? arena_strdup(arena, gpu->vendor) : NULL;
    return (gpu->name && !ret->name) || (gpu->vendor && !ret->vendor) ? -ENOMEM : 0;
}

static int add_gpus(const struct slot *slot, bool is_current, struct snapshot *snapshot)
{
    for (size_t i = 0; slot->latest && i < slot->latest->gpus.count; i++) {
        struct gpu_metric *gpu = &snapshot->gpus.items[snapshot->gpus.count];
        int r = copy_gpu(&slot->latest->gpus.items[i], is_current, &snapshot->arena, gpu);
        if (r < 0)
            return r;
        if (slot->source == GPU_SOURCE_DRM)
            gpu->index += slot->watch->first_card;
        snapshot->gpus.count++;
    }
    return 0;
}

static void add_processes(const struct gpu_reading *reading, struct snapshot *snapshot)
{
    for (size_t i = 0; reading->processes.count && i < snapshot->processes.count; i++) {
        struct process_metric *process = &snapshot->processes.items[i];
        const struct gpu_process *found =
            gpu_reading_find(reading, (pid_t)process->pid, process->start_ticks);
        if (!found)
            continue;
        double memory_mb = (double)found->memory_bytes / BYTES_PER_MB;
        process->gpu_memory_mb =
            real_is_known(process->gpu_memory_mb) ? process->gpu_memory_mb + memory_mb : memory_mb;
    }
}

/* Once per interval, however many snapshots are taken. */
static void plan(struct gpu_watch *watch, uint64_t interval_ns)
{
    bool is_same = TAKE(watch->interval_ns, interval_ns) == interval_ns;
    uint64_t after_ns = interval_ns - MIN(LEAD_NS, interval_ns / 2);
    bool has_source = false;

    if (!watch->has_begun || (watch->is_planned && is_same))
        return;
    watch->is_planned = true;
    for (size_t i = 0; i < GPU_SOURCE_COUNT; i++)
        has_source |= watch->slots[i].thread || watch->slots[i].uses_smi;
    alarm_set(watch->alarm, (has_source ? after_ns : SEARCH_EVERY_NS) / NS_PER_MSEC);
}

int gpu_watch_fill(struct gpu_watch *watch, uint64_t mono_ns, uint64_t interval_ns,
                   struct snapshot *snapshot)
{
    size_t room = 0;
    int r = 0;

    if (watch->choice == SWITCH_OFF)
        return 0;
    if (watch->is_due)
        begin(watch);
    plan(watch, interval_ns);
    for (size_t i = 0; i < GPU_SOURCE_COUNT; i++)
        room += watch->slots[i].latest ? watch->slots[i].latest->gpus.count : 0;
    if (!room)
        return 0;
    snapshot->gpus.items = arena_alloc(&snapshot->arena, room * sizeof(*snapshot->gpus.items));
    if (!snapshot->gpus.items)
        return -ENOMEM;
    for (size_t i = 0; i < GPU_SOURCE_COUNT && r == 0; i++) {
        const struct slot *slot = &watch->slots[i];
        bool is_known = is_current(slot, mono_ns);
        r = add_gpus(slot, is_known, snapshot);
        if (is_known)
            add_processes(slot->latest, snapshot);
    }
    return r;
}

/* ---- state ---- */

static void describe_slot(const struct slot *slot, struct text *out)
{
    bool is_nvidia = slot->source == GPU_SOURCE_NVML;
    const char *name = slot->uses_smi ? "nvidia-smi" : is_nvidia ? "NVML" : "kernel (DRM)";

    if (slot->state == SLOT_EMPTY)
        return;
    text_append_string(out, out->length ? "; " : "");
    if (slot->state == SLOT_FAILED)
        text_printf(out, "%s: %s (%s)", name, slot->latest ? "no figures" : "none", slot->reason);
    else if (slot->state == SLOT_QUERIED)
        text_printf(out, "%s: no answer yet", name);
    else if (!is_current(slot, clock_mono_ns()))
        text_printf(out, "%s: does not answer", name);
    else
        text_printf(out, "%s: %zu device%s", name, slot->latest->gpus.count,
                    slot->latest->gpus.count == 1 ? "" : "s");
    if (slot->uses_smi)
        text_printf(out, ", without NVML (%s)", slot->nvml_reason);
}

void gpu_watch_describe(const struct gpu_watch *watch, char ret[static GPU_TEXT_SIZE])
{
    _cleanup_text_ struct text text = {0};

    for (size_t i = 0; i < GPU_SOURCE_COUNT; i++)
        describe_slot(&watch->slots[i], &text);
    if (watch->choice == SWITCH_OFF)
        text_append_string(&text, "off (profiler.gpu_enabled is false)");
    else if (!text.length)
        text_append_string(&text, "no device");
    snprintf(ret, GPU_TEXT_SIZE, "%s", text_string(&text));
}
