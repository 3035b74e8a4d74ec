/* The cached command line: read once after each exec, and redacted once for each of these and for
 * each change of the words. */
#include "probe/process-command.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/macros.h"
#include "unit.h"

static char tree[] = "/tmp/sonde-command-XXXXXX";
static int root_fd;
static struct process_command command;
/* A test changes the words without a new version: the result changes only if it is redacted anew.
 */
static const char *items[1];
static struct text_list words = {items, 1};
static struct redaction redaction;

static int set_up_tree(void **state _unused_)
{
    char path[64];

    if (!mkdtemp(tree))
        return -1;
    snprintf(path, sizeof(path), "%s/7", tree);
    root_fd = open(tree, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return root_fd < 0 ? -1 : mkdir(path, 0700);
}

static int tear_down_tree(void **state _unused_)
{
    char path[64];

    snprintf(path, sizeof(path), "%s/7/cmdline", tree);
    unlink(path);
    snprintf(path, sizeof(path), "%s/7", tree);
    rmdir(path);
    close(root_fd);
    return rmdir(tree);
}

static int set_up(void **state _unused_)
{
    items[0] = "token";
    redaction = (struct redaction){0};
    redaction_set(&redaction, &words);
    return 0;
}

static int tear_down(void **state _unused_)
{
    process_command_done(&command);
    return 0;
}

static void execute(const char *arguments, size_t size, uint64_t arg_start)
{
    const struct process_title title = {
        .pid = 7, .name = "curl", .arg_start = arg_start, .state = 'S'};
    char path[64];

    snprintf(path, sizeof(path), "%s/7/cmdline", tree);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(arguments, 1, size, file), size);
    fclose(file);
    if (process_command_is_stale(&command, &title))
        assert_int_equal(process_command_refresh(&command, root_fd, &title), 0);
}

#define EXECUTE(arguments, arg_start) execute(arguments, sizeof(arguments), arg_start)

static const char *show(const struct redaction *by)
{
    const char *shown = NULL;

    assert_int_equal(process_command_show(&command, by, &shown), 0);
    return shown;
}

static void test_redacted_once_per_exec(void **state _unused_)
{
    EXECUTE("curl\0--token\0abc", 1000);
    assert_string_equal(show(&redaction), "curl --token ***");
    items[0] = "key"; /* the cached result stays */
    for (int i = 0; i < 3; i++) {
        EXECUTE("curl\0--token\0abc", 1000);
        assert_string_equal(show(&redaction), "curl --token ***");
    }
    EXECUTE("curl\0--token\0abc\0key=d", 2000);
    assert_string_equal(show(&redaction), "curl --token abc key=***");
    EXECUTE("curl", 3000);
    assert_string_equal(show(&redaction), "curl");
}

static void test_redacted_anew_for_other_words(void **state _unused_)
{
    static const char *other_items[] = {"key"}, *same_items[] = {"key"};
    const struct text_list other = {other_items, 1}, same = {same_items, 1};

    EXECUTE("curl\0--token\0abc\0key=d", 1000);
    assert_string_equal(show(&redaction), "curl --token *** key=d");
    assert_true(redaction_set(&redaction, &other));
    assert_string_equal(show(&redaction), "curl --token abc key=***"); /* from the text as read */
    other_items[0] = "token";
    assert_string_equal(show(&redaction), "curl --token abc key=***");
    other_items[0] = "key";
    assert_false(redaction_set(&redaction, &same)); /* a reload that did not change them */
    same_items[0] = "token";
    assert_string_equal(show(&redaction), "curl --token abc key=***");
    assert_true(redaction_set(&redaction, NULL));
    assert_string_equal(show(&redaction), "curl --token abc key=d");
}

/* A process without a command line is read again and again; its name is redacted once. */
static void test_name_without_a_command_line(void **state _unused_)
{
    EXECUTE("", 0);
    assert_string_equal(show(&redaction), "[curl]");
    command.is_redacted = true;
    EXECUTE("", 0);
    assert_true(command.is_redacted);
    EXECUTE("curl\0--token\0abc", 0);
    assert_string_equal(show(&redaction), "curl --token ***");
}

static void test_without_redaction(void **state _unused_)
{
    EXECUTE("curl\0--token\0abc", 1000);
    assert_string_equal(show(NULL), "curl --token abc");
    assert_string_equal(show(&redaction), "curl --token ***");
    assert_string_equal(show(NULL), "curl --token abc");
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(test_redacted_once_per_exec),
        T(test_redacted_anew_for_other_words),
        T(test_name_without_a_command_line),
        T(test_without_redaction),
    };
    return cmocka_run_group_tests(tests, set_up_tree, tear_down_tree);
}
