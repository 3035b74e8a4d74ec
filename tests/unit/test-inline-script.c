/* What the text of `sh -c` and `python3 -c` states about the status. */
#include "unit.h"

#include <string.h>

#include "base/macros.h"
#include "explain/inline-script.h"
#include "model/process.h"

static void test_texts(void **state _unused_)
{
    static const struct {
        const char *command, *program;
        int64_t status;
        enum script_end end;
    } cases[] = {
        {"sh -c ls /nope; exit 2", "ls", 2, SCRIPT_SETS_STATUS},
        {"sh -c ls /nope; exit 3", "ls", 2, SCRIPT_UNKNOWN},
        {"sh -c exit 2; ls /nope", "ls", 2, SCRIPT_PASSES_ON},
        {"sh -c ls /nope", "ls", 2, SCRIPT_PASSES_ON},
        {"sh -c a && /bin/ls /nope", "ls", 2, SCRIPT_PASSES_ON},
        {"sh -c ls /nope; true", "ls", 2, SCRIPT_UNKNOWN},
        {"sh -c ls /nope &", "ls", 2, SCRIPT_UNKNOWN},
        {"sh -c ls /nope; exit", "ls", 2, SCRIPT_UNKNOWN},
        {"sh -c ls /nope; exit $?", "ls", 2, SCRIPT_UNKNOWN},
        {"sh -c ls /nope; exit $?; exit 2", "ls", 2, SCRIPT_SETS_STATUS},
        {"sh -c ls /nope; { exit 2; }", "ls", 2, SCRIPT_SETS_STATUS},
        {"sh -c ls /nope\nexit 2\n", "ls", 2, SCRIPT_SETS_STATUS},
        {"sh -c if ! ls /nope; then exit 2; fi", "ls", 2, SCRIPT_SETS_STATUS},
        {"sh -c ls /nope || exit 2", "ls", 2, SCRIPT_STOPS},
        {"sh -c ls /nope || exit 5", "ls", 5, SCRIPT_STOPS},
        {"sh -c ls /nope || { exit 5; }", "ls", 5, SCRIPT_STOPS},
        {"sh -c [ -f x ] || exit 2; ls /nope; exit 3", "ls", 2, SCRIPT_UNKNOWN},
        {"sh -c ls /nope; [ -f x ] || exit 2", "ls", 2, SCRIPT_SETS_STATUS},
        {"sh -c ls /nope; a || exit 5", "ls", 2, SCRIPT_UNKNOWN},
        {"sh -c sh -c \"exit 2\"; exit $?", "sh", 2, SCRIPT_UNKNOWN},
        {"sh -c sh -c \"exit 2\"", "sh", 2, SCRIPT_PASSES_ON},
        {"sh -c echo 'x; exit 2'; ls /nope", "ls", 2, SCRIPT_PASSES_ON},
        {"sh -c ls 'exit' 2; true", "ls", 2, SCRIPT_UNKNOWN},
        {"sh -c cp a b; [ -f c ]", "cp", 1, SCRIPT_SETS_STATUS},
        {"sh -c cp a b; false", "cp", 1, SCRIPT_SETS_STATUS},
        {"sh -c cp test b", "cp", 1, SCRIPT_PASSES_ON},
        {"sh -c cp a b; test -f c", "cp", 2, SCRIPT_UNKNOWN},
        {"sh -c ./x; exit 2", "sh", 2, SCRIPT_SETS_STATUS},
        {"sh -c ./x; exit 2", NULL, 2, SCRIPT_SETS_STATUS},
        {"sh -c x", NULL, 2, SCRIPT_UNKNOWN},
        {"bash -ec ls /nope; exit 2", "ls", 2, SCRIPT_SETS_STATUS},
        {"bash -o pipefail -c ls /nope; exit 2", "ls", 2, SCRIPT_SETS_STATUS},
        {"bash -e -c ls /nope; exit 2", "ls", 2, SCRIPT_SETS_STATUS},
        {"bash --norc -c ls /nope; exit 2", "ls", 2, SCRIPT_SETS_STATUS},
        {"bash x.sh -c ls; exit 2", "ls", 2, SCRIPT_UNKNOWN},
        {"bash", "ls", 2, SCRIPT_UNKNOWN},
        {"bash -c", "ls", 2, SCRIPT_UNKNOWN},
        {"bash -o", "ls", 2, SCRIPT_UNKNOWN},
        {"sh -c 'unclosed exit 2", "ls", 2, SCRIPT_UNKNOWN},
        {NULL, "ls", 2, SCRIPT_UNKNOWN},
        {"make -c ls; exit 2", "ls", 2, SCRIPT_UNKNOWN},
        /* the name as an argument, in a comment, in quotes or in another command */
        {"sh -c git fetch || true; test -d git || exit 3", "git", 3, SCRIPT_SETS_STATUS},
        {"sh -c git fetch || true; test -d git || exit 3", "git", 1, SCRIPT_UNKNOWN},
        {"sh -c echo $(ls /nope) || exit 3", "ls", 3, SCRIPT_SETS_STATUS},
        {"sh -c echo `ls /nope` || exit 3", "ls", 3, SCRIPT_SETS_STATUS},
        {"sh -c echo $(ls /nope)", "ls", 2, SCRIPT_UNKNOWN},
        {"sh -c cat <(ls /nope) || exit 3", "ls", 3, SCRIPT_SETS_STATUS},
        {"sh -c true # ls || exit 3", "ls", 3, SCRIPT_UNKNOWN},
        {"sh -c # ls\nls /nope || exit 3 # no", "ls", 3, SCRIPT_STOPS},
        {"sh -c echo '; ls || exit 3'", "ls", 3, SCRIPT_UNKNOWN},
        {"sh -c find . -exec a \\; ls || exit 3", "ls", 3, SCRIPT_SETS_STATUS},
        {"sh -c ls a || true; ls b || exit 3", "ls", 3, SCRIPT_SETS_STATUS},
        {"sh -c ls a || exit 3; ls b || exit 3", "ls", 3, SCRIPT_STOPS},
        {"sh -c ls a || exit 4; test b || exit 3", "ls", 3, SCRIPT_SETS_STATUS},
        {"sh -c ! ls a || exit 3; test b || exit 3", "ls", 3, SCRIPT_SETS_STATUS},
        {"sh -c ls a && b || exit 3", "ls", 3, SCRIPT_SETS_STATUS},
        {"sh -c f() { ls a || return 3; }; f; test x || exit 3", "ls", 3, SCRIPT_SETS_STATUS},
        {"sh -c f() { exit 3; }; ls a; f", "ls", 3, SCRIPT_SETS_STATUS},
        {"sh -c for i in a b; do [ $i = b ] && exit 2; ls $i; done", "ls", 2, SCRIPT_SETS_STATUS},
        {"sh -c trap 'exit 2' EXIT; ls a", "ls", 2, SCRIPT_UNKNOWN},
        {"sh -c for i in a b; do ls $i || exit 3; done", "ls", 3, SCRIPT_STOPS},
        {"sh -c if true; then ls a || exit 3; else ls b || exit 3; fi", "ls", 3, SCRIPT_STOPS},
        {"sh -c LANG=C nice ls a >log 2>&1 || exit 3", "ls", 3, SCRIPT_STOPS},
        {"sh -c ls a &>log || exit 3", "ls", 3, SCRIPT_STOPS},
        {"sh -c ls a || exit $?", "ls", 2, SCRIPT_STOPS},
        {"sh -c ls a || exit", "ls", 2, SCRIPT_STOPS},
        {"sh -c cp a b || { [ -f c ]; }", "cp", 1, SCRIPT_SETS_STATUS},
        {"sh -c cp a b || { c; exit 3; }", "cp", 3, SCRIPT_SETS_STATUS},
        {"ssh -c ls a; exit 2", "ls", 2, SCRIPT_UNKNOWN}, /* no shell */
        {"python3 -c run(['a'], check=True)", "a", 1, SCRIPT_STOPS},
        {"python3 -c run('a; b', shell=True, check=True)", "sh", 1, SCRIPT_STOPS},
        {"python3 -c subprocess.check_output(['./a'])", "a", 1, SCRIPT_STOPS},
        {"python3 -c check_call([sys.executable, 'a.py'])", "a.py", 1, SCRIPT_STOPS},
        {"python3 -c check_call([sys.executable, '-c', '1/0'])", "python3", 1, SCRIPT_STOPS},
        {"python3 -c check_call(['b', '-c', '1/0'])", "python3", 1, SCRIPT_UNKNOWN},
        {"python3 -c check_call(['b']); a", "a", 1, SCRIPT_STOPS},
        {"python3 -c check_call(['aa', 'a-b'])", "a", 1, SCRIPT_UNKNOWN},
        {"python3 -c check_call(['a']); sys.exit(5)", "a", 1, SCRIPT_STOPS},
        {"python3 -c check_call(['a']); sys.exit(1)", "a", 1, SCRIPT_STOPS},
        {"python3 -c check_call(['a'])", "a", 3, SCRIPT_UNKNOWN},
        {"python3 -c check_call(['a'])", "b", 1, SCRIPT_UNKNOWN},
        {"python3 -c check_call(['a'])", NULL, 1, SCRIPT_UNKNOWN},
        {"python3 -c run(['a'], check=False); 1/0", "a", 1, SCRIPT_UNKNOWN},
        {"python3 -c run(['a']); checked = 1/0", "a", 1, SCRIPT_UNKNOWN},
        {"python3 -c run(['a']); health_check()", "a", 1, SCRIPT_UNKNOWN},
        {"python3 -c run(['a']); 1/0 # check=True", "a", 1, SCRIPT_UNKNOWN},
        {"python3 -c run(['b'], check=True); run(['a']); 1/0", "a", 1, SCRIPT_UNKNOWN},
        {"python3 -c check_call(['b']); call(['a']); 1/0", "a", 1, SCRIPT_UNKNOWN},
        {"python3 -c check_call(['b']); Popen(['a']).wait(); 1/0", "a", 1, SCRIPT_UNKNOWN},
        {"python3 -c try: check_call(['a'])\nexcept E: 1/0", "a", 1, SCRIPT_UNKNOWN},
        {"python3 -c run(['a']); sys.exit(1)", "a", 1, SCRIPT_SETS_STATUS},
        {"python3 -c run(['a']); raise SystemExit(1)", "a", 1, SCRIPT_SETS_STATUS},
        {"python3 -c run(['a']); 1/0", "a", 1, SCRIPT_UNKNOWN},
        {"python3 a.py", "a", 1, SCRIPT_UNKNOWN},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        if (inline_script_end(cases[i].command, cases[i].program, cases[i].status) != cases[i].end)
            fail_msg("'%s', %s: %d", cases[i].command, cases[i].program,
                     inline_script_end(cases[i].command, cases[i].program, cases[i].status));
}

/* A long command line may have been cut: its end is unknown. */
static void test_long_text(void **state _unused_)
{
    char command[COMMAND_MAX_BYTES + 1];

    memset(command, ' ', sizeof(command) - 1);
    command[sizeof(command) - 1] = '\0';
    memcpy(command, "sh -c ls x; exit 2", strlen("sh -c ls x; exit 2"));
    assert_int_equal(inline_script_end(command, "ls", 2), SCRIPT_UNKNOWN);
    command[sizeof(command) - 2] = '\0';
    assert_int_equal(inline_script_end(command, "ls", 2), SCRIPT_SETS_STATUS);
    memset(command + strlen("sh -c "), 'x', 200); /* a long word */
    assert_int_equal(inline_script_end(command, "ls", 2), SCRIPT_UNKNOWN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_long_text),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
