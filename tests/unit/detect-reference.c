#include "detect-reference.h"

#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/macros.h"

void reference_reset(struct reference *reference)
{
    reference->count = reference->episode_count = reference->report_count = 0;
}

struct reference_snapshot *reference_add(struct reference *reference)
{
    struct reference_snapshot *snapshot = &reference->snapshots[reference->count];

    reference->finding_counts[reference->count++] = 0;
    snapshot->process_count = snapshot->event_count = 0;
    snapshot->ended_run = NULL;
    return snapshot;
}

/* ---- history ---- */

static const struct process_metric *find_pid(const struct reference *reference, size_t at,
                                             int64_t pid)
{
    const struct reference_snapshot *snapshot = &reference->snapshots[at];

    for (size_t i = 0; i < snapshot->process_count; i++)
        if (snapshot->processes[i].pid == pid)
            return &snapshot->processes[i];
    return NULL;
}

static const struct process_metric *find(const struct reference *reference, size_t at, int64_t pid,
                                         uint64_t start_ticks)
{
    const struct process_metric *process = find_pid(reference, at, pid);
    return process && process->start_ticks == start_ticks ? process : NULL;
}

/* Whether the process existed all the time: it ends when it is absent from two snapshots in a row,
 * or its pid is reused. */
static bool is_there_between(const struct reference *reference, size_t from, size_t to, int64_t pid,
                             uint64_t start_ticks)
{
    unsigned absent = 0;

    for (size_t i = from + 1; i <= to; i++) {
        const struct process_metric *process = find_pid(reference, i, pid);
        if (process && process->start_ticks != start_ticks)
            return false;
        absent = process ? 0 : absent + 1;
        if (absent == 2)
            return false;
    }
    return true;
}

/* The first snapshot of this life of a process that is in snapshot `to`. */
static size_t find_first(const struct reference *reference, size_t to,
                         const struct process_metric *process)
{
    for (size_t from = 0; from < to; from++)
        if (find(reference, from, process->pid, process->start_ticks) &&
            is_there_between(reference, from, to, process->pid, process->start_ticks))
            return from;
    return to;
}

/* The snapshot at which its program last changed, after `first`; `first` if it never did. */
static size_t find_exec(const struct reference *reference, size_t first, size_t to, int64_t pid)
{
    for (size_t at = to; at > first; at--)
        for (size_t i = 0; i < reference->snapshots[at].event_count; i++)
            if (reference->snapshots[at].events[i].event_type == EVENT_EXEC &&
                reference->snapshots[at].events[i].pid == pid)
                return at;
    return first;
}

static bool is_remembered(const struct reference *reference, size_t wanted)
{
    uint64_t window_ns = (uint64_t)(reference->config.memory_spike_window_seconds * 1e9);
    uint64_t last_ns = 0;
    bool is_one = false;

    for (size_t i = 0; i <= wanted; i++) {
        uint64_t ns = reference->snapshots[i].ns;
        is_one = i == 0 || ns - last_ns >= window_ns / reference->constants.spike_points;
        if (is_one)
            last_ns = ns;
    }
    return is_one;
}

/* ---- findings ---- */

static void add_finding(struct reference *reference, const struct reference_finding *finding)
{
    size_t at = reference->count - 1;
    reference->findings[at][reference->finding_counts[at]++] = *finding;
}

static void add_process_finding(struct reference *reference, enum anomaly_kind kind,
                                const struct process_metric *process, int severity, double value,
                                double threshold)
{
    add_finding(reference, &(struct reference_finding){.kind = kind,
                                                       .pid = process->pid,
                                                       .start_ticks = process->start_ticks,
                                                       .is_process = true,
                                                       .run_id = process->run_id,
                                                       .severity = severity,
                                                       .value = value,
                                                       .threshold = threshold});
}

/* Whether the process was past its start in each snapshot from `from` on. */
static void find_starts(const struct reference *reference, size_t from, size_t to,
                        uint64_t begun_ns, const struct process_metric *process, bool *ret)
{
    uint64_t window_ns = (uint64_t)(reference->config.memory_spike_window_seconds * 1e9);
    uint64_t still_since_ns = 0;
    double still_mb = REAL_UNKNOWN;
    bool has_started = false;

    for (size_t i = from; i < to; i++) {
        const struct process_metric *seen = find(reference, i, process->pid, process->start_ticks);
        uint64_t ns = reference->snapshots[i].ns;

        ret[i] = false;
        if (!seen || !real_is_known(seen->rss_mb))
            continue;
        bool is_waiting = seen->state != 'R' && seen->state != 'D' &&
                          real_is_known(seen->cpu_percent) &&
                          seen->cpu_percent < reference->constants.still_cpu_pct;
        bool is_still =
            is_waiting && real_is_known(still_mb) &&
            fabs(seen->rss_mb - still_mb) <= reference->constants.still_ratio * still_mb;
        if (!is_still) {
            still_mb = seen->rss_mb;
            still_since_ns = ns;
        }
        has_started = has_started || ns - begun_ns >= window_ns ||
                      (is_still && ns - still_since_ns >= reference->constants.still_ns);
        ret[i] = has_started;
    }
}

static double find_baseline(const struct reference *reference, const struct process_metric *process)
{
    size_t now = reference->count - 1;
    uint64_t window_ns = (uint64_t)(reference->config.memory_spike_window_seconds * 1e9);
    size_t first = find_first(reference, now, process);
    size_t from = find_exec(reference, first, now, process->pid);
    const struct process_metric *newborn =
        find(reference, first, process->pid, process->start_ticks);
    double age_ns = real_is_known(newborn->age_seconds) ? newborn->age_seconds * 1e9 : 0;
    uint64_t begun_ns = reference->snapshots[from].ns;
    bool has_started[REFERENCE_SNAPSHOTS_MAX];
    double latest = REAL_UNKNOWN;

    if (from == first)
        begun_ns -= MIN((uint64_t)age_ns, begun_ns);
    find_starts(reference, from, now, begun_ns, process, has_started);
    for (size_t i = from; i < now; i++) {
        if (!has_started[i])
            continue;
        latest = find(reference, i, process->pid, process->start_ticks)->rss_mb;
        if (reference->snapshots[now].ns - reference->snapshots[i].ns <= window_ns &&
            is_remembered(reference, i))
            return latest;
    }
    return latest;
}

static void check_spike(struct reference *reference, const struct process_metric *process)
{
    double baseline = find_baseline(reference, process);
    double ratio = reference->config.memory_spike_threshold;

    if (!real_is_known(process->rss_mb) || !real_is_known(baseline) || baseline <= 0)
        return;
    if (process->rss_mb >= baseline * ratio &&
        process->rss_mb - baseline >= reference->config.memory_spike_min_mb)
        add_process_finding(reference, ANOMALY_MEMORY_SPIKE, process,
                            process->rss_mb >= 2 * (baseline * ratio) ? SEVERITY_CRITICAL
                                                                      : SEVERITY_HIGH,
                            process->rss_mb, baseline * ratio);
}

typedef bool (*holds_fn)(const struct reference *reference, const struct process_metric *process);

static bool is_busy(const struct reference *reference, const struct process_metric *process)
{
    return real_is_known(process->cpu_percent) &&
           process->cpu_percent >= reference->config.runaway_cpu_threshold;
}

static bool is_stuck(const struct reference *reference _unused_,
                     const struct process_metric *process)
{
    return process->state == 'D';
}

static bool is_zombie(const struct reference *reference _unused_,
                      const struct process_metric *process)
{
    return process->state == 'Z';
}

/* In how many snapshots in a row, up to the last, it holds; and for how long. */
static size_t count_streak(const struct reference *reference, const struct process_metric *process,
                           holds_fn holds, uint64_t *ret_ns)
{
    size_t now = reference->count - 1, count = 0;

    *ret_ns = 0;
    while (count <= now) {
        const struct process_metric *seen =
            find(reference, now - count, process->pid, process->start_ticks);
        if (!seen || !holds(reference, seen))
            break;
        *ret_ns = reference->snapshots[now].ns - reference->snapshots[now - count].ns;
        count++;
    }
    return count;
}

static void check_streaks(struct reference *reference, const struct process_metric *process)
{
    uint64_t ns;

    if (count_streak(reference, process, is_busy, &ns) &&
        ns >= (uint64_t)(reference->config.runaway_duration_seconds * 1e9))
        add_process_finding(reference, ANOMALY_RUNAWAY_PROCESS, process,
                            process->run_id ? SEVERITY_LOW : SEVERITY_CRITICAL,
                            process->cpu_percent, reference->config.runaway_cpu_threshold);
    if (count_streak(reference, process, is_stuck, &ns) && ns >= reference->constants.stuck_ns)
        add_process_finding(reference, ANOMALY_STUCK_PROCESS, process, SEVERITY_MEDIUM,
                            ns_to_sec(ns), ns_to_sec(reference->constants.stuck_ns));
}

static bool is_below_sonde(const struct reference *reference, const struct process_metric *process)
{
    size_t now = reference->count - 1;
    const struct reference_snapshot *snapshot = &reference->snapshots[now];
    int64_t ppid = process->ppid;

    /* After as many steps as there are processes the parents form a cycle. */
    for (size_t i = 0; i <= snapshot->process_count; i++) {
        if (ppid == snapshot->daemon_pid)
            return true;
        const struct process_metric *parent = find_pid(reference, now, ppid);
        if (!parent)
            return false;
        ppid = parent->ppid;
    }
    return false;
}

static void check_zombie(struct reference *reference, const struct process_metric *process)
{
    uint64_t ns;

    if (count_streak(reference, process, is_zombie, &ns) >= reference->constants.zombie_snapshots &&
        ns >= reference->constants.zombie_ns &&
        (process->run_id || is_below_sonde(reference, process)))
        add_process_finding(reference, ANOMALY_ZOMBIE, process, SEVERITY_HIGH, 1, 1);
}

static void check_fds(struct reference *reference, const struct process_metric *process)
{
    bool has_limit = int_is_known(process->fd_limit);
    bool is_small = !has_limit || process->fd_limit <= reference->constants.fd_small_limit;
    double limit = (double)process->fd_limit, open = (double)process->open_fds;
    double by_ratio = reference->config.fd_exhaustion_ratio * limit;
    double by_number = (double)reference->config.fd_exhaustion_threshold;

    if (!int_is_known(process->open_fds) || process->open_fds <= 0)
        return;
    if (!((has_limit && open >= by_ratio) || (is_small && open >= by_number)))
        return;
    double threshold = !has_limit ? by_number : is_small ? fmin(by_ratio, by_number) : by_ratio;
    add_process_finding(reference, ANOMALY_FD_EXHAUSTION, process,
                        has_limit && open >= 0.95 * limit ? SEVERITY_CRITICAL : SEVERITY_HIGH, open,
                        threshold);
}

/* ---- memory_leak ---- */

struct points {
    double seconds[REFERENCE_SNAPSHOTS_MAX];
    double mb[REFERENCE_SNAPSHOTS_MAX];
    uint64_t ns[REFERENCE_SNAPSHOTS_MAX];
    size_t count;
};

static int compare(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static double median_slope(const struct points *points)
{
    static double slopes[REFERENCE_SNAPSHOTS_MAX * REFERENCE_SNAPSHOTS_MAX];
    size_t count = 0;

    for (size_t i = 0; i < points->count; i++)
        for (size_t k = 0; k < i; k++)
            slopes[count++] =
                (points->mb[i] - points->mb[k]) / (points->seconds[i] - points->seconds[k]);
    qsort(slopes, count, sizeof(*slopes), compare);
    /* Not (a + b) / 2, which may differ in its last bit: values are compared exactly. */
    double low = slopes[(count - 1) / 2], high = slopes[count / 2];
    return low + (high - low) / 2;
}

static double rank_correlation(const struct points *points)
{
    double rising = 0, falling = 0, pairs = 0;

    for (size_t i = 0; i < points->count; i++)
        for (size_t k = 0; k < i; k++) {
            pairs++;
            rising += points->mb[i] > points->mb[k];
            falling += points->mb[i] < points->mb[k];
        }
    return (rising - falling) / pairs;
}

static void thin_out(struct points *points)
{
    for (size_t i = 0; i < points->count / 2; i++) {
        points->ns[i] = points->ns[2 * i];
        points->mb[i] = points->mb[2 * i];
    }
    points->count /= 2;
}

/* The points as they were when the last one was taken. */
static void find_points(const struct reference *reference, const struct process_metric *process,
                        struct points *ret)
{
    size_t now = reference->count - 1;
    size_t from = find_exec(reference, find_first(reference, now, process), now, process->pid);
    uint64_t period_ns = reference->constants.leak_period_ns;
    static struct points points;
    bool has_taken_last = true;

    points.count = 0;
    for (size_t i = from; i <= now; i++) {
        const struct process_metric *seen = find(reference, i, process->pid, process->start_ticks);
        uint64_t ns = reference->snapshots[i].ns;

        if (!seen || !real_is_known(seen->rss_mb) ||
            (points.count && ns - points.ns[points.count - 1] < period_ns))
            continue;
        if (points.count == reference->constants.leak_points_max) {
            *ret = points;
            thin_out(&points);
            period_ns *= 2;
            has_taken_last = ns - points.ns[points.count - 1] >= period_ns;
            if (!has_taken_last)
                continue;
        }
        points.ns[points.count] = ns;
        points.mb[points.count++] = seen->rss_mb;
        has_taken_last = true;
    }
    if (has_taken_last)
        *ret = points;
    for (size_t i = 0; i < ret->count; i++)
        ret->seconds[i] = ns_to_sec(ret->ns[i] - ret->ns[0]);
}

static void check_leak(struct reference *reference, const struct process_metric *process)
{
    const struct detect_constants *constants = &reference->constants;
    static struct points points;
    double least = INFINITY, most = -INFINITY;

    find_points(reference, process, &points);
    if (points.count < constants->leak_points_min ||
        points.ns[points.count - 1] - points.ns[0] < constants->leak_span_ns)
        return;
    for (size_t i = 0; i < points.count; i++) {
        least = fmin(least, points.mb[i]);
        most = fmax(most, points.mb[i]);
    }
    double growth = fmin(median_slope(&points) * points.seconds[points.count - 1], most - least);
    double needed = fmax(constants->leak_growth_mb, constants->leak_growth_ratio * points.mb[0]);
    if (rank_correlation(&points) >= constants->leak_tau && growth >= needed)
        add_process_finding(reference, ANOMALY_MEMORY_LEAK, process, SEVERITY_MEDIUM, growth,
                            needed);
}

static void find_findings(struct reference *reference)
{
    const struct reference_snapshot *now = &reference->snapshots[reference->count - 1];

    for (size_t i = 0; i < now->process_count; i++) {
        check_spike(reference, &now->processes[i]);
        check_streaks(reference, &now->processes[i]);
        check_zombie(reference, &now->processes[i]);
        check_fds(reference, &now->processes[i]);
        check_leak(reference, &now->processes[i]);
    }
    for (size_t i = 0; i < now->event_count; i++)
        if (now->events[i].event_type == EVENT_OOM)
            add_finding(reference, &(struct reference_finding){.kind = ANOMALY_OOM_KILL,
                                                               .pid = now->events[i].pid,
                                                               .run_id = now->events[i].run_id,
                                                               .severity = SEVERITY_CRITICAL,
                                                               .value = now->events[i].peak_rss_mb,
                                                               .threshold = REAL_UNKNOWN});
    if (now->total_mb > 0 &&
        now->available_mb / now->total_mb < reference->config.memory_pressure_fraction)
        add_finding(reference,
                    &(struct reference_finding){
                        .kind = ANOMALY_MEMORY_PRESSURE,
                        .pid = INT_UNKNOWN,
                        .severity = SEVERITY_CRITICAL,
                        .value = now->available_mb,
                        .threshold = now->total_mb * reference->config.memory_pressure_fraction});
}

/* ---- episodes ---- */

static bool folds(const struct reference_finding *finding)
{
    return finding->run_id || finding->kind == ANOMALY_ZOMBIE;
}

static bool is_of(const struct reference_finding *finding, const struct reference_episode *episode)
{
    if (finding->kind != episode->kind || !is_same_text(finding->run_id, episode->run_id))
        return false;
    return episode->is_folded ||
           (finding->pid == episode->pid && finding->start_ticks == episode->start_ticks);
}

/* Whether the finding of snapshot `at` is still part of the episode. */
static bool is_still_in(const struct reference *reference, size_t at,
                        const struct reference_finding *finding)
{
    const struct detect_constants *constants = &reference->constants;
    size_t now = reference->count - 1;

    for (size_t i = at + 1; i <= now; i++) {
        /* It has moved to another run. */
        for (size_t k = 0; k < reference->finding_counts[i]; k++) {
            const struct reference_finding *later = &reference->findings[i][k];
            if (later->kind == finding->kind && later->pid == finding->pid &&
                int_is_known(finding->pid) && !is_same_text(later->run_id, finding->run_id))
                return false;
        }
        /* Its run has ended. */
        if (finding->run_id && is_same_text(reference->snapshots[i].ended_run, finding->run_id))
            return false;
    }
    if (finding->is_process &&
        !is_there_between(reference, at, now, finding->pid, finding->start_ticks))
        return false;
    return now - at < constants->quiet_snapshots ||
           (double)(reference->snapshots[now].ns - reference->snapshots[at].ns) <
               reference->config.clear_seconds * 1e9;
}

static bool has_ended(const struct reference *reference, const struct reference_episode *episode)
{
    size_t now = reference->count - 1;

    return episode->run_id && episode->opened < now &&
           is_same_text(reference->snapshots[now].ended_run, episode->run_id);
}

static bool has_members(const struct reference *reference, const struct reference_episode *episode)
{
    if (has_ended(reference, episode))
        return false;
    for (size_t i = episode->opened; i < reference->count; i++)
        for (size_t k = 0; k < reference->finding_counts[i]; k++)
            if (is_of(&reference->findings[i][k], episode) &&
                is_still_in(reference, i, &reference->findings[i][k]))
                return true;
    return false;
}

static bool is_value_worse(enum anomaly_kind kind, double value, double other, double factor)
{
    if (!real_is_known(other))
        return real_is_known(value);
    if (kind == ANOMALY_MEMORY_PRESSURE)
        return value < other && value <= other / factor;
    return value > other && value >= other * factor;
}

static bool is_worse(const struct reference_finding *finding, const struct reference_finding *other)
{
    return finding->severity > other->severity ||
           (finding->severity == other->severity &&
            is_value_worse(finding->kind, finding->value, other->value, 1));
}

/* Merges the findings of one snapshot into one. Returns whether there were any. */
static bool sum_up(const struct reference *reference, size_t at,
                   const struct reference_episode *episode, struct reference_finding *ret)
{
    size_t count = 0;

    for (size_t i = 0; i < reference->finding_counts[at]; i++) {
        const struct reference_finding *finding = &reference->findings[at][i];
        if (!is_of(finding, episode))
            continue;
        if (count++ == 0 || is_worse(finding, ret))
            *ret = *finding;
    }
    if (count && episode->kind == ANOMALY_ZOMBIE)
        ret->value = (double)count;
    return count > 0;
}

/* The state of an episode: its worst finding, and whether that has to be reported. */
static struct reference_report summarise_episode(const struct reference *reference,
                                                 const struct reference_episode *episode,
                                                 bool *ret_is_news)
{
    struct reference_finding first, worst, reported, now;

    sum_up(reference, episode->opened, episode, &first);
    worst = reported = first;
    *ret_is_news = false;
    for (size_t i = episode->opened + 1; i < reference->count; i++) {
        *ret_is_news = false;
        if (!sum_up(reference, i, episode, &now) || !is_worse(&now, &worst))
            continue;
        worst = now;
        if (worst.severity > reported.severity ||
            is_value_worse(worst.kind, worst.value, reported.value,
                           reference->constants.worse_factor)) {
            reported = worst;
            *ret_is_news = true;
        }
    }
    return (struct reference_report){.kind = episode->kind,
                                     .timestamp = reference->snapshots[episode->opened].timestamp,
                                     .pid = first.pid,
                                     .run_id = episode->run_id,
                                     .severity = worst.severity,
                                     .value = worst.value,
                                     .threshold = worst.threshold,
                                     .cleared_at = REAL_UNKNOWN};
}

static void open_episodes(struct reference *reference)
{
    size_t now = reference->count - 1;

    for (size_t i = 0; i < reference->finding_counts[now]; i++) {
        const struct reference_finding *finding = &reference->findings[now][i];
        bool is_known = false;

        for (size_t k = 0; k < reference->episode_count; k++)
            is_known = is_known || (!reference->episodes[k].is_cleared &&
                                    is_of(finding, &reference->episodes[k]));
        if (!is_known)
            reference->episodes[reference->episode_count++] =
                (struct reference_episode){.kind = finding->kind,
                                           .run_id = finding->run_id,
                                           .is_folded = folds(finding),
                                           .pid = finding->pid,
                                           .start_ticks = finding->start_ticks,
                                           .opened = now};
    }
}

static void add_report(struct reference *reference, struct reference_report report,
                       enum reference_phase phase)
{
    report.phase = phase;
    if (phase == PHASE_CLEARING)
        report.cleared_at = reference->snapshots[reference->count - 1].timestamp;
    reference->reports[reference->report_count++] = report;
}

void reference_check(struct reference *reference)
{
    size_t now = reference->count - 1;

    find_findings(reference);
    open_episodes(reference);
    reference->report_count = 0;
    for (size_t i = 0; i < reference->episode_count; i++) {
        struct reference_episode *episode = &reference->episodes[i];
        bool is_news;

        if (episode->is_cleared)
            continue;
        struct reference_report report = summarise_episode(reference, episode, &is_news);
        episode->is_cleared = !has_members(reference, episode);
        if (episode->opened == now)
            add_report(reference, report, PHASE_OPENING);
        if (episode->is_cleared)
            add_report(reference, report, PHASE_CLEARING);
        else if (is_news)
            add_report(reference, report, PHASE_CHANGE);
    }
}

size_t reference_open_count(const struct reference *reference)
{
    size_t count = 0;

    for (size_t i = 0; i < reference->episode_count; i++)
        count += !reference->episodes[i].is_cleared;
    return count;
}

bool reference_is_in_episode(const struct reference *reference, int64_t pid, uint64_t start_ticks)
{
    for (size_t e = 0; e < reference->episode_count; e++) {
        const struct reference_episode *episode = &reference->episodes[e];
        for (size_t i = episode->opened; i < reference->count && !episode->is_cleared; i++)
            for (size_t k = 0; k < reference->finding_counts[i]; k++) {
                const struct reference_finding *finding = &reference->findings[i][k];
                if (finding->is_process && finding->pid == pid &&
                    finding->start_ticks == start_ticks && is_of(finding, episode) &&
                    is_still_in(reference, i, finding))
                    return true;
            }
    }
    return false;
}
