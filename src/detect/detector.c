#include "detect/detector.h"

#include <errno.h>
#include <stdlib.h>

#include "detect/anomaly-rules.h"
#include "detect/detect-constants.h"
#include "detect/episodes.h"

struct detector {
    struct anomaly_rules rules;
    struct episodes episodes;
};

int detector_new_with(const struct anomaly_config *config, const struct detect_constants *constants,
                      struct detector **ret)
{
    struct detector *detector = calloc(1, sizeof(*detector));

    if (!detector)
        return -ENOMEM;
    anomaly_rules_init(&detector->rules, config, constants);
    episodes_init(&detector->episodes, config, constants);
    *ret = detector;
    return 0;
}

int detector_new(const struct anomaly_config *config, struct detector **ret)
{
    return detector_new_with(config, &detect_constants_default, ret);
}

void detector_free(struct detector *detector)
{
    if (!detector)
        return;
    episodes_done(&detector->episodes);
    anomaly_rules_done(&detector->rules);
    free(detector);
}

void detector_configure(struct detector *detector, const struct anomaly_config *config)
{
    anomaly_rules_configure(&detector->rules, config);
    episodes_configure(&detector->episodes, config);
}

void detector_redact(struct detector *detector, const struct text_list *words)
{
    episodes_redact(&detector->episodes, words);
}

/* An error of one stage does not stop the next one. */
int detector_check(struct detector *detector, const struct detect_input *input, struct arena *arena,
                   struct anomaly_list *ret)
{
    struct anomaly_rules *rules = &detector->rules;

    int rules_error = anomaly_rules_apply(rules, input);
    const struct episodes_input found = {.findings = &rules->findings,
                                         .processes = &rules->histories,
                                         .jobs = &input->snapshot->jobs,
                                         .now_ns = rules->now_ns,
                                         .timestamp = input->snapshot->timestamp};
    int episodes_error = episodes_apply(&detector->episodes, &found);
    int report_error = episodes_report(&detector->episodes, arena, ret);

    if (rules_error < 0)
        return rules_error;
    return episodes_error < 0 ? episodes_error : report_error;
}

int detector_list_open(const struct detector *detector, struct arena *arena,
                       struct anomaly_list *ret)
{
    return episodes_list_open(&detector->episodes, arena, ret);
}

size_t detector_open_count(const struct detector *detector)
{
    return detector->episodes.open_count;
}

bool detector_is_in_episode(const struct detector *detector, pid_t pid, uint64_t start_ticks)
{
    return episodes_have(&detector->episodes, pid, start_ticks);
}

void detector_end_run(struct detector *detector, const char *run_id)
{
    episodes_end_run(&detector->episodes, run_id);
}
