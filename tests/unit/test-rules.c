/* jobs.rules: the job of an unregistered process. */
#include "unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/macros.h"
#include "config/config.h"
#include "jobs/rules.h"
#include "model/job.h"

static char job_id[JOB_ID_MAX_BYTES + 1];

/* The name that these rules give, or NULL. */
static const char *match(const struct job_rule *rules, size_t count,
                         const struct process_facts *facts)
{
    struct job_rule *copies = malloc(count * sizeof(*copies));
    memcpy(copies, rules, count * sizeof(*copies));
    const struct job_rule_list list = {.items = copies, .count = count};
    struct rules *compiled = NULL;

    assert_int_equal(rules_new(&list, &compiled), 0);
    memset(job_id, 'x', sizeof(job_id));
    int r = rules_match(compiled, facts, job_id);
    assert_in_range(r, 0, 1);
    rules_free(compiled);
    free(copies);
    return r ? job_id : NULL;
}

#define FACTS(...) (&(const struct process_facts){.uid = 0, __VA_ARGS__})
#define MATCH(facts, ...)                                                                          \
    ({                                                                                             \
        const struct job_rule match_rules_[] = {__VA_ARGS__};                                      \
        match(match_rules_, ARRAY_SIZE(match_rules_), (facts));                                    \
    })

static const struct job_rule in_work = {
    .job_id = "work", .kind = JOB_RULE_WORKSPACE, .pattern = "/home/u/work"};

static const char *in_command(const char *command)
{
    return MATCH(FACTS(.command = command), in_work);
}

static const char *in_cwd(const char *cwd)
{
    return MATCH(FACTS(.cwd = cwd), in_work);
}

static void test_a_workspace_in_the_command_line(void **state _unused_)
{
    assert_string_equal(in_command("/home/u/work/run.sh"), "work");
    assert_non_null(in_command("cd /home/u/work"));
    assert_non_null(in_command("make -C /home/u/work all"));
    assert_non_null(in_command("ls /home/u/work/"));
    assert_non_null(in_command("tool --out=/home/u/work/out"));
    assert_non_null(in_command("cc -I/home/u/work/include x.c"));
    assert_non_null(in_command("-L/home/u/work"));
    assert_non_null(in_command("docker run -v /home/u/work:/mnt x"));
    assert_non_null(in_command("sh -c 'cd \"/home/u/work\"; make'"));
    assert_non_null(in_command("sh -c\ncd\t/home/u/work\nmake"));
    assert_non_null(in_command("x /home/u/works /home/u/work")); /* the second one */
    assert_null(in_command("ls /home/u/works"));
    assert_null(in_command("ls /home/u/work2/x"));
    assert_null(in_command("ls /home/u/work.old"));
    assert_null(in_command("ls /mnt/home/u/work"));
    assert_null(in_command("ls ./home/u/work"));
    assert_null(in_command("ls x/home/u/work/y"));
    assert_null(in_command("ls /home/u"));
    assert_null(in_command(""));
}

static void test_a_workspace_above_the_cwd(void **state _unused_)
{
    assert_string_equal(in_cwd("/home/u/work"), "work");
    assert_string_equal(in_cwd("/home/u/work/a/b"), "work");
    assert_null(in_cwd("/home/u/works"));
    assert_null(in_cwd("/home/u"));
    assert_null(in_cwd("/"));
    assert_null(in_cwd("/mnt/home/u/work"));
    assert_null(MATCH(FACTS(), in_work)); /* nothing may be read */
}

static void test_workspaces_that_end_in_slashes(void **state _unused_)
{
    const struct job_rule slashes = {
        .job_id = "x", .kind = JOB_RULE_WORKSPACE, .pattern = "/home/u/work//"};
    const struct job_rule root = {.job_id = "x", .kind = JOB_RULE_WORKSPACE, .pattern = "/"};

    assert_non_null(MATCH(FACTS(.cwd = "/home/u/work"), slashes));
    assert_non_null(MATCH(FACTS(.command = "ls /home/u/work"), slashes));
    assert_null(MATCH(FACTS(.cwd = "/home/u/works"), slashes));
    assert_non_null(MATCH(FACTS(.cwd = "/"), root));
    assert_non_null(MATCH(FACTS(.command = "x"), root));
    assert_null(MATCH(FACTS(), root));
}

static void test_the_built_in_rules(void **state _unused_)
{
    _cleanup_config_ struct config *config = config_new();
    _cleanup_(rules_freep) struct rules *rules = NULL;

    assert_int_equal(rules_new(&config->jobs.rules, &rules), 0);
    const struct fact_request *request = rules_request(rules);
    assert_int_equal(request->facts, FACT_ENVIRONMENT);
    assert_int_equal(request->names.count, 3);
    assert_string_equal(request->names.items[0], "SLURM_JOB_ID");
    assert_string_equal(request->names.items[1], "GITHUB_RUN_ID");
    assert_string_equal(request->names.items[2], "GITHUB_JOB");

    const char *values[3] = {NULL, "4711", "build"};
    struct process_facts facts = {.values = {.items = values, .count = 3}};
    assert_int_equal(rules_match(rules, &facts, job_id), 1);
    assert_string_equal(job_id, "gha-4711-build");
    values[0] = "99"; /* the first rule that matches wins */
    assert_int_equal(rules_match(rules, &facts, job_id), 1);
    assert_string_equal(job_id, "slurm-99");
    values[0] = values[2] = NULL; /* all must be set */
    assert_int_equal(rules_match(rules, &facts, job_id), 0);
    facts.values.count = 0; /* the environment may not be read */
    assert_int_equal(rules_match(rules, &facts, job_id), 0);
}

static void test_each_fact_is_asked_for_once(void **state _unused_)
{
    const char *first[] = {"A", "B"}, *second[] = {"C", "A"};
    struct job_rule items[] = {
        {.job_id = "1", .kind = JOB_RULE_ENV, .names = {.items = first, .count = 2}},
        {.job_id = "{A}{C}", .kind = JOB_RULE_ENV, .names = {.items = second, .count = 2}},
        {.job_id = "2", .kind = JOB_RULE_CGROUP, .pattern = "x"},
        {.job_id = "3", .kind = JOB_RULE_COMMAND, .pattern = "y"},
    };
    const struct job_rule_list list = {.items = items, .count = ARRAY_SIZE(items)};
    _cleanup_(rules_freep) struct rules *rules = NULL;

    assert_int_equal(rules_new(&list, &rules), 0);
    const struct fact_request *request = rules_request(rules);
    assert_int_equal(request->facts, FACT_ENVIRONMENT | FACT_CGROUP | FACT_COMMAND);
    assert_int_equal(request->names.count, 3);
    assert_string_equal(request->names.items[2], "C");

    const char *values[] = {"a", NULL,
                            "c"}; /* B is missing: the second rule, whose order differs */
    const struct process_facts facts = {.values = {.items = values, .count = 3}};
    assert_int_equal(rules_match(rules, &facts, job_id), 1);
    assert_string_equal(job_id, "ac");
}

static void test_no_rules_ask_for_nothing(void **state _unused_)
{
    _cleanup_(rules_freep) struct rules *rules = NULL;

    assert_int_equal(rules_new(&(struct job_rule_list){0}, &rules), 0);
    assert_int_equal(rules_request(rules)->facts, 0);
    assert_int_equal(rules_request(rules)->names.count, 0);
    assert_int_equal(rules_match(rules, FACTS(.command = "x", .cwd = "/"), job_id), 0);
}

static void test_groups_of_patterns(void **state _unused_)
{
    const struct job_rule cgroup = {.job_id = "slurm-{2}@{1}",
                                    .kind = JOB_RULE_CGROUP,
                                    .pattern = "/slurm/uid_([0-9]+)/job_([0-9]+)(/|$)"};
    const struct job_rule command = {
        .job_id = "t-{1}{2}", .kind = JOB_RULE_COMMAND, .pattern = "train\\.py (a)?(b)?"};
    const struct job_rule whole = {.job_id = "{0}", .kind = JOB_RULE_COMMAND, .pattern = "a+b"};

    assert_string_equal(MATCH(FACTS(.cgroup = "/slurm/uid_7/job_42/step_0"), cgroup), "slurm-42@7");
    assert_null(MATCH(FACTS(.cgroup = "/slurm/uid_7/job_"), cgroup));
    assert_null(MATCH(FACTS(.command = "/slurm/uid_7/job_42/step_0"), cgroup));
    assert_null(MATCH(FACTS(), cgroup));
    assert_string_equal(MATCH(FACTS(.command = "python train.py b"), command), "t-b");
    assert_null(MATCH(FACTS(.command = "python train.py"),
                      command)); /* the pattern requires a blank after it */
    assert_string_equal(MATCH(FACTS(.command = "xaaab"), whole), "aaab");
}

static void test_invalid_job_id_is_no_match(void **state _unused_)
{
    const char *names[] = {"V"}, *values[1];
    const struct job_rule rule = {
        .job_id = "{V}", .kind = JOB_RULE_ENV, .names = {.items = names, .count = 1}};
    const struct job_rule next = {.job_id = "next", .kind = JOB_RULE_COMMAND, .pattern = "."};
    const struct process_facts facts = {.command = "x", .values = {.items = values, .count = 1}};
    char longest[JOB_ID_MAX_BYTES + 2];

    values[0] = "a\x1b[31m";
    assert_string_equal(MATCH(&facts, rule, next), "next");
    values[0] = "a~1";
    assert_string_equal(MATCH(&facts, rule, next), "next");
    values[0] = "";
    assert_string_equal(MATCH(&facts, rule, next), "next");
    values[0] = "a\nb";
    assert_null(MATCH(&facts, rule));
    memset(longest, 'l', sizeof(longest));
    longest[JOB_ID_MAX_BYTES + 1] = '\0';
    values[0] = longest;
    assert_null(MATCH(&facts, rule));
    longest[JOB_ID_MAX_BYTES] = '\0';
    assert_string_equal(MATCH(&facts, rule), longest);

    /* a group that is too long, and one that is cut within a character */
    const struct job_rule all = {.job_id = "{1}", .kind = JOB_RULE_COMMAND, .pattern = "(.*)"};
    const struct job_rule half = {.job_id = "{1}", .kind = JOB_RULE_COMMAND, .pattern = "(...)"};
    memset(longest, 'l', sizeof(longest));
    longest[JOB_ID_MAX_BYTES + 1] = '\0';
    assert_null(MATCH(FACTS(.command = longest), all));
    assert_string_equal(MATCH(FACTS(.command = "a\u00e9"), half), "a\u00e9");
    assert_null(MATCH(FACTS(.command = "\u00e9\u00e9"), half));
}

static void test_invalid_pattern_is_rejected(void **state _unused_)
{
    struct job_rule items[] = {
        {.job_id = "1", .kind = JOB_RULE_COMMAND, .pattern = "fine"},
        {.job_id = "2", .kind = JOB_RULE_COMMAND, .pattern = "(a"},
    };
    struct rules *rules = NULL;

    assert_int_equal(rules_new(&(struct job_rule_list){.items = items, .count = 2}, &rules),
                     -EINVAL);
    assert_null(rules);
}

/* Command lines made to be expensive: without the bounds, each takes more than a minute. */
static void test_hostile_texts_cost_little(void **state _unused_)
{
    const size_t length = 128 * 1024;
    const struct job_rule patterns[] = {
        {.job_id = "{1}", .kind = JOB_RULE_COMMAND, .pattern = "(.*)x([0-9]+)"},
        {.job_id = "{1}", .kind = JOB_RULE_COMMAND, .pattern = "(a|ab)*x"},
        {.job_id = "{1}", .kind = JOB_RULE_COMMAND, .pattern = "a.*a.*a.*a.*(x)"},
        {.job_id = "{1}", .kind = JOB_RULE_COMMAND, .pattern = ".*(a.{100}x)"},
        {.job_id = "x", .kind = JOB_RULE_WORKSPACE, .pattern = "/a"},
    };
    _cleanup_free_ char *text = malloc(length + 1);
    unsigned random = 1;
    double started = cpu_seconds();

    for (size_t i = 0; i < length; i++)
        text[i] = i % 2 ? 'a' : '/';
    text[0] = 'b';
    text[length] = '\0';
    assert_null(match(patterns, ARRAY_SIZE(patterns), FACTS(.command = text)));
    memset(text, 'a', length);
    assert_null(match(patterns, ARRAY_SIZE(patterns), FACTS(.command = text)));
    for (size_t i = 0; i < length; i++)
        text[i] = (random = random * 1103515245 + 12345) >> 16 & 1 ? 'a' : 'b';
    assert_null(match(patterns, ARRAY_SIZE(patterns), FACTS(.command = text)));
    assert_true(cpu_seconds() - started < 10); /* 0.2 s */
}

/* glibc's states of a pattern are freed regularly, so that memory does not grow with each text. */
static void test_patterns_still_match_after_many_texts(void **state _unused_)
{
    struct job_rule items[] = {
        {.job_id = "j-{1}", .kind = JOB_RULE_COMMAND, .pattern = ".*([a-f]x{3}).{60}$"}};
    const struct job_rule_list list = {.items = items, .count = 1};
    _cleanup_(rules_freep) struct rules *rules = NULL;
    char text[1024];
    unsigned random = 1;

    assert_int_equal(rules_new(&list, &rules), 0);
    for (int round = 0; round < 50; round++) {
        for (size_t i = 0; i < sizeof(text) - 1; i++) {
            random = random * 1103515245 + 12345;
            text[i] = "abcxxx"[(random >> 16) % 6];
        }
        memcpy(text + sizeof(text) - 1 - 64, "bxxx", 4);
        text[sizeof(text) - 1] = '\0';
        assert_int_equal(rules_match(rules, FACTS(.command = text), job_id), 1);
        assert_string_equal(job_id, "j-bxxx");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_workspace_in_the_command_line),
        cmocka_unit_test(test_a_workspace_above_the_cwd),
        cmocka_unit_test(test_workspaces_that_end_in_slashes),
        cmocka_unit_test(test_the_built_in_rules),
        cmocka_unit_test(test_each_fact_is_asked_for_once),
        cmocka_unit_test(test_no_rules_ask_for_nothing),
        cmocka_unit_test(test_groups_of_patterns),
        cmocka_unit_test(test_invalid_job_id_is_no_match),
        cmocka_unit_test(test_invalid_pattern_is_rejected),
        cmocka_unit_test(test_hostile_texts_cost_little),
        cmocka_unit_test(test_patterns_still_match_after_many_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
