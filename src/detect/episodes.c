#include "detect/episodes.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/hash.h"
#include "base/macros.h"
#include "base/utf8.h"
#include "model/redact.h"

/* Pids listed in a description; the others are only counted. */
#define PIDS_NAMED 8
#define NAME_BYTES 288

struct episode_member {
    struct episode *episode;
    uint64_t key;
    int64_t pid;
    uint64_t start_ticks;
    bool is_process;
    uint64_t fired; /* number of the snapshot */
    uint64_t fired_ns;
    TAILQ_ENTRY(episode_member) neighbours;
};

struct episode {
    enum anomaly_kind kind;
    bool is_folded;
    double timestamp;
    int64_t pid; /* this and the next four are those of the worst finding at the opening */
    int64_t uid;
    int64_t sheet_num;
    char *job_id;
    char *run_id;

    /* The worst finding so far. */
    struct finding_figures worst;
    int64_t worst_pid;
    char name[NAME_BYTES];

    /* All processes that were in it; `pids` has the first ones. */
    int64_t pids[PIDS_NAMED];
    size_t pid_count;
    TAILQ_HEAD(, episode_member) members;

    /* In the current snapshot; `now` is NULL if nothing fired. */
    const struct finding *now;
    size_t firing;

    bool was_reported;
    bool has_changed;
    struct finding_figures reported;
    bool is_over; /* its run has ended */
    bool is_cleared;
    double cleared_at;

    TAILQ_ENTRY(episode) by_age;
    TAILQ_ENTRY(episode) folded;
};

/* ---- members ---- */

static uint64_t process_key(enum anomaly_kind kind, int64_t pid)
{
    static_assert(ANOMALY_KINDS <= 16, "a kind fits into four bits of a key");
    return (uint64_t)pid << 4 | (uint64_t)kind;
}

/* A process is in at most one episode of a kind. A finding without a pid belongs to its run or to
 * the machine: its key is a hash of the run id, which is larger than all pids. */
static uint64_t member_key(enum anomaly_kind kind, const struct finding_subject *subject)
{
    if (int_is_known(subject->pid))
        return process_key(kind, subject->pid);
    uint64_t hash = hash_text(subject->run_id ? subject->run_id : "");
    return process_key(kind, (int64_t)(hash | UINT64_C(1) << 59));
}

static void remove_member(struct episodes *episodes, struct episode_member *member)
{
    map_remove(&episodes->members, member->key);
    TAILQ_REMOVE(&member->episode->members, member, neighbours);
    free(member);
}

static void add_pid(struct episode *episode, int64_t pid)
{
    size_t named = MIN(episode->pid_count, (size_t)PIDS_NAMED);

    for (size_t i = 0; i < named; i++)
        if (episode->pids[i] == pid)
            return;
    if (!int_is_known(pid))
        return;
    if (named < PIDS_NAMED)
        episode->pids[named] = pid;
    episode->pid_count++;
}

static int add_member(struct episodes *episodes, struct episode *episode,
                      const struct finding_subject *subject, struct episode_member **ret)
{
    struct episode_member *member = malloc(sizeof(*member));
    uint64_t key = member_key(episode->kind, subject);

    if (!member || map_put(&episodes->members, key, member) < 0) {
        free(member);
        return -ENOMEM;
    }
    *member = (struct episode_member){.episode = episode,
                                      .key = key,
                                      .pid = subject->pid,
                                      .start_ticks = subject->start_ticks,
                                      .is_process = subject->is_process};
    TAILQ_INSERT_TAIL(&episode->members, member, neighbours);
    add_pid(episode, subject->pid);
    *ret = member;
    return 0;
}

/* ---- episodes ---- */

static void episode_free(struct episode *episode)
{
    free(episode->job_id);
    free(episode->run_id);
    free(episode);
}

/* Returns whether findings of this kind and run share one episode. */
static bool shares_episode(const struct finding *finding)
{
    return finding->subject.run_id || finding->kind == ANOMALY_ZOMBIE;
}

static bool is_same_run(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

static struct episode *find_folded(struct episodes *episodes, const struct finding *finding)
{
    struct episode *episode;

    TAILQ_FOREACH (episode, &episodes->folded, folded)
        if (episode->kind == finding->kind && is_same_run(episode->run_id, finding->subject.run_id))
            return episode;
    return NULL;
}

static int copy_text(const char *text, char **ret)
{
    *ret = text ? strdup(text) : NULL;
    return text && !*ret ? -ENOMEM : 0;
}

static int open_episode(struct episodes *episodes, const struct finding *finding, double timestamp,
                        struct episode **ret)
{
    const struct finding_subject *subject = &finding->subject;
    struct episode *episode = calloc(1, sizeof(*episode));

    if (!episode)
        return -ENOMEM;
    episode->kind = finding->kind;
    episode->is_folded = shares_episode(finding);
    episode->timestamp = timestamp;
    episode->worst = (struct finding_figures){.severity = SEVERITY_UNKNOWN, .value = REAL_UNKNOWN};
    TAILQ_INIT(&episode->members);
    if (copy_text(subject->job_id, &episode->job_id) < 0 ||
        copy_text(subject->run_id, &episode->run_id) < 0) {
        episode_free(episode);
        return -ENOMEM;
    }
    TAILQ_INSERT_TAIL(&episodes->by_age, episode, by_age);
    if (episode->is_folded)
        TAILQ_INSERT_TAIL(&episodes->folded, episode, folded);
    episodes->open_count++;
    *ret = episode;
    return 0;
}

/* Closes the episode; it stays until the clearing is reported. */
static void clear_episode(struct episodes *episodes, struct episode *episode, double timestamp)
{
    episode->is_cleared = true;
    episode->cleared_at = timestamp;
    episodes->open_count--;
    if (episode->is_folded)
        TAILQ_REMOVE(&episodes->folded, episode, folded);
}

static void remove_episode(struct episodes *episodes, struct episode *episode)
{
    TAILQ_REMOVE(&episodes->by_age, episode, by_age);
    episode_free(episode);
}

/* ---- findings ---- */

/* Returns the member of the finding, if it is still the same process in the same run. */
static struct episode_member *find_member(struct episodes *episodes, const struct finding *finding)
{
    const struct finding_subject *subject = &finding->subject;
    struct episode_member *member = map_get(&episodes->members, member_key(finding->kind, subject));

    if (!member || (member->start_ticks == subject->start_ticks &&
                    is_same_run(member->episode->run_id, subject->run_id)))
        return member;
    remove_member(episodes, member);
    return NULL;
}

static int join_episode(struct episodes *episodes, const struct finding *finding, double timestamp,
                        struct episode_member **ret)
{
    struct episode *episode = shares_episode(finding) ? find_folded(episodes, finding) : NULL;
    bool is_new = !episode;
    int r = is_new ? open_episode(episodes, finding, timestamp, &episode) : 0;

    if (r < 0)
        return r;
    r = add_member(episodes, episode, &finding->subject, ret);
    if (r < 0 && is_new) {
        clear_episode(episodes, episode, timestamp);
        remove_episode(episodes, episode);
    }
    return r;
}

static int apply_finding(struct episodes *episodes, const struct episodes_input *input,
                         const struct finding *finding)
{
    struct episode_member *member = find_member(episodes, finding);
    int r = member ? 0 : join_episode(episodes, finding, input->timestamp, &member);

    if (r < 0)
        return r;
    member->fired = input->processes->snapshot;
    member->fired_ns = input->now_ns;

    struct episode *episode = member->episode;
    episode->firing++;
    if (!episode->now || finding_is_worse(finding->kind, &finding->figures, &episode->now->figures))
        episode->now = finding;
    return 0;
}

/* ---- severity ---- */

static void append_pids(const int64_t *pids, size_t named, size_t count, struct text *out)
{
    for (size_t i = 0; i < named; i++)
        text_printf(out, "%s%lld", i ? ", " : count > 1 ? "pids " : "pid ", (long long)pids[i]);
    if (count > named)
        text_printf(out, " and %zu more", count - named);
}

static void append_firing_pids(const struct episode *episode, uint64_t snapshot, struct text *out)
{
    int64_t pids[PIDS_NAMED];
    const struct episode_member *member;
    size_t named = 0;

    TAILQ_FOREACH (member, &episode->members, neighbours)
        if (member->fired == snapshot && named < PIDS_NAMED)
            pids[named++] = member->pid;
    append_pids(pids, named, episode->firing, out);
}

/* Sets the name that the description begins with: the pids of zombies, otherwise the worst process.
 */
static int name_worst(struct episodes *episodes, struct episode *episode, uint64_t snapshot)
{
    struct text *name = &episodes->scratch;

    text_reset(name);
    if (episode->kind == ANOMALY_ZOMBIE)
        append_firing_pids(episode, snapshot, name);
    else
        finding_name_subject(&episode->now->subject, name);
    utf8_clean(episode->name, sizeof(episode->name), text_string(name), name->length);
    return text_error(name);
}

/* Returns the owner of an episode. In a run it is the run's owner, because the description may name
 * processes of several users. For a run that has ended, only the event states the owner. */
static int64_t find_owner(const struct job_usage_list *jobs, const struct finding_subject *subject)
{
    if (!subject->run_id)
        return subject->uid;
    for (size_t i = 0; i < jobs->count; i++)
        if (is_same_run(jobs->items[i].run_id, subject->run_id))
            return jobs->items[i].uid;
    return subject->uid;
}

/* Makes the worst finding of this snapshot the worst of the episode, if it is. Returns 0, or
 * -ENOMEM: then the name of the episode may be truncated. */
static int update_worst(struct episodes *episodes, struct episode *episode,
                        const struct episodes_input *input)
{
    struct finding_figures figures = episode->now->figures;
    bool is_first = episode->worst.severity == SEVERITY_UNKNOWN;
    int r = 0;

    if (episode->kind == ANOMALY_ZOMBIE)
        figures.value = (double)episode->firing;
    if (!is_first && !finding_is_worse(episode->kind, &figures, &episode->worst))
        return 0;
    if (is_first) {
        episode->pid = episode->now->subject.pid;
        episode->uid = find_owner(input->jobs, &episode->now->subject);
        episode->sheet_num = episode->now->subject.sheet_num;
    }
    if (is_first || episode->kind == ANOMALY_ZOMBIE ||
        episode->worst_pid != episode->now->subject.pid)
        r = name_worst(episodes, episode, input->processes->snapshot);
    episode->worst = figures;
    episode->worst_pid = episode->now->subject.pid;
    if (episode->was_reported &&
        (figures.severity > episode->reported.severity ||
         finding_value_is_worse(episode->kind, figures.value, episode->reported.value,
                                episodes->constants.worse_factor)))
        episode->has_changed = true;
    return r;
}

/* ---- ends ---- */

static bool has_left(const struct episodes *episodes, const struct episodes_input *input,
                     const struct episode_member *member)
{
    if (member->episode->is_over)
        return true;
    if (member->is_process &&
        !process_histories_find(input->processes, member->pid, member->start_ticks))
        return true;
    return input->processes->snapshot - member->fired >= episodes->constants.quiet_snapshots &&
           input->now_ns - member->fired_ns >= episodes->clear_ns;
}

static void drop_members(struct episodes *episodes, const struct episodes_input *input,
                         struct episode *episode)
{
    struct episode_member *next;

    for (struct episode_member *member = TAILQ_FIRST(&episode->members); member; member = next) {
        next = TAILQ_NEXT(member, neighbours);
        if (has_left(episodes, input, member))
            remove_member(episodes, member);
    }
}

int episodes_apply(struct episodes *episodes, const struct episodes_input *input)
{
    struct episode *episode;
    int error = 0;

    TAILQ_FOREACH (episode, &episodes->by_age, by_age) {
        episode->now = NULL;
        episode->firing = 0;
    }
    for (size_t i = 0; i < input->findings->count; i++) {
        int r = apply_finding(episodes, input, &input->findings->items[i]);
        error = error ? error : r;
    }
    TAILQ_FOREACH (episode, &episodes->by_age, by_age) {
        if (episode->is_cleared)
            continue;
        int r = episode->now ? update_worst(episodes, episode, input) : 0;
        error = error ? error : r;
        drop_members(episodes, input, episode);
        if (TAILQ_EMPTY(&episode->members))
            clear_episode(episodes, episode, input->timestamp);
    }
    return error;
}

/* ---- reports ---- */

static int describe(const struct episode *episode, struct arena *arena, const char **ret)
{
    _cleanup_text_ struct text text = {0};

    finding_describe(episode->kind, episode->name, &episode->worst, &text);
    if (episode->kind != ANOMALY_ZOMBIE && episode->pid_count > 1) {
        text_printf(&text, " (%zu processes: ", episode->pid_count);
        append_pids(episode->pids, MIN(episode->pid_count, (size_t)PIDS_NAMED), episode->pid_count,
                    &text);
        text_append_char(&text, ')');
    }
    if (text_error(&text) < 0)
        return -ENOMEM;
    *ret = arena_copy(arena, text.bytes, text.length);
    return *ret ? 0 : -ENOMEM;
}

static int copy_into(struct arena *arena, const char *text, const char **ret)
{
    *ret = text ? arena_strdup(arena, text) : NULL;
    return text && !*ret ? -ENOMEM : 0;
}

static int fill_anomaly(const struct episode *episode, struct arena *arena, struct anomaly *ret)
{
    record_init(&anomaly_record, ret);
    ret->timestamp = episode->timestamp;
    ret->anomaly_type = anomaly_kind_name(episode->kind);
    ret->pid = episode->pid;
    ret->sheet_num = episode->sheet_num;
    ret->severity = episode->worst.severity;
    ret->metric_value = episode->worst.value;
    ret->threshold = episode->worst.threshold;
    ret->uid = episode->uid;
    ret->is_opening = false;
    int r = describe(episode, arena, &ret->description);
    if (r == 0)
        r = copy_into(arena, episode->job_id, &ret->job_id);
    return r < 0 ? r : copy_into(arena, episode->run_id, &ret->run_id);
}

enum report_kind {
    REPORT_OPENING,
    REPORT_CHANGE,
    REPORT_CLEARING,
    REPORT_KINDS,
};

static bool is_due(const struct episode *episode, enum report_kind kind)
{
    switch (kind) {
    case REPORT_OPENING: return !episode->was_reported;
    case REPORT_CHANGE:
        return episode->was_reported && episode->has_changed && !episode->is_cleared;
    case REPORT_CLEARING: return episode->is_cleared;
    case REPORT_KINDS: break;
    }
    return false;
}

static int list_reports(struct episodes *episodes, struct arena *arena, struct anomaly_list *list)
{
    struct episode *episode;
    int r = 0;

    for (enum report_kind kind = 0; kind < REPORT_KINDS; kind++)
        TAILQ_FOREACH (episode, &episodes->by_age, by_age) {
            if (!is_due(episode, kind))
                continue;
            struct anomaly *anomaly = &list->items[list->count++];
            r = fill_anomaly(episode, arena, anomaly);
            if (r < 0)
                return r;
            anomaly->is_opening = kind == REPORT_OPENING;
            if (kind == REPORT_CLEARING)
                anomaly->cleared_at = episode->cleared_at;
        }
    return 0;
}

static size_t count_reports(const struct episodes *episodes)
{
    const struct episode *episode;
    size_t count = 0;

    TAILQ_FOREACH (episode, &episodes->by_age, by_age)
        for (enum report_kind kind = 0; kind < REPORT_KINDS; kind++)
            count += is_due(episode, kind);
    return count;
}

static void mark_reported(struct episodes *episodes)
{
    struct episode *next;

    for (struct episode *episode = TAILQ_FIRST(&episodes->by_age); episode; episode = next) {
        next = TAILQ_NEXT(episode, by_age);
        if (!episode->was_reported || episode->has_changed)
            episode->reported = episode->worst;
        episode->was_reported = true;
        episode->has_changed = false;
        if (episode->is_cleared)
            remove_episode(episodes, episode);
    }
}

int episodes_report(struct episodes *episodes, struct arena *arena, struct anomaly_list *ret)
{
    struct anomaly_list list = {0};
    size_t count = count_reports(episodes);

    *ret = list;
    if (!count)
        return 0;
    list.items = arena_alloc(arena, count * sizeof(*list.items));
    int r = list.items ? list_reports(episodes, arena, &list) : -ENOMEM;
    if (r < 0)
        return r;
    mark_reported(episodes);
    *ret = list;
    return 0;
}

int episodes_list_open(const struct episodes *episodes, struct arena *arena,
                       struct anomaly_list *ret)
{
    const struct episode *episode;
    struct anomaly_list list = {
        .items = arena_alloc(arena, MAX(episodes->open_count, (size_t)1) * sizeof(*list.items))};

    if (!list.items)
        return -ENOMEM;
    TAILQ_FOREACH (episode, &episodes->by_age, by_age) {
        if (episode->is_cleared)
            continue;
        int r = fill_anomaly(episode, arena, &list.items[list.count++]);
        if (r < 0)
            return r;
    }
    *ret = list;
    return 0;
}

/* ---- life cycle ---- */

void episodes_configure(struct episodes *episodes, const struct anomaly_config *config)
{
    episodes->clear_ns = (uint64_t)(config->clear_seconds * 1e9);
}

void episodes_redact(struct episodes *episodes, const struct text_list *words)
{
    struct episode *episode;

    TAILQ_FOREACH (episode, &episodes->by_age, by_age)
        redact_buffer(words, episode->name, sizeof(episode->name));
}

void episodes_init(struct episodes *episodes, const struct anomaly_config *config,
                   const struct detect_constants *constants)
{
    *episodes = (struct episodes){.constants = *constants};
    episodes_configure(episodes, config);
    TAILQ_INIT(&episodes->by_age);
    TAILQ_INIT(&episodes->folded);
}

void episodes_done(struct episodes *episodes)
{
    struct episode *episode;

    while ((episode = TAILQ_FIRST(&episodes->by_age))) {
        while (!TAILQ_EMPTY(&episode->members))
            remove_member(episodes, TAILQ_FIRST(&episode->members));
        remove_episode(episodes, episode);
    }
    map_done(&episodes->members);
    text_done(&episodes->scratch);
}

bool episodes_have(const struct episodes *episodes, int64_t pid, uint64_t start_ticks)
{
    for (int kind = 0; kind < ANOMALY_KINDS && episodes->members.count; kind++) {
        const struct episode_member *member =
            map_get(&episodes->members, process_key((enum anomaly_kind)kind, pid));
        if (member && member->is_process && member->start_ticks == start_ticks)
            return true;
    }
    return false;
}

void episodes_end_run(struct episodes *episodes, const char *run_id)
{
    struct episode *episode;

    TAILQ_FOREACH (episode, &episodes->folded, folded)
        if (is_same_run(episode->run_id, run_id))
            episode->is_over = true;
}
