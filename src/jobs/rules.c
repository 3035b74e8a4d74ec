/* The facts about a process may be hostile, and glibc's matcher has no limits:
 * - If a pattern does not match, glibc tries it from every position, which takes quadratic time: 50
 * ms for `(.*)x` and 4 KB, 0.8 s for 16 KB, half a minute if the pattern leads to ever new states.
 *   Therefore it gets only RULE_TEXT_MAX_BYTES of a text, and first an anchored pattern that tests
 * in one pass whether there is a match: 20 µs, 50 ms with ever new states.
 * - It keeps every state that a text has led to, up to 3 KB per byte. Therefore a pattern is
 * compiled again (10 µs) after as many bytes as one text may have. */
#include "jobs/rules.h"

#include <errno.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/macros.h"
#include "base/vec.h"
#include "model/job.h"
#include "model/rule-pattern.h"

/* The part of a command line or path that patterns see. */
#define RULE_TEXT_MAX_BYTES 4096
/* Templates can use {0} to {9}. */
#define GROUPS_MAX 10

struct rule {
    const struct job_rule *rule;
    size_t length;  /* of a workspace, without slashes at its end */
    size_t *values; /* positions of an env rule's variables in the request */

    bool has_regexes;
    regex_t test;  /* whether it matches */
    regex_t regex; /* where, with its groups */
    size_t seen_bytes;
};

struct rules {
    struct rule *items;
    size_t count;
    struct fact_request request;
    size_t names_capacity;
};

/* The values that a template can use. */
struct template_values {
    const struct rule *rule;
    const struct process_facts *facts;
    const char *text;
    regmatch_t groups[GROUPS_MAX];
    char group[JOB_ID_MAX_BYTES + 2]; /* one byte more than valid, so that too long ids fail */
};

/* ---- patterns ---- */

static void free_regexes(struct rule *rule)
{
    if (!rule->has_regexes)
        return;
    regfree(&rule->test);
    regfree(&rule->regex);
    rule->has_regexes = false;
}

static int compile(struct rule *rule)
{
    char anchored[RULE_PATTERN_MAX_BYTES + sizeof("^.*()")], reason[128];

    free_regexes(rule);
    int r = rule_pattern_compile(rule->rule->pattern, &rule->regex, reason, sizeof(reason));
    if (r < 0)
        return r;
    snprintf(anchored, sizeof(anchored), "^.*(%s)", rule->rule->pattern);
    r = regcomp(&rule->test, anchored, REG_EXTENDED | REG_NOSUB);
    if (r != 0) {
        regfree(&rule->regex);
        return r == REG_ESPACE ? -ENOMEM : -EINVAL;
    }
    rule->has_regexes = true;
    rule->seen_bytes = 0;
    return 0;
}

/* Returns 1, 0 or -ENOMEM. */
static int match_pattern(struct rule *rule, const char *text, regmatch_t *ret_groups)
{
    char cut[RULE_TEXT_MAX_BYTES + 1];
    size_t length = strnlen(text, RULE_TEXT_MAX_BYTES);
    int r = 0;

    if (!rule->has_regexes || rule->seen_bytes + length > RULE_TEXT_MAX_BYTES)
        r = compile(rule);
    if (r < 0)
        return r;
    memcpy(cut, text, length);
    cut[length] = '\0';
    rule->seen_bytes += length;
    r = regexec(&rule->test, cut, 0, NULL, 0);
    if (r == 0)
        r = regexec(&rule->regex, cut, GROUPS_MAX, ret_groups, 0);
    if (r == REG_ESPACE)
        return -ENOMEM;
    return r == 0;
}

/* ---- workspaces ---- */

static bool is_at_or_below(const char *path, const char *directory, size_t length)
{
    return strncmp(path, directory, length) == 0 && (path[length] == '/' || !path[length]);
}

/* Whether a path may begin at `at`: at the start of a word, after a separator (`--out=DIR`,
 * `-v DIR:/mnt`), or after an option of one letter (`-IDIR`). */
static bool can_begin(const char *text, const char *at)
{
    static const char separators[] = "=:,;'\"(@";

    if (at == text || (unsigned char)at[-1] <= ' ' || strchr(separators, at[-1]))
        return true;
    return at - text >= 2 && at[-2] == '-' && (at - text == 2 || (unsigned char)at[-3] <= ' ');
}

static bool can_end(const char *at)
{
    return (unsigned char)*at <= ' ' || strchr("/:,;'\")", *at);
}

static bool has_path(const char *text, const char *directory, size_t length)
{
    const char *end = text + strlen(text);

    for (const char *at = text; (at = memmem(at, (size_t)(end - at), directory, length)); at++)
        if (can_begin(text, at) && can_end(at + length))
            return true;
    return false;
}

static bool match_workspace(const struct rule *rule, const struct process_facts *facts)
{
    const char *directory = rule->rule->pattern;

    /* Every path is below the root. */
    if (!rule->length)
        return facts->cwd || facts->command;
    if (facts->cwd && is_at_or_below(facts->cwd, directory, rule->length))
        return true;
    return facts->command && has_path(facts->command, directory, rule->length);
}

/* ---- variables ---- */

static const char *value_of(const struct rule *rule, const struct process_facts *facts, size_t i)
{
    size_t position = rule->values[i];
    return position < facts->values.count ? facts->values.items[position] : NULL;
}

static bool match_variables(const struct rule *rule, const struct process_facts *facts)
{
    for (size_t i = 0; i < rule->rule->names.count; i++)
        if (!value_of(rule, facts, i))
            return false;
    return true;
}

/* ---- templates ---- */

/* A group that did not take part in the match is an empty string. */
static const char *get_group(struct template_values *template_values, size_t number)
{
    const regmatch_t *group = &template_values->groups[number];
    size_t length = group->rm_so < 0 ? 0 : (size_t)(group->rm_eo - group->rm_so);

    length = MIN(length, sizeof(template_values->group) - 1);
    if (length)
        memcpy(template_values->group, template_values->text + group->rm_so, length);
    template_values->group[length] = '\0';
    return template_values->group;
}

static const char *find_value(void *data, const char *name, size_t length)
{
    struct template_values *template_values = data;
    const struct text_list *names = &template_values->rule->rule->names;

    for (size_t i = 0; i < names->count; i++)
        if (strlen(names->items[i]) == length && memcmp(names->items[i], name, length) == 0)
            return value_of(template_values->rule, template_values->facts, i);
    if (!template_values->text || length != 1 || *name < '0' || *name > '9')
        return NULL;
    return get_group(template_values, (size_t)(*name - '0'));
}

/* Returns 1, 0 if the result is not a valid job id, or -ENOMEM. */
static int expand_template(struct template_values *template_values, char *ret_job_id)
{
    _cleanup_text_ struct text job_id = {0};
    const char *reason;

    int r =
        job_rule_expand(template_values->rule->rule->job_id, find_value, template_values, &job_id);
    if (r < 0)
        return r == -ENOMEM ? r : 0;
    if (job_id_check(text_string(&job_id), &reason) < 0)
        return 0;
    strcpy(ret_job_id, job_id.bytes);
    return 1;
}

/* ---- all rules ---- */

static int find_name(const struct text_list *names, const char *name)
{
    for (size_t i = 0; i < names->count; i++)
        if (strcmp(names->items[i], name) == 0)
            return (int)i;
    return -1;
}

static int request_variables(struct rules *rules, struct rule *rule)
{
    const struct text_list *wanted = &rule->rule->names;
    struct text_list *names = &rules->request.names;

    rule->values = calloc(MAX(wanted->count, (size_t)1), sizeof(*rule->values));
    if (!rule->values)
        return -ENOMEM;
    for (size_t i = 0; i < wanted->count; i++) {
        int position = find_name(names, wanted->items[i]);
        if (position < 0) {
            int r = vec_reserve_bytes((void **)&names->items, &rules->names_capacity,
                                      names->count + 1, sizeof(*names->items));
            if (r < 0)
                return r;
            position = (int)names->count;
            names->items[names->count++] = wanted->items[i];
        }
        rule->values[i] = (size_t)position;
    }
    return 0;
}

static int prepare_rule(struct rules *rules, struct rule *rule)
{
    switch (rule->rule->kind) {
    case JOB_RULE_WORKSPACE:
        rules->request.facts |= FACT_COMMAND | FACT_CWD;
        rule->length = strlen(rule->rule->pattern);
        while (rule->length && rule->rule->pattern[rule->length - 1] == '/')
            rule->length--;
        return 0;
    case JOB_RULE_ENV:
        rules->request.facts |= FACT_ENVIRONMENT;
        return request_variables(rules, rule);
    case JOB_RULE_CGROUP: rules->request.facts |= FACT_CGROUP; return compile(rule);
    case JOB_RULE_COMMAND: rules->request.facts |= FACT_COMMAND; return compile(rule);
    }
    return -EINVAL;
}

int rules_new(const struct job_rule_list *list, struct rules **ret)
{
    _cleanup_(rules_freep) struct rules *rules = calloc(1, sizeof(*rules));
    if (!rules)
        return -ENOMEM;

    rules->items = calloc(MAX(list->count, (size_t)1), sizeof(*rules->items));
    if (!rules->items)
        return -ENOMEM;
    for (size_t i = 0; i < list->count; i++) {
        rules->items[i].rule = &list->items[i];
        rules->count++;
        int r = prepare_rule(rules, &rules->items[i]);
        if (r < 0)
            return r;
    }
    *ret = TAKE_PTR(rules);
    return 0;
}

void rules_free(struct rules *rules)
{
    if (!rules)
        return;
    for (size_t i = 0; i < rules->count; i++) {
        free_regexes(&rules->items[i]);
        free(rules->items[i].values);
    }
    free(rules->items);
    free(rules->request.names.items);
    free(rules);
}

void rules_freep(struct rules **rules)
{
    rules_free(*rules);
}

const struct fact_request *rules_request(const struct rules *rules)
{
    return &rules->request;
}

/* Returns 1, 0 or -ENOMEM. */
static int match_rule(struct rule *rule, struct template_values *template_values)
{
    const struct process_facts *facts = template_values->facts;

    switch (rule->rule->kind) {
    case JOB_RULE_WORKSPACE: return match_workspace(rule, facts);
    case JOB_RULE_ENV: return match_variables(rule, facts);
    case JOB_RULE_CGROUP: template_values->text = facts->cgroup; break;
    case JOB_RULE_COMMAND: template_values->text = facts->command; break;
    }
    return template_values->text
               ? match_pattern(rule, template_values->text, template_values->groups)
               : 0;
}

int rules_match(const struct rules *rules, const struct process_facts *facts, char *ret_job_id)
{
    for (size_t i = 0; i < rules->count; i++) {
        struct template_values template_values = {.rule = &rules->items[i], .facts = facts};
        int r = match_rule(&rules->items[i], &template_values);
        if (r > 0)
            r = expand_template(&template_values, ret_job_id);
        if (r != 0)
            return r;
    }
    return 0;
}
