/* The rules of `jobs.rules`, each with a template of the job id and one matcher. Patterns are
 * compiled here once as a check, so that errors are found when the file is loaded. */
#include <errno.h>
#include <string.h>

#include "base/suggest.h"
#include "config/config-load.h"
#include "model/job.h"
#include "model/rule-pattern.h"

/* The keys of a rule. */
enum rule_part {
    PART_WORKSPACE = JOB_RULE_WORKSPACE,
    PART_ENV = JOB_RULE_ENV,
    PART_CGROUP = JOB_RULE_CGROUP,
    PART_COMMAND = JOB_RULE_COMMAND,
    PART_JOB_ID,
    PART_COUNT,
};

static const char *const part_paths[PART_COUNT] = {
    [PART_WORKSPACE] = "jobs.rules.workspace", [PART_ENV] = "jobs.rules.env",
    [PART_CGROUP] = "jobs.rules.cgroup",       [PART_COMMAND] = "jobs.rules.command",
    [PART_JOB_ID] = "jobs.rules.job_id",
};

static const char *part_name(int part)
{
    return strrchr(part_paths[part], '.') + 1;
}

static const char *check_variable(const char *word)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_";

    if (!strchr(letters, *word))
        return "is not the name of a variable";
    for (; *word; word++)
        if (!strchr(letters, *word) && (*word < '0' || *word > '9'))
            return "is not the name of a variable";
    return NULL;
}

/* Checks a pattern. Returns whether it is valid, and the number of its groups. */
static bool check_pattern(struct config_apply *apply, const struct config_node *node,
                          const char *path, size_t *ret_groups)
{
    const char *problem = config_text_problem(node, RULE_PATTERN_MAX_BYTES);
    char reason[128];
    regex_t regex;

    int r = problem ? -EINVAL : rule_pattern_compile(node->text, &regex, reason, sizeof(reason));
    if (r == 0) {
        *ret_groups = regex.re_nsub;
        regfree(&regex);
    } else if (r == -ENOMEM) {
        apply->error = r;
    } else {
        config_report_value(apply, node, path, "is not a usable pattern: %s",
                            problem ? problem : reason);
    }
    return r == 0;
}

/* The placeholders that a template may use: the variables of an env rule, or group numbers. */
struct placeholders {
    const struct job_rule *rule;
    size_t groups;
    const char *missing; /* the first unknown placeholder */
    size_t missing_length;
};

static bool has_placeholder(const struct placeholders *placeholders, const char *name,
                            size_t length)
{
    const struct text_list *names = &placeholders->rule->names;

    for (size_t i = 0; i < names->count; i++)
        if (strlen(names->items[i]) == length && memcmp(names->items[i], name, length) == 0)
            return true;
    if (placeholders->rule->kind != JOB_RULE_CGROUP && placeholders->rule->kind != JOB_RULE_COMMAND)
        return false;
    return length == 1 && *name >= '0' && *name <= '9' &&
           (size_t)(*name - '0') <= placeholders->groups;
}

static const char *find_placeholder(void *data, const char *name, size_t length)
{
    struct placeholders *placeholders = data;

    if (has_placeholder(placeholders, name, length))
        return "";
    placeholders->missing = name;
    placeholders->missing_length = length;
    return NULL;
}

static bool check_template(struct config_apply *apply, const struct config_node *node,
                           struct placeholders *placeholders)
{
    _cleanup_text_ struct text expanded = {0};
    const char *path = part_paths[PART_JOB_ID];
    const char *reason = config_text_problem(node, JOB_ID_MAX_BYTES);

    if (!reason)
        job_id_check(node->text, &reason);
    if (reason) {
        config_report_value(apply, node, path, "%s", reason);
        return false;
    }

    int r = job_rule_expand(node->text, find_placeholder, placeholders, &expanded);
    if (r == -ENOMEM)
        apply->error = r;
    else if (r == -EINVAL)
        config_report_value(apply, node, path, "has an unmatched brace or an empty placeholder");
    else if (r == -ENOENT)
        config_report_value(apply, node, path, "uses {%.*s}, which '%s' does not define",
                            (int)placeholders->missing_length, placeholders->missing,
                            job_rule_kind_name(placeholders->rule->kind));
    return r == 0;
}

static void report_part_unknown(struct config_apply *apply, const struct config_node *name)
{
    struct suggestion nearest = {0};
    _cleanup_text_ struct text path = {0};

    for (int part = 0; part < PART_COUNT; part++)
        suggestion_consider(&nearest, name->text, name->length, part_name(part),
                            strlen(part_name(part)));
    text_append_string(&path, "jobs.rules.");
    text_append_visible(&path, name->text, name->length, 60);
    if (text_error(&path) < 0)
        apply->error = -ENOMEM;
    else if (nearest.name)
        config_report(apply, name, text_string(&path), "unknown key; did you mean '%s'?",
                      nearest.name);
    else
        config_report(apply, name, text_string(&path), "unknown key");
}

/* Returns the part of a rule that a key names. Otherwise reports an error and returns -1. */
static int find_part(struct config_apply *apply, const struct config_node *name)
{
    if (!config_apply_expect(apply, name, NODE_SCALAR, "jobs.rules", "a key"))
        return -1;
    for (int part = 0; part < PART_COUNT; part++)
        if (strlen(part_name(part)) == name->length &&
            memcmp(part_name(part), name->text, name->length) == 0)
            return part;
    report_part_unknown(apply, name);
    return -1;
}

/* Sorts the keys of a rule into `parts`. Returns whether there are exactly a job_id and one
 * matcher. */
static bool sort_parts(struct config_apply *apply, const struct config_node *rule,
                       const struct config_node *parts[static PART_COUNT], int *ret_matcher)
{
    bool fine = true;
    int matcher = -1;

    for (const struct config_node *name = rule->first; name; name = name->next->next) {
        int part = find_part(apply, name);
        if (part < 0) {
            fine = false;
        } else if (parts[part]) {
            config_report(apply, name, part_paths[part], "duplicate key; first on line %u",
                          parts[part]->line);
            fine = false;
        } else if (part != PART_JOB_ID && matcher >= 0) {
            config_report(apply, name, part_paths[part],
                          "the rule has '%s' already (allowed: one of workspace, env, cgroup, "
                          "command)",
                          part_name(matcher));
            fine = false;
        } else {
            parts[part] = name->next;
            matcher = part == PART_JOB_ID ? matcher : part;
        }
    }
    if (fine && !parts[PART_JOB_ID]) {
        config_report(apply, rule, "jobs.rules", "the rule has no job_id");
        fine = false;
    }
    if (fine && matcher < 0) {
        config_report(apply, rule, "jobs.rules",
                      "the rule has no matcher (allowed: one of workspace, env, cgroup, command)");
        fine = false;
    }
    *ret_matcher = matcher;
    return fine;
}

static bool set_workspace(struct config_apply *apply, const struct config_node *node,
                          struct job_rule *rule)
{
    _cleanup_text_ struct text problem = {0};

    rule->pattern = config_value_path(&apply->config->arena, node, &problem);
    if (rule->pattern)
        return true;
    if (problem.length == 0)
        apply->error = -ENOMEM;
    else
        config_report_value(apply, node, part_paths[PART_WORKSPACE],
                            "%s (allowed: a path that begins with / or ~/)", text_string(&problem));
    return false;
}

static bool set_variables(struct config_apply *apply, const struct config_node *node,
                          struct job_rule *rule)
{
    const char *path = part_paths[PART_ENV];

    if (!config_apply_expect(apply, node, NODE_LIST, path, "a list of variables"))
        return false;
    if (!node->first) {
        config_report(apply, node, path, "the list of variables is empty");
        return false;
    }
    return config_apply_words(apply, path, "the name of a variable", node, check_variable,
                              &rule->names);
}

static bool set_matcher(struct config_apply *apply, const struct config_node *node,
                        struct job_rule *rule, size_t *ret_groups)
{
    const char *path = part_paths[rule->kind];

    if (rule->kind == JOB_RULE_ENV)
        return set_variables(apply, node, rule);
    if (!config_apply_expect(apply, node, NODE_SCALAR, path,
                             rule->kind == JOB_RULE_WORKSPACE ? "a path" : "a pattern"))
        return false;
    if (rule->kind == JOB_RULE_WORKSPACE)
        return set_workspace(apply, node, rule);
    if (!check_pattern(apply, node, path, ret_groups))
        return false;
    rule->pattern = arena_copy(&apply->config->arena, node->text, node->length);
    if (!rule->pattern)
        apply->error = -ENOMEM;
    return rule->pattern != NULL;
}

static bool set_rule(struct config_apply *apply, const struct config_node *node,
                     struct job_rule *ret)
{
    const struct config_node *parts[PART_COUNT] = {0};
    struct job_rule rule = {0};
    struct placeholders placeholders = {.rule = &rule};
    int matcher;

    if (!config_apply_expect(apply, node, NODE_MAPPING, "jobs.rules", "a rule") ||
        !sort_parts(apply, node, parts, &matcher))
        return false;

    rule.kind = (enum job_rule_kind)matcher;
    const struct config_node *job_id = parts[PART_JOB_ID];
    bool fine = set_matcher(apply, parts[matcher], &rule, &placeholders.groups);
    if (!config_apply_expect(apply, job_id, NODE_SCALAR, part_paths[PART_JOB_ID], "a text") ||
        !fine || !check_template(apply, job_id, &placeholders))
        return false;

    rule.job_id = arena_copy(&apply->config->arena, job_id->text, job_id->length);
    if (!rule.job_id)
        apply->error = -ENOMEM;
    *ret = rule;
    return rule.job_id != NULL;
}

void config_apply_rules(struct config_apply *apply, const struct config_key *key,
                        const struct config_node *node)
{
    struct job_rule_list rules = {.items = NULL};

    for (const struct config_node *item = node->first; item; item = item->next)
        rules.count++;
    if (rules.count > CONFIG_RULES_MAX) {
        config_report(apply, node, key->path, "%zu rules (limit: %d)", rules.count,
                      CONFIG_RULES_MAX);
        return;
    }
    rules.items = arena_alloc(&apply->config->arena, rules.count * sizeof(*rules.items));
    if (!rules.items) {
        apply->error = -ENOMEM;
        return;
    }

    rules.count = 0;
    for (const struct config_node *item = node->first; item; item = item->next)
        rules.count += set_rule(apply, item, &rules.items[rules.count]);
    apply->config->jobs.rules = rules;
}
