/* First, the processes that pass the filter are sorted. Each job, each step and the remaining
 * processes form a group. In a tree, a process is a child of its parent process, else of its group.
 * Then the rows are made from the groups in order; children of folded rows are omitted. */
#include "top/listing.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

#define NONE SIZE_MAX

const char *arrangement_name(enum arrangement arrangement)
{
    static const char *const names[] = {[BY_JOB] = "jobs", [AS_TREE] = "tree", [AS_LIST] = "list"};
    return names[arrangement];
}

/* ---- keys ---- */

/* FNV-1a. The texts are short, and an attacker gains nothing from equal keys. */
static uint64_t hash(uint64_t seed, const void *bytes, size_t length)
{
    uint64_t value = seed ^ UINT64_C(0xcbf29ce484222325);

    for (size_t i = 0; i < length; i++)
        value = (value ^ ((const unsigned char *)bytes)[i]) * UINT64_C(0x100000001b3);
    return value;
}

uint64_t listing_process_key(const struct process_metric *process)
{
    /* In hundredths of a second, the precision in which start times are stored and sent. */
    const int64_t identity[] = {process->pid, real_is_known(process->start_time)
                                                  ? (int64_t)llround(process->start_time * 100)
                                                  : 0};
    return hash(ROW_PROCESS, identity, sizeof(identity));
}

uint64_t listing_job_key(const char *run_id, const char *job_id)
{
    const char *name = run_id ? run_id : job_id ? job_id : "";
    return hash(ROW_JOB, name, strlen(name));
}

uint64_t listing_sheet_key(uint64_t job_key, int64_t sheet_num)
{
    return hash(job_key ^ ROW_SHEET, &sheet_num, sizeof(sheet_num));
}

/* ---- sets ---- */

bool key_set_has(const struct key_set *set, uint64_t key)
{
    return map_get(&set->keys, key) != NULL;
}

int key_set_toggle(struct key_set *set, uint64_t key)
{
    static char present;

    if (map_remove(&set->keys, key))
        return 0;
    return map_put(&set->keys, key, &present);
}

void key_set_clear(struct key_set *set)
{
    map_clear(&set->keys);
}

void key_set_done(struct key_set *set)
{
    map_done(&set->keys);
}

/* ---- filter and search ---- */

static bool contains(const char *text, const char *wanted)
{
    return text && strcasestr(text, wanted);
}

static bool process_matches(const struct process_metric *process, const char *text)
{
    char pid[24];

    if (!*text)
        return true;
    snprintf(pid, sizeof(pid), "%lld", (long long)process->pid);
    return contains(process->command, text) || contains(process->job_id, text) ||
           strcmp(pid, text) == 0;
}

bool row_matches(const struct row *row, const char *text)
{
    if (row->kind == ROW_PROCESS)
        return process_matches(row->figures, text);
    return row->kind == ROW_JOB && contains(row->job->job_id, text);
}

/* ---- order ---- */

/* A process, or a group, with its sort value. Indices refer to listing_work.sorted. */
struct sorted {
    const struct process_metric *process;
    double value;
    const char *text;   /* the sort value of a text column */
    size_t parent;      /* index; NONE: no parent in the tree */
    size_t group;       /* index of its group */
    size_t first_child; /* index; NONE: no children in the tree */
    size_t next;        /* index of the next child of its parent or group; NONE: the last one */
};

static void set_sort_value(const struct field *field, struct sorted *item)
{
    const void *at = (const char *)item->process + field->offset;

    item->value = REAL_UNKNOWN;
    item->text = NULL;
    if (field->type == FIELD_INT && int_is_known(*(const int64_t *)at))
        item->value = (double)*(const int64_t *)at * (field->unit == UNIT_NONE ? -1 : 1);
    else if (field->type == FIELD_REAL)
        item->value = *(const double *)at;
    else if (field->type == FIELD_CHAR)
        item->value = *(const char *)at;
    else if (field->type == FIELD_TEXT)
        item->text = *(const char *const *)at;
}

/* Larger figures come first, unknown ones last. Texts are ordered from A to Z; numbers without a
 * unit, such as pids, ascend. */
static int compare_values(const struct sorted *a, const struct sorted *b)
{
    if (a->text || b->text)
        return a->text && b->text ? strcasecmp(a->text, b->text)
                                  : (b->text != NULL) - (a->text != NULL);
    bool a_known = real_is_known(a->value), b_known = real_is_known(b->value);
    if (!a_known || !b_known)
        return b_known - a_known;
    return (a->value < b->value) - (a->value > b->value);
}

static int compare_known(double a, double b)
{
    return (a < b) - (a > b); /* an unknown value is equal to all others */
}

/* Rows with equal values are ordered by CPU, memory and pid, so that their order is stable. */
static int compare_sorted(const void *left, const void *right, void *context)
{
    const struct sorted *a = left, *b = right;
    const struct listing_request *request = context;
    int order = compare_values(a, b);

    if (request->is_ascending)
        order = -order;
    if (!order)
        order = compare_known(a->process->cpu_percent, b->process->cpu_percent);
    if (!order)
        order = compare_known(a->process->rss_mb, b->process->rss_mb);
    return order ? order
                 : (a->process->pid > b->process->pid) - (a->process->pid < b->process->pid);
}

/* ---- groups ---- */

struct group {
    enum row_kind kind;
    uint64_t key;
    const struct job_usage *job;
    const struct job_progress *progress;
    int64_t sheet_num;
    size_t parent;    /* the group of a step's job; NONE: not a step */
    size_t processes; /* their number */
    size_t first;     /* its first process in sort order; NONE: none passes the filter */
    struct process_metric figures;
    struct sorted order; /* its sort value among groups of its kind */
};

struct listing_work {
    struct VEC(struct sorted) sorted;
    struct VEC(struct group) groups;
    struct map by_key; /* key of a group: its index + 1 */
    struct map by_pid; /* pid: index in `sorted` + 1 */
    const struct frame *frame;
    const struct listing_request *request;
    int error;
};

static void *as_value(size_t index)
{
    return (void *)(index + 1);
}

static size_t as_index(const void *value)
{
    return value ? (size_t)value - 1 : NONE;
}

static const struct job_progress *find_progress(const struct snapshot *snapshot, uint64_t job_key)
{
    for (size_t i = 0; i < snapshot->job_progress.count; i++) {
        const struct job_progress *progress = &snapshot->job_progress.items[i];
        if (listing_job_key(progress->run_id, progress->job_id) == job_key)
            return progress;
    }
    return NULL;
}

static size_t add_group(struct listing_work *work, const struct group *group)
{
    size_t index = work->groups.count;

    if (VEC_PUSH(&work->groups, *group) < 0 ||
        map_put(&work->by_key, group->key, as_value(index)) < 0) {
        work->error = -ENOMEM;
        return NONE;
    }
    return index;
}

static size_t add_job(struct listing_work *work, const struct job_usage *job)
{
    uint64_t key = listing_job_key(job->run_id, job->job_id);
    struct group group = {
        .kind = ROW_JOB,
        .key = key,
        .job = job,
        .progress = find_progress(work->frame->snapshot, key),
        .sheet_num = INT_UNKNOWN,
        .parent = NONE,
        .first = NONE,
    };

    record_init(&process_metric_record, &group.figures);
    group.figures.cpu_percent = job->cpu_percent;
    group.figures.cpu_seconds = job->cpu_seconds;
    group.figures.rss_mb = job->rss_mb;
    group.figures.job_id = group.figures.command = job->job_id;
    group.figures.run_id = job->run_id;
    return add_group(work, &group);
}

static size_t add_plain_group(struct listing_work *work, enum row_kind kind, uint64_t key,
                              size_t parent, int64_t sheet_num)
{
    struct group group = {
        .kind = kind, .key = key, .sheet_num = sheet_num, .parent = parent, .first = NONE};

    if (parent != NONE) {
        group.job = work->groups.items[parent].job;
        group.progress = work->groups.items[parent].progress;
    }
    record_init(&process_metric_record, &group.figures);
    return add_group(work, &group);
}

/* Finds the group of a process: its step, its job, or the other processes. Adds a new step. */
static size_t find_group(struct listing_work *work, const struct process_metric *process)
{
    if (!process->job_id && !process->run_id)
        return 0; /* the group of other processes */
    uint64_t key = listing_job_key(process->run_id, process->job_id);
    size_t job = as_index(map_get(&work->by_key, key));
    if (job == NONE || !int_is_known(process->sheet_num))
        return job == NONE ? 0 : job;
    uint64_t own_key = listing_sheet_key(key, process->sheet_num);
    size_t sheet = as_index(map_get(&work->by_key, own_key));
    return sheet != NONE ? sheet
                         : add_plain_group(work, ROW_SHEET, own_key, job, process->sheet_num);
}

static void add_real(double *sum, double value)
{
    if (real_is_known(value))
        *sum = real_is_known(*sum) ? *sum + value : value;
}

static void add_figures(struct process_metric *sum, const struct process_metric *process,
                        bool is_job)
{
    if (int_is_known(process->threads))
        sum->threads = (int_is_known(sum->threads) ? sum->threads : 0) + process->threads;
    if (int_is_known(process->open_fds))
        sum->open_fds = (int_is_known(sum->open_fds) ? sum->open_fds : 0) + process->open_fds;
    if (!(sum->age_seconds >= process->age_seconds))
        sum->age_seconds = process->age_seconds;
    if (is_job) /* its figures come from the snapshot and include ended processes */
        return;
    add_real(&sum->cpu_percent, process->cpu_percent);
    add_real(&sum->cpu_seconds, process->cpu_seconds);
    add_real(&sum->rss_mb, process->rss_mb);
}

static void count_process(struct listing_work *work, size_t group,
                          const struct process_metric *process)
{
    for (; group != NONE; group = work->groups.items[group].parent) {
        struct group *at = &work->groups.items[group];
        at->processes++;
        add_figures(&at->figures, process, at->kind == ROW_JOB);
    }
}

static void make_groups(struct listing_work *work)
{
    const struct snapshot *snapshot = work->frame->snapshot;

    add_plain_group(work, ROW_OTHERS, ROW_OTHERS, NONE, INT_UNKNOWN);
    for (size_t i = 0; i < snapshot->jobs.count && !work->error; i++)
        add_job(work, &snapshot->jobs.items[i]);
    for (size_t i = 0; i < snapshot->processes.count && !work->error; i++) {
        const struct process_metric *process = &snapshot->processes.items[i];
        count_process(work, find_group(work, process), process);
    }
}

/* ---- the tree ---- */

/* The parent, if it is shown and in the same group. A parent that seems younger than its child is
 * another process that reused the pid. */
static size_t find_parent(const struct listing_work *work, size_t index)
{
    const struct sorted *item = &work->sorted.items[index];
    size_t at = as_index(map_get(&work->by_pid, (uint64_t)item->process->ppid));

    if (at == NONE || at == index || work->sorted.items[at].group != item->group ||
        work->sorted.items[at].process->start_time > item->process->start_time)
        return NONE;
    return at;
}

/* Whether the parents form a cycle, which is possible for equal start times, or are too many. */
static bool is_in_cycle(const struct listing_work *work, size_t index)
{
    size_t at = work->sorted.items[index].parent;

    for (size_t i = 0; at != NONE && i < LISTING_DEPTH_MAX; i++) {
        if (at == index)
            return true;
        at = work->sorted.items[at].parent;
    }
    return at != NONE; /* deeper than LISTING_DEPTH_MAX */
}

/* Builds the lists of children, backwards, so that each list keeps the sort order. */
static void link_children(struct listing_work *work, bool is_tree)
{
    for (size_t i = 0; i < work->sorted.count; i++)
        work->sorted.items[i].parent = is_tree ? find_parent(work, i) : NONE;
    for (size_t i = 0; is_tree && i < work->sorted.count; i++)
        if (is_in_cycle(work, i))
            work->sorted.items[i].parent = NONE;
    for (size_t i = work->sorted.count; i-- > 0;) {
        struct sorted *item = &work->sorted.items[i];
        size_t *first = item->parent == NONE ? &work->groups.items[item->group].first
                                             : &work->sorted.items[item->parent].first_child;
        item->next = *first;
        *first = i;
    }
}

static void sort_processes(struct listing_work *work)
{
    const struct process_list *processes = &work->frame->snapshot->processes;
    const struct listing_request *request = work->request;

    if (VEC_RESERVE(&work->sorted, processes->count) < 0) {
        work->error = -ENOMEM;
        return;
    }
    for (size_t i = 0; i < processes->count; i++) {
        struct sorted item = {
            .process = &processes->items[i], .parent = NONE, .first_child = NONE, .next = NONE};
        if (!process_matches(item.process, request->filter))
            continue;
        set_sort_value(request->sort, &item);
        work->sorted.items[work->sorted.count++] = item;
    }
    if (work->sorted.count)
        qsort_r(work->sorted.items, work->sorted.count, sizeof(struct sorted), compare_sorted,
                (void *)(uintptr_t)request);
    for (size_t i = 0; i < work->sorted.count && !work->error; i++) {
        struct sorted *item = &work->sorted.items[i];
        item->group = find_group(work, item->process);
        if (map_put(&work->by_pid, (uint64_t)item->process->pid, as_value(i)) < 0)
            work->error = -ENOMEM;
    }
}

/* ---- alarms ---- */

static bool is_worse(const struct anomaly *anomaly, const struct anomaly *than)
{
    return !than || anomaly->severity > than->severity;
}

static void find_alarms(struct listing *listing, const struct frame *frame)
{
    for (size_t i = 0; i < frame->anomalies.count; i++) {
        const struct anomaly *anomaly = &frame->anomalies.items[i];
        for (size_t k = 0; k < listing->rows.count; k++) {
            struct row *row = &listing->rows.items[k];
            bool is_it = row->kind == ROW_PROCESS
                             ? int_is_known(anomaly->pid) && row->figures->pid == anomaly->pid
                             : row->kind == ROW_JOB && anomaly->run_id && row->job->run_id &&
                                   strcmp(row->job->run_id, anomaly->run_id) == 0;
            if (is_it && is_worse(anomaly, row->alarm))
                row->alarm = anomaly;
        }
    }
}

/* ---- rows ---- */

struct walk {
    struct listing *listing;
    struct listing_work *work;
    uint64_t lines; /* as in struct row, for the next row */
};

static struct row *add_row(struct walk *walk, const struct row *row)
{
    if (VEC_PUSH(&walk->listing->rows, *row) < 0) {
        walk->work->error = -ENOMEM;
        return NULL;
    }
    return &walk->listing->rows.items[walk->listing->rows.count - 1];
}

static uint64_t line_at(unsigned depth)
{
    return depth < 64 ? UINT64_C(1) << depth : 0;
}

static void add_processes(struct walk *walk, size_t first, unsigned depth)
{
    struct listing_work *work = walk->work;

    for (size_t i = first; i != NONE && !work->error; i = work->sorted.items[i].next) {
        const struct sorted *item = &work->sorted.items[i];
        uint64_t key = listing_process_key(item->process);
        bool is_folded = item->first_child != NONE && key_set_has(work->request->folded, key);
        bool goes_on = item->next != NONE;
        if (goes_on)
            walk->lines |= line_at(depth);
        else
            walk->lines &= ~line_at(depth);
        add_row(walk, &(struct row){
                          .kind = ROW_PROCESS,
                          .key = key,
                          .figures = item->process,
                          .job = work->groups.items[item->group].job,
                          .sheet_num = item->process->sheet_num,
                          .depth = depth,
                          .lines = walk->lines,
                          .has_children = item->first_child != NONE,
                          .is_folded = is_folded,
                      });
        if (!is_folded)
            add_processes(walk, item->first_child, depth + 1);
    }
    walk->lines &= ~line_at(depth);
}

static bool has_sheets(const struct listing_work *work, size_t job)
{
    for (size_t i = 0; i < work->groups.count; i++)
        if (work->groups.items[i].parent == job)
            return true;
    return false;
}

static size_t count_steps(const struct listing_work *work)
{
    size_t count = 0;

    for (size_t i = 0; i < work->groups.count; i++)
        count += work->groups.items[i].parent != NONE;
    return count;
}

static bool add_group_row(struct walk *walk, size_t index, unsigned depth)
{
    const struct group *group = &walk->work->groups.items[index];
    bool has_children = group->processes > 0;
    bool is_folded = has_children && key_set_has(walk->work->request->folded, group->key);

    add_row(walk, &(struct row){
                      .kind = group->kind,
                      .key = group->key,
                      .figures = &group->figures,
                      .job = group->job,
                      .progress = group->progress,
                      .sheet_num = group->sheet_num,
                      .processes = group->processes,
                      .depth = depth,
                      .has_children = has_children,
                      .is_folded = is_folded,
                  });
    return !is_folded;
}

static int compare_groups(const void *left, const void *right, void *context)
{
    const struct listing_work *work = context;
    const struct group *a = &work->groups.items[*(const size_t *)left];
    const struct group *b = &work->groups.items[*(const size_t *)right];

    if (a->kind == ROW_SHEET)
        return (a->sheet_num > b->sheet_num) - (a->sheet_num < b->sheet_num);
    int order = compare_values(&a->order, &b->order);
    if (work->request->is_ascending)
        order = -order;
    return order ? order : strcmp(a->job->job_id, b->job->job_id);
}

/* Lists the jobs, or the steps of a job (`parent`), in sort order. The caller frees *ret. */
static int order_groups(struct listing_work *work, enum row_kind kind, size_t parent, size_t **ret,
                        size_t *ret_count)
{
    size_t *items = calloc(work->groups.count + 1, sizeof(*items)), count = 0;

    if (!items)
        return -ENOMEM;
    for (size_t i = 0; i < work->groups.count; i++) {
        struct group *group = &work->groups.items[i];
        if (group->kind != kind || group->parent != parent)
            continue;
        group->order.process = &group->figures;
        set_sort_value(work->request->sort, &group->order);
        items[count++] = i;
    }
    qsort_r(items, count, sizeof(*items), compare_groups, work);
    *ret = items;
    *ret_count = count;
    return 0;
}

static void add_sheets(struct walk *walk, size_t job)
{
    _cleanup_free_ size_t *sheets = NULL;
    size_t count = 0;

    if (!has_sheets(walk->work, job))
        return;
    if (order_groups(walk->work, ROW_SHEET, job, &sheets, &count) < 0)
        walk->work->error = -ENOMEM;
    for (size_t i = 0; i < count && !walk->work->error; i++)
        if (add_group_row(walk, sheets[i], 1))
            add_processes(walk, walk->work->groups.items[sheets[i]].first, 2);
}

/* Whether the job or one of its processes passes the filter. */
static bool passes_filter(const struct listing_work *work, size_t job)
{
    const struct group *group = &work->groups.items[job];

    if (!*work->request->filter || group->first != NONE ||
        contains(group->job->job_id, work->request->filter))
        return true;
    for (size_t i = 0; i < work->groups.count; i++)
        if (work->groups.items[i].parent == job && work->groups.items[i].first != NONE)
            return true;
    return false;
}

static void add_grouped(struct walk *walk)
{
    _cleanup_free_ size_t *jobs = NULL;
    const struct listing_work *work = walk->work;
    size_t count = 0;

    if (order_groups(walk->work, ROW_JOB, NONE, &jobs, &count) < 0)
        walk->work->error = -ENOMEM;
    for (size_t i = 0; i < count && !work->error; i++) {
        if (!passes_filter(work, jobs[i]) || !add_group_row(walk, jobs[i], 0))
            continue;
        add_sheets(walk, jobs[i]);
        add_processes(walk, work->groups.items[jobs[i]].first, 1);
    }
    size_t rest = work->groups.items[0].first;
    if (rest == NONE || work->error)
        return;
    if (!count) /* without jobs, a heading for other processes is not needed */
        add_processes(walk, rest, 0);
    else if (add_group_row(walk, 0, 0))
        add_processes(walk, rest, 1);
}

static void add_list(struct walk *walk)
{
    const struct listing_work *work = walk->work;

    for (size_t i = 0; i < work->sorted.count && !work->error; i++) {
        const struct sorted *item = &work->sorted.items[i];
        add_row(walk, &(struct row){.kind = ROW_PROCESS,
                                    .key = listing_process_key(item->process),
                                    .figures = item->process,
                                    .job = work->groups.items[item->group].job,
                                    .sheet_num = item->process->sheet_num});
    }
}

static void work_reset(struct listing_work *work)
{
    work->sorted.count = 0;
    work->groups.count = 0;
    map_clear(&work->by_key);
    map_clear(&work->by_pid);
    work->error = 0;
}

int listing_build(struct listing *listing, const struct frame *frame,
                  const struct listing_request *request)
{
    if (!listing->work && !(listing->work = calloc(1, sizeof(*listing->work))))
        return -ENOMEM;
    struct listing_work *work = listing->work;
    struct walk walk = {.listing = listing, .work = work};

    work_reset(work);
    listing->rows.count = 0;
    listing->frame = frame;
    work->frame = frame;
    work->request = request;
    make_groups(work);
    if (!work->error)
        sort_processes(work);
    if (!work->error && request->arrangement != AS_LIST) {
        link_children(work, request->arrangement == AS_TREE);
        add_grouped(&walk);
    } else if (!work->error) {
        add_list(&walk);
    }
    if (work->error) {
        listing->rows.count = 0;
        return work->error;
    }
    listing->shown_processes = work->sorted.count;
    listing->steps = count_steps(work);
    find_alarms(listing, frame);
    return 0;
}

void listing_done(struct listing *listing)
{
    VEC_DONE(&listing->rows);
    if (listing->work) {
        VEC_DONE(&listing->work->sorted);
        VEC_DONE(&listing->work->groups);
        map_done(&listing->work->by_key);
        map_done(&listing->work->by_pid);
        free(listing->work);
    }
    *listing = (struct listing){0};
}
