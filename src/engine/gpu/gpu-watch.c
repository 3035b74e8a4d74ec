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

/* So long before a snapshot sources are asked: most answer in time. */
#define LEAD_NS (NS_PER_SEC / 4)
/* A driver's own figures are no fresher. */
#define ASK_EVERY_NS (NS_PER_SEC / 2)
#define SLACK_NS     (ASK_EVERY_NS / 10) /* of the loop's clock */
/* How much later than usual an answer may come, until what was known before is not any more. */
#define LATE_NS (2 * NS_PER_SEC)
/* A device may be plugged in, or its driver be loaded. */
#define LOOK_EVERY_NS (60 * NS_PER_SEC)

enum seat_state {
    SEAT_EMPTY,   /* there is nothing to ask, as far as was looked */
    SEAT_ASKED,   /* for the first time: no answer yet */
    SEAT_ANSWERS, /* or did, until now */
    SEAT_FAILED,  /* it says that there is nothing, or cannot tell */
};

/* A kind of devices, and who tells of them. */
struct seat {
    struct gpu_watch *watch;
    enum gpu_source source;
    enum seat_state state;
    struct gpu_thread *thread; /* NULL: there is none */
    bool is_ending;            /* … it is to end: nothing is asked until it has */
    uint64_t asked_mono_ns;
    struct gpu_smi *smi; /* NULL: not used; for NVIDIA's alone */
    bool uses_smi;
    struct gpu_reading *latest; /* NULL: none yet */
    const char *reason;         /* of the thread, or of smi: why there is nothing */
    const char *no_thread;      /* why it is smi */
};

struct gpu_watch {
    struct gpu_watch_options options;
    uv_loop_t *loop;
    int proc_fd;
    enum auto_switch choice;
    struct alarm *alarm; /* to begin, and then to ask */
    bool is_due;         /* to begin, as soon as it may */
    bool has_begun;
    bool is_planned; /* the next question */
    bool has_told;   /* that there are none */
    uint64_t asked_mono_ns;
    uint64_t looked_mono_ns;
    uint64_t interval_ns;
    struct seat seats[GPU_SOURCE_COUNT];
    int64_t first_card; /* number of the first device that is not NVIDIA's */
};

/* ---- answers ---- */

static void tell_if_none(struct gpu_watch *watch)
{
    char words[GPU_WORDS_SIZE];

    if (watch->choice != SWITCH_ON || watch->has_told || !watch->options.on_none)
        return;
    for (size_t i = 0; i < GPU_SOURCE_COUNT; i++)
        if (watch->seats[i].state != SEAT_FAILED || watch->seats[i].latest)
            return;
    watch->has_told = true;
    gpu_watch_describe(watch, words);
    watch->options.on_none(watch->options.context, words);
}

static void take_reading(struct seat *seat, struct gpu_reading *reading)
{
    struct gpu_watch *watch = seat->watch;

    gpu_reading_free(seat->latest);
    seat->latest = reading;
    seat->state = SEAT_ANSWERS;
    for (size_t i = 0; seat->source == GPU_SOURCE_NVML && i < reading->gpus.count; i++)
        watch->first_card = MAX(watch->first_card, reading->gpus.items[i].index + 1);
}

static void on_smi_answer(void *context, struct gpu_reading *reading, const char *reason)
{
    struct seat *seat = context;

    if (!seat->uses_smi) { /* it was switched off */
        gpu_reading_free(reading);
        return;
    }
    if (reading) {
        take_reading(seat, reading);
        return;
    }
    seat->state = SEAT_FAILED;
    seat->reason = reason;
    tell_if_none(seat->watch);
}

static int use_smi(struct seat *seat)
{
    const struct gpu_smi_options options = {
        .helpers = seat->watch->options.helpers,
        .proc_fd = seat->watch->proc_fd,
        .on_answer = on_smi_answer,
        .context = seat,
    };
    int r = seat->smi ? 0 : gpu_smi_new(&options, &seat->smi);

    if (r < 0)
        return r;
    seat->uses_smi = true;
    seat->state = SEAT_ASKED;
    gpu_smi_ask(seat->smi, clock_mono_ns());
    return 0;
}

static void on_thread_answer(void *context, struct gpu_reading *reading)
{
    take_reading(context, reading);
}

static void begin_seat(struct seat *seat);

static void on_thread_end(void *context, const char *reason)
{
    struct seat *seat = context;

    gpu_thread_close(TAKE_PTR(seat->thread));
    if (TAKE(seat->is_ending, false)) {
        if (seat->state == SEAT_ASKED) /* it is wanted again */
            begin_seat(seat);
        return;
    }
    seat->state = SEAT_FAILED;
    seat->reason = seat->no_thread = reason;
    if (seat->source == GPU_SOURCE_NVML && use_smi(seat) == 0)
        return;
    tell_if_none(seat->watch);
}

/* ---- beginning and ending ---- */

static void begin_seat(struct seat *seat)
{
    const struct gpu_thread_options options = {
        .source = seat->source,
        .roots = seat->watch->options.roots,
        .on_answer = on_thread_answer,
        .on_end = on_thread_end,
        .context = seat,
    };

    seat->state = SEAT_ASKED;
    seat->asked_mono_ns = clock_mono_ns();
    if (seat->thread) /* one that hangs is not begun again: it is taken up once it has ended */
        return;
    if (gpu_thread_start(seat->watch->loop, &options, &seat->thread) == 0)
        return;
    seat->thread = NULL;
    seat->state = SEAT_FAILED;
    seat->reason = "no thread can be started";
}

static void end_seat(struct seat *seat)
{
    seat->is_ending = seat->thread != NULL;
    if (seat->thread)
        gpu_thread_end(seat->thread);
    seat->uses_smi = false;
    gpu_smi_stop(seat->smi);
    gpu_reading_free(TAKE_PTR(seat->latest));
    seat->state = SEAT_EMPTY;
}

/* A source that had nothing is asked again: a device may have turned up. */
static void look_for_devices(struct gpu_watch *watch)
{
    watch->looked_mono_ns = clock_mono_ns();
    unsigned there = gpu_sources_there(&watch->options.roots);
    for (size_t i = 0; i < GPU_SOURCE_COUNT; i++) {
        struct seat *seat = &watch->seats[i];
        bool is_there = there & GPU_SOURCE_BIT(i);
        bool is_wanted = watch->choice == SWITCH_ON;
        if ((seat->state == SEAT_EMPTY && (is_wanted || is_there)) ||
            (seat->state == SEAT_FAILED && !seat->uses_smi && is_there))
            begin_seat(seat);
    }
    watch->first_card = MAX(watch->first_card, (int64_t)gpu_nvidia_nodes(&watch->options.roots));
}

static void ask(struct gpu_watch *watch)
{
    uint64_t now_ns = clock_mono_ns();

    if (now_ns - watch->looked_mono_ns >= LOOK_EVERY_NS)
        look_for_devices(watch);
    if (now_ns - watch->asked_mono_ns + SLACK_NS < ASK_EVERY_NS)
        return;
    watch->asked_mono_ns = now_ns;
    for (size_t i = 0; i < GPU_SOURCE_COUNT; i++) {
        struct seat *seat = &watch->seats[i];
        if (seat->thread && !seat->is_ending) {
            gpu_thread_ask(seat->thread);
            seat->asked_mono_ns = now_ns;
        }
        if (seat->uses_smi)
            gpu_smi_ask(seat->smi, now_ns);
    }
}

static void begin(struct gpu_watch *watch)
{
    const struct gpu_watch_options *options = &watch->options;

    watch->is_due = options->may_begin && !options->may_begin(options->context);
    if (watch->is_due)
        return;
    watch->has_begun = true;
    watch->has_told = false;
    watch->asked_mono_ns = clock_mono_ns(); /* each begins by asking */
    look_for_devices(watch);
}

static void on_alarm(void *context)
{
    struct gpu_watch *watch = context;

    watch->is_planned = false;
    if (watch->choice == SWITCH_OFF)
        return;
    if (watch->has_begun)
        ask(watch);
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
        end_seat(&watch->seats[i]);
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
        watch->seats[i] = (struct seat){.watch = watch, .source = (enum gpu_source)i};
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
        gpu_thread_close(watch->seats[i].thread);
        gpu_smi_free(watch->seats[i].smi);
        gpu_reading_free(watch->seats[i].latest);
    }
    alarm_close(watch->alarm);
    close_fd(watch->proc_fd);
    free(watch);
}

/* ---- into a snapshot ---- */

/* Not if a later question has not been answered for a while, nor if it is older than it can be. */
static bool is_current(const struct seat *seat, uint64_t mono_ns)
{
    uint64_t usual_ns = seat->uses_smi ? GPU_SMI_EVERY_NS + GPU_SMI_LIMIT_MS * NS_PER_MSEC
                                       : MAX(seat->watch->interval_ns, ASK_EVERY_NS);

    if (seat->state != SEAT_ANSWERS || !seat->latest)
        return false;
    uint64_t age_ns = mono_ns - seat->latest->asked_mono_ns;
    bool is_overtaken = seat->thread && seat->latest->asked_mono_ns < seat->asked_mono_ns;
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

static int add_gpus(const struct seat *seat, bool is_current, struct snapshot *snapshot)
{
    for (size_t i = 0; seat->latest && i < seat->latest->gpus.count; i++) {
        struct gpu_metric *gpu = &snapshot->gpus.items[snapshot->gpus.count];
        int r = copy_gpu(&seat->latest->gpus.items[i], is_current, &snapshot->arena, gpu);
        if (r < 0)
            return r;
        if (seat->source == GPU_SOURCE_DRM)
            gpu->index += seat->watch->first_card;
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

static bool has_sources(const struct gpu_watch *watch)
{
    for (size_t i = 0; i < GPU_SOURCE_COUNT; i++)
        if (watch->seats[i].thread || watch->seats[i].uses_smi)
            return true;
    return false;
}

/* Once an interval, however many snapshots are taken. What it begins with is planned already. */
static void plan(struct gpu_watch *watch, uint64_t interval_ns)
{
    bool is_same = TAKE(watch->interval_ns, interval_ns) == interval_ns;
    uint64_t after_ns = interval_ns - MIN(LEAD_NS, interval_ns / 2);

    if (!watch->has_begun || (watch->is_planned && is_same))
        return;
    watch->is_planned = true;
    alarm_set(watch->alarm, (has_sources(watch) ? after_ns : LOOK_EVERY_NS) / NS_PER_MSEC);
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
        room += watch->seats[i].latest ? watch->seats[i].latest->gpus.count : 0;
    if (!room)
        return 0;
    snapshot->gpus.items = arena_alloc(&snapshot->arena, room * sizeof(*snapshot->gpus.items));
    if (!snapshot->gpus.items)
        return -ENOMEM;
    for (size_t i = 0; i < GPU_SOURCE_COUNT && r == 0; i++) {
        const struct seat *seat = &watch->seats[i];
        bool is_known = is_current(seat, mono_ns);
        r = add_gpus(seat, is_known, snapshot);
        if (is_known)
            add_processes(seat->latest, snapshot);
    }
    return r;
}

/* ---- how it stands ---- */

static void describe_seat(const struct seat *seat, struct text *out)
{
    bool is_nvidia = seat->source == GPU_SOURCE_NVML;
    const char *name = seat->uses_smi ? "nvidia-smi" : is_nvidia ? "NVML" : "kernel (DRM)";

    if (seat->state == SEAT_EMPTY)
        return;
    text_append_string(out, out->length ? "; " : "");
    if (seat->state == SEAT_FAILED)
        text_printf(out, "%s: %s (%s)", name, seat->latest ? "no figures" : "none", seat->reason);
    else if (seat->state == SEAT_ASKED)
        text_printf(out, "%s: no answer yet", name);
    else if (!is_current(seat, clock_mono_ns()))
        text_printf(out, "%s: does not answer", name);
    else
        text_printf(out, "%s: %zu device%s", name, seat->latest->gpus.count,
                    seat->latest->gpus.count == 1 ? "" : "s");
    if (seat->uses_smi)
        text_printf(out, ", without NVML (%s)", seat->no_thread);
}

void gpu_watch_describe(const struct gpu_watch *watch, char ret[static GPU_WORDS_SIZE])
{
    _cleanup_text_ struct text words = {0};

    for (size_t i = 0; i < GPU_SOURCE_COUNT; i++)
        describe_seat(&watch->seats[i], &words);
    if (watch->choice == SWITCH_OFF)
        text_append_string(&words, "off (profiler.gpu_enabled is false)");
    else if (!words.length)
        text_append_string(&words, "no device");
    snprintf(ret, GPU_WORDS_SIZE, "%s", text_string(&words));
}
