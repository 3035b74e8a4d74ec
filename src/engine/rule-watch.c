#include "engine/rule-watch.h"

#include <errno.h>
#include <stdlib.h>

#include "probe/process-facts.h"

/* A process is matched when it is first seen, and once more. */
#define MATCHES_MAX 2

/* A process that was seen in a scan. */
struct sighting {
    pid_t pid;
    uint64_t start_ticks;
    unsigned matches;
    unsigned generation; /* the last scan that it was in */
};

static void drop_sightings(struct rule_watch *watch)
{
    size_t position = 0;

    for (struct sighting *sighting; (sighting = map_next(&watch->seen, &position));)
        free(sighting);
    map_clear(&watch->seen);
}

void rule_watch_done(struct rule_watch *watch)
{
    drop_sightings(watch);
    map_done(&watch->seen);
}

void rule_watch_configure(struct rule_watch *watch, const struct rules *rules)
{
    drop_sightings(watch);
    watch->rules = rules;
}

void rule_watch_begin(struct rule_watch *watch)
{
    watch->generation++;
    watch->matched = 0;
}

void rule_watch_end(struct rule_watch *watch)
{
    size_t position = 0;

    if (watch->matched == watch->seen.count) /* all are still there */
        return;
    for (struct sighting *sighting; (sighting = map_next(&watch->seen, &position));)
        if (sighting->generation != watch->generation) {
            free(map_remove(&watch->seen, (uint64_t)sighting->pid));
            position--; /* another may have moved into its place */
        }
}

int rule_watch_match(struct rule_watch *watch, pid_t pid, uint64_t start_ticks, struct arena *arena,
                     struct process_facts *ret_facts, char *ret_job_id)
{
    const struct fact_request *request = watch->rules ? rules_request(watch->rules) : NULL;
    struct sighting *sighting = map_get(&watch->seen, (uint64_t)pid);

    if (!request || !request->facts)
        return 0;
    if (!sighting) {
        sighting = calloc(1, sizeof(*sighting));
        if (!sighting || map_put(&watch->seen, (uint64_t)pid, sighting) < 0) {
            free(sighting);
            return -ENOMEM;
        }
    }
    if (sighting->start_ticks != start_ticks)
        *sighting = (struct sighting){.pid = pid, .start_ticks = start_ticks};
    if (sighting->generation != watch->generation) {
        sighting->generation = watch->generation;
        watch->matched++;
    }
    if (sighting->matches >= MATCHES_MAX)
        return 0;
    sighting->matches++;
    int r = process_facts_read(watch->proc_fd, pid, request, arena, ret_facts);
    if (r < 0)
        return r == -ENOMEM ? r : 0; /* it is gone */
    return rules_match(watch->rules, ret_facts, ret_job_id);
}

void rule_watch_executed(struct rule_watch *watch, pid_t pid)
{
    struct sighting *sighting = map_get(&watch->seen, (uint64_t)pid);

    if (sighting)
        sighting->matches = 0;
}
