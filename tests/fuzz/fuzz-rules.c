/* The data of a process, against rules of each kind: its command line, directory, cgroup and one
 * variable, separated by newlines. */
#include "fuzz.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "base/utf8.h"
#include "jobs/rules.h"
#include "model/job.h"

#define TEXTS 4

static struct rules *make_rules(void)
{
    static const char *names[] = {"V"};
    static struct job_rule items[] = {
        {.job_id = "v-{V}", .kind = JOB_RULE_ENV, .names = {.items = names, .count = 1}},
        {.job_id = "w", .kind = JOB_RULE_WORKSPACE, .pattern = "/w"},
        {.job_id = "{1}{2}", .kind = JOB_RULE_CGROUP, .pattern = "/job_([^/]+)(/step_(.*))?$"},
        {.job_id = "{0}", .kind = JOB_RULE_COMMAND, .pattern = "(a|ab)*c+.{3}"},
    };
    static const struct job_rule_list list = {.items = items, .count = ARRAY_SIZE(items)};
    struct rules *rules;

    return rules_new(&list, &rules) < 0 ? NULL : rules;
}

/* The next text, as valid UTF-8; NULL at the end. */
static char *take_text(const char **at, const char *end)
{
    if (*at >= end)
        return NULL;
    const char *newline = memchr(*at, '\n', (size_t)(end - *at));
    size_t length = (size_t)((newline ? newline : end) - *at);
    char *text = malloc(3 * length + 1);

    if (text)
        utf8_clean(text, 3 * length + 1, *at, length);
    *at += length + 1;
    return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    static struct rules *rules;
    const char *at = (const char *)bytes, *end = at + length;
    char *texts[TEXTS], job_id[JOB_ID_MAX_BYTES + 1];
    const char *reason;

    if (!rules)
        rules = make_rules();
    assert(rules);
    for (size_t i = 0; i < TEXTS; i++)
        texts[i] = take_text(&at, end);
    const char *values[] = {texts[3]};
    const struct process_facts facts = {.command = texts[0],
                                        .cwd = texts[1],
                                        .cgroup = texts[2],
                                        .values = {.items = values, .count = 1}};
    int r = rules_match(rules, &facts, job_id);
    assert(r == 0 || r == 1);
    if (r)
        assert(job_id_check(job_id, &reason) == 0);
    for (size_t i = 0; i < TEXTS; i++)
        free(texts[i]);
    return 0;
}
