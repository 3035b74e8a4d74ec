/* The forms of options, and the exact text of each error. */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "cli/arguments.h"

static const struct command_option options[] = {
    {"job", 'j', "ID", ""},
    {"limit", 'n', "N", ""},
    {"quiet", 'q', NULL, ""},
    {"wait", 'w', NULL, ""},
    {"interval", 0, "TIME", ""},
    {"type", 't', "TYPE", "", .is_repeatable = true},
    {"step", 0, "N", "", .old_name = "sheet"},
    {"json", 0, NULL, NULL, .instead = "--summary -"},
};

static char error[256];
static struct arguments arguments;

static int parse(bool stops_at_word, char **argv)
{
    int argc = 0;
    while (argv[argc])
        argc++;
    return arguments_parse(argc, argv, options, ARRAY_SIZE(options), stops_at_word, &arguments,
                           error, sizeof(error));
}

/* String literals are const, argv is not. */
#define W(text)   ((char[]){text})
#define ARGV(...) ((char *[]){W("verb"), __VA_ARGS__, NULL})

#define PARSE(...)           assert_int_equal(parse(false, ARGV(__VA_ARGS__)), 0)
#define PARSE_UP_TO_CMD(...) assert_int_equal(parse(true, ARGV(__VA_ARGS__)), 0)

/* `words` is a list that ends with NULL. */
static void assert_words(int before_dashes, const char *const *words)
{
    int count = 0;

    for (; words[count]; count++) {
        assert_true(count < arguments.count);
        assert_string_equal(arguments.words[count], words[count]);
    }
    assert_int_equal(arguments.count, count);
    assert_null(arguments.words[count]);
    assert_int_equal(arguments.before_dashes, before_dashes);
}

#define WORDS(...) ((const char *[]){__VA_ARGS__ __VA_OPT__(, ) NULL})

static void assert_value(const char *name, const char *value)
{
    assert_true(arguments_has(&arguments, name));
    assert_string_equal(arguments_value(&arguments, name), value);
}

static void assert_flags(bool quiet, bool wait)
{
    assert_int_equal(arguments_has(&arguments, "quiet"), quiet);
    assert_int_equal(arguments_has(&arguments, "wait"), wait);
}

/* ---- forms ---- */

static void test_value_of_a_short_option(void **state _unused_)
{
    PARSE(W("-n5"));
    assert_value("limit", "5");
    PARSE(W("-n"), W("5"));
    assert_value("limit", "5");
    PARSE(W("-n"), W("-5")); /* a value may begin with '-' */
    assert_value("limit", "-5");
    PARSE(W("-n=5")); /* as in other programs, '=' is part of the value */
    assert_value("limit", "=5");
    PARSE(W("-j"), W(""));
    assert_value("job", "");
}

static void test_letters_in_one_argument(void **state _unused_)
{
    PARSE(W("-qw"));
    assert_flags(true, true);
    PARSE(W("-qn5"));
    assert_flags(true, false);
    assert_value("limit", "5");
    PARSE(W("-wqn"), W("5"), W("a"));
    assert_flags(true, true);
    assert_value("limit", "5");
    assert_words(1, WORDS("a"));
    PARSE(W("-nqw")); /* the value, not two flags */
    assert_flags(false, false);
    assert_value("limit", "qw");
}

static void test_value_of_a_long_option(void **state _unused_)
{
    PARSE(W("--job=x"), W("a"));
    assert_value("job", "x");
    PARSE(W("--job"), W("x"), W("a"));
    assert_value("job", "x");
    assert_words(1, WORDS("a"));
    PARSE(W("--job="), W("a"));
    assert_value("job", "");
    assert_words(1, WORDS("a"));
    PARSE(W("--job=a=b"));
    assert_value("job", "a=b");
    PARSE(W("--job=--"));
    assert_value("job", "--");
    PARSE(W("--sheet=4"));
    assert_value("step", "4");
    PARSE(W("--sheet"), W("4"));
    assert_value("step", "4");
}

static void test_words_and_dashes(void **state _unused_)
{
    PARSE(W("a"), W("-w"), W("b"), W("--job=x"), W("c"));
    assert_words(3, WORDS("a", "b", "c"));
    assert_flags(false, true);
    assert_value("job", "x");
    PARSE(W("a"), W("-w"), W("--"), W("b"), W("-q"), W("--"));
    assert_words(1, WORDS("a", "b", "-q", "--"));
    assert_flags(false, true);
    PARSE(W("--"), W("--job"));
    assert_words(0, WORDS("--job"));
    PARSE(W("--"));
    assert_words(0, WORDS());
    PARSE(W("-"), W("-w"), W("-"));
    assert_words(2, WORDS("-", "-"));
    PARSE(W(""));
    assert_words(1, WORDS(""));
    assert_int_equal(parse(false, (char *[]){W("verb"), NULL}), 0);
    assert_words(0, WORDS());
}

static void test_options_of_the_command(void **state _unused_)
{
    PARSE_UP_TO_CMD(W("-w"), W("make"), W("--job"), W("-q"), W("--"), W("x"));
    assert_words(5, WORDS("make", "--job", "-q", "--", "x"));
    assert_flags(false, true);
    assert_false(arguments_has(&arguments, "job"));
    PARSE_UP_TO_CMD(W("-qwjx"), W("--"), W("-w"), W("--"));
    assert_words(0, WORDS("-w", "--"));
    assert_value("job", "x");
    PARSE_UP_TO_CMD(W("-"), W("-w")); /* a command of this name, not an option */
    assert_words(2, WORDS("-", "-w"));
}

static void test_given_again(void **state _unused_)
{
    PARSE(W("-j1"), W("--job"), W("2"), W("-q"), W("-qq"), W("--sheet=3"), W("--step=4"));
    assert_value("job", "2");
    assert_value("step", "4");
    assert_flags(true, false);
}

static void test_repeatable(void **state _unused_)
{
    size_t position = 0;

    PARSE(W("-ta"), W("--type=b"), W("-w"), W("--job=x"), W("--type"), W("a"));
    assert_string_equal(arguments_next_value(&arguments, "type", &position), "a");
    assert_string_equal(arguments_next_value(&arguments, "type", &position), "b");
    assert_string_equal(arguments_next_value(&arguments, "type", &position), "a");
    assert_null(arguments_next_value(&arguments, "type", &position));
    assert_null(arguments_next_value(&arguments, "type", &position));
    position = 0;
    assert_null(arguments_next_value(&arguments, "interval", &position));
}

/* ---- errors ---- */

#define REFUSE(reason, ...)                                                                        \
    do {                                                                                           \
        assert_int_equal(parse(false, ARGV(__VA_ARGS__)), -EINVAL);                                \
        assert_string_equal(error, reason);                                                        \
    } while (0)

static void test_unknown_long_option(void **state _unused_)
{
    REFUSE("unknown option '--zzz'", W("--zzz"));
    REFUSE("unknown option '--zzz'", W("--zzz=value"));
    REFUSE("unknown option '--intervall'; did you mean '--interval'?", W("--intervall=3"));
    REFUSE("unknown option '--jbo'; did you mean '--job'?", W("--jbo"), W("x"));
    REFUSE("unknown option '--'", W("--=x"));
    REFUSE("unknown option '-interval'; did you mean '--interval'?", W("-interval"));
    REFUSE("unknown option '--json'; did you mean '--summary -'?", W("--json"));
    REFUSE("unknown option '--jsn'", W("--jsn"));
}

static void test_unknown_letter(void **state _unused_)
{
    REFUSE("unknown option '-x'", W("-x"));
    REFUSE("unknown option '-x' in '-wx'", W("-wx"));
    REFUSE("unknown option '-x' in '-wxq'", W("-wxq"));
    REFUSE("unknown option '-x' in '-x5'", W("-x5"));
    REFUSE("unknown option '-\u00e9'", W("-\u00e9"));
    REFUSE("unknown option '-\u00e9' in '-w\u00e9q'", W("-w\u00e9q"));
    REFUSE("unknown option '-\xe9' in '-w\xe9'", W("-w\xe9")); /* not valid UTF-8 */
    REFUSE("unknown option '-='", W("-="));
    REFUSE("unknown option '--' in '-w-q'", W("-w-q"));
}

static void test_abbreviation(void **state _unused_)
{
    REFUSE("unknown option '--interva'; did you mean '--interval'?", W("--interva=3"));
    REFUSE("unknown option '--i'; did you mean '--interval'?", W("--i"));
    REFUSE("unknown option '--q'; did you mean '--quiet'?", W("--q=yes"));
    REFUSE("unknown option '--she'; did you mean '--step'?", W("--she=3"));
    REFUSE("unknown option '--js'; did you mean '--summary -'?", W("--js"));
    REFUSE("unknown option '--j'", W("--j")); /* ambiguous */
}

static void test_missing_value(void **state _unused_)
{
    REFUSE("option '--job' needs a value (ID)", W("-j"));
    REFUSE("option '--job' needs a value (ID)", W("--job"));
    REFUSE("option '--job' needs a value (ID)", W("-qj"));
    REFUSE("option '--step' needs a value (N)", W("a"), W("--sheet"));
    /* `run --job -- CMD`: the value was forgotten. */
    REFUSE("option '--job' needs a value (ID)", W("--job"), W("--"), W("x"));
    REFUSE("option '--job' needs a value (ID)", W("-qj"), W("--"), W("x"));
}

static void test_value_of_a_flag(void **state _unused_)
{
    REFUSE("option '--quiet' takes no value", W("--quiet=yes"));
    REFUSE("option '--quiet' takes no value", W("--quiet="));
}

static void test_too_many(void **state _unused_)
{
    char *many[ARGUMENTS_MAX_OPTIONS + 3] = {W("verb")}, word[] = "--wait";

    for (size_t i = 1; i <= ARGUMENTS_MAX_OPTIONS; i++)
        many[i] = word;
    assert_int_equal(parse(false, many), 0);
    many[1] = many[ARGUMENTS_MAX_OPTIONS + 1] = word; /* the NULL after no words was in many[1] */
    assert_int_equal(parse(false, many), -EINVAL);
    assert_string_equal(error, "too many options; at most 32 are allowed");
}

/* Messages keep control characters, which the log escapes, and are cut to their buffer. */
static void test_hostile_options(void **state _unused_)
{
    char word[1000] = "--";

    REFUSE("unknown option '--\x1b[2J'", W("--\x1b[2J"));
    REFUSE("unknown option '-\x1b' in '-w\x1b[2J'", W("-w\x1b[2J"));
    memset(word + 2, 'x', 900);
    assert_int_equal(parse(false, ARGV(word)), -EINVAL);
    assert_int_equal(strlen(error), strlen("unknown option ''") + 120);
    memset(word + 1, 'x', 900);
    assert_int_equal(parse(false, ARGV(word)), -EINVAL);
    assert_int_equal(strlen(error), strlen("unknown option '-x' in '...'") + WORD_SHOWN_BYTES);
}

static void test_long_words_are_cut(void **state _unused_)
{
    char word[1000] = "";

    assert_string_equal(SHOWN("short"), "short");
    memset(word, 'x', 60);
    assert_string_equal(SHOWN(word), word);
    strcpy(word + 59, "\u00e9 and more"); /* not cut within a character */
    assert_int_equal(strlen(SHOWN(word)), 62);
    assert_string_equal(SHOWN(word) + 59, "...");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_value_of_a_short_option),
        cmocka_unit_test(test_letters_in_one_argument),
        cmocka_unit_test(test_value_of_a_long_option),
        cmocka_unit_test(test_words_and_dashes),
        cmocka_unit_test(test_options_of_the_command),
        cmocka_unit_test(test_given_again),
        cmocka_unit_test(test_repeatable),
        cmocka_unit_test(test_unknown_long_option),
        cmocka_unit_test(test_unknown_letter),
        cmocka_unit_test(test_abbreviation),
        cmocka_unit_test(test_missing_value),
        cmocka_unit_test(test_value_of_a_flag),
        cmocka_unit_test(test_too_many),
        cmocka_unit_test(test_hostile_options),
        cmocka_unit_test(test_long_words_are_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
