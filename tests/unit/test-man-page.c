/* The table of verbs, and the parts of man pages that come from it. */
#include "unit.h"

#include <ctype.h>
#include <string.h>

#include "base/macros.h"
#include "cli/commands.h"
#include "cli/man-page.h"

/* ---- the table ---- */

static void assert_sentence(const char *text)
{
    assert_true(text && (isupper((unsigned char)text[0]) || isdigit((unsigned char)text[0]) ||
                         strncmp(text, "sonde ", 6) == 0 || strncmp(text, "strace(1) ", 10) == 0));
    assert_int_equal(text[strlen(text) - 1], '.');
    assert_null(strstr(text, "  "));
}

static size_t count_name(const struct command *command, const struct command_option *wanted)
{
    size_t count = 0;

    for (size_t i = 0; i < command->option_count + common_option_count; i++) {
        const struct command_option *option = i < command->option_count
                                                  ? &command->options[i]
                                                  : &common_options[i - command->option_count];
        count += strcmp(option->name, wanted->name) == 0 ||
                 (wanted->short_name && option->short_name == wanted->short_name);
    }
    return count;
}

static void check_options(const struct command *command, const struct command_option *options,
                          size_t count)
{
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(count_name(command, &options[i]), 1);
        if (options[i].instead)
            continue;
        assert_sentence(options[i].help);
        if (options[i].more)
            assert_sentence(options[i].more);
        assert_true(!options[i].is_repeatable || options[i].argument);
    }
}

static void test_table_of_verbs(void **state _unused_)
{
    for (size_t i = 0; i < command_count; i++) {
        const struct command *command = commands[i];
        assert_ptr_equal(commands_find(command->name), command);
        assert_sentence(command->summary);
        for (const char *line = command->usage; line; line = strchr(line, '\n')) {
            line += *line == '\n';
            assert_int_equal(strncmp(line, command->name, strlen(command->name)), 0);
        }
        assert_in_range(command->option_count + common_option_count, 1, ARGUMENTS_MAX_OPTIONS);
        check_options(command, command->options, command->option_count);
        check_options(command, common_options, common_option_count);
    }
    assert_null(commands_find("no-such-verb"));
}

/* ---- man pages ---- */

static const struct command_option options[] = {
    {"count", 'n', "N", "Show the latest N, such as 5 (default: CPU count)."},
    {"kind", 0, "KIND", "Show one KIND; see wait4(2) and `a_b *`.", .is_repeatable = true,
     .more = "KIND~1 is not RAM-KINDS, KIND_OF or anyKIND. With -n or --count, 5-n of $THE_KIND "
             "remain.\n\n"
             "The rest is *plain*_, as DIR/x.sock."},
    {"old", 0, NULL, NULL, .instead = "--count"},
};

static const struct command command = {
    .name = "try",
    .summary = "Try things, one by one.",
    .usage = "try check [--kind KIND] [FILE]\n"
             "try [OPTIONS] -- CMD [ARG...]",
    .options = options,
    .option_count = ARRAY_SIZE(options),
};

static void test_name(void **state _unused_)
{
    _cleanup_text_ struct text out = {0};

    man_page_name(&command, &out);
    assert_string_equal(text_string(&out), "sonde-try - try things, one by one\n");
}

static void test_synopsis(void **state _unused_)
{
    _cleanup_text_ struct text out = {0};

    man_page_synopsis(&command, &out);
    assert_string_equal(text_string(&out), "*sonde try check* [*--kind* _KIND_] [_FILE_]\n\n"
                                           "*sonde try* [_OPTIONS_] *--* _CMD_ [_ARG_...]\n");
}

static void test_options(void **state _unused_)
{
    _cleanup_text_ struct text out = {0};

    man_page_options(&command, &out);
    assert_string_equal(
        text_string(&out),
        "*-n*, *--count* _N_\n"
        "\tShow the latest _N_, such as 5 (default: CPU count).\n\n"
        "*--kind* _KIND_\n"
        "\tShow one _KIND_; see *wait4*(2) and *a\\_b \\**. May be repeated. _KIND_~1 is not "
        "RAM-KINDS, KIND\\_OF or anyKIND. With *-n* or *--count*, 5-n of "
        "*$THE\\_KIND* remain.\n\n"
        "\tThe rest is \\*plain\\*\\_, as _DIR_/x.sock.\n\n"
        "*--config* _FILE_, *--state-dir* _DIR_, *--socket* _PATH_, *-h*, *--help*\n"
        "\tAs for every verb, see *sonde*(1).\n\n");
}

static void test_overview(void **state _unused_)
{
    _cleanup_text_ struct text verbs = {0}, common = {0};

    man_page_verbs(&verbs);
    assert_non_null(
        strstr(text_string(&verbs), "*diff*\n\tCompare two runs. See *sonde-diff*(1).\n"));
    assert_non_null(strstr(text_string(&verbs), "as *sonde --version* and *sonde -V* do.\n"));
    man_page_common_options(&common);
    assert_non_null(strstr(text_string(&common), "*-h*, *--help*\n\tShow help for the verb.\n"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table_of_verbs), cmocka_unit_test(test_name),
        cmocka_unit_test(test_synopsis),       cmocka_unit_test(test_options),
        cmocka_unit_test(test_overview),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
