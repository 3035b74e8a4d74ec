/* What `sonde run` does with a signal. */
#include "unit.h"

#include <signal.h>

#include "base/macros.h"
#include "run/signal-action.h"

#define FROM_USER   SI_USER
#define FROM_KERNEL SI_KERNEL

static void test_a_signal_from_a_process_is_passed_on(void **state _unused_)
{
    const struct run_signal_state running = {.command_ended = false};

    assert_int_equal(signal_action_of(SIGTERM, FROM_USER, &running), SIGNAL_PASS_ON);
    assert_int_equal(signal_action_of(SIGINT, FROM_USER, &running), SIGNAL_PASS_ON);
    assert_int_equal(signal_action_of(SIGUSR1, SI_QUEUE, &running), SIGNAL_PASS_ON);
    /* An alarm that was set before sonde was executed. */
    assert_int_equal(signal_action_of(SIGALRM, FROM_KERNEL, &running), SIGNAL_PASS_ON);
}

static void test_a_signal_from_the_terminal_is_not_sent_twice(void **state _unused_)
{
    const struct run_signal_state running = {.command_ended = false};
    const int numbers[] = {SIGINT, SIGQUIT, SIGTSTP, SIGTTIN, SIGTTOU, SIGWINCH, SIGHUP, SIGCONT};

    for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
        assert_true(signal_is_from_terminal(numbers[i], FROM_KERNEL));
        assert_false(signal_is_from_terminal(numbers[i], FROM_USER));
        assert_int_equal(signal_action_of(numbers[i], FROM_KERNEL, &running), SIGNAL_REPORT);
    }
}

static void test_a_hangup_reaches_the_session_leader_only(void **state _unused_)
{
    const struct run_signal_state leader = {.is_session_leader = true};

    assert_int_equal(signal_action_of(SIGHUP, FROM_KERNEL, &leader), SIGNAL_PASS_ON);
    assert_int_equal(signal_action_of(SIGCONT, FROM_KERNEL, &leader), SIGNAL_PASS_ON);
    assert_int_equal(signal_action_of(SIGINT, FROM_KERNEL, &leader), SIGNAL_REPORT);
}

static void test_the_shell_continues_the_whole_group(void **state _unused_)
{
    const struct run_signal_state both = {.was_continued = true}, only_sonde = {0};

    assert_int_equal(signal_action_of(SIGCONT, FROM_USER, &both), SIGNAL_IGNORE);
    assert_int_equal(signal_action_of(SIGCONT, FROM_USER, &only_sonde), SIGNAL_PASS_ON);
    assert_int_equal(signal_action_of(SIGTERM, FROM_USER, &both), SIGNAL_PASS_ON);
}

static void test_after_the_command_sonde_obeys_itself(void **state _unused_)
{
    const struct run_signal_state waiting = {.command_ended = true};
    const struct run_signal_state ignoring = {.command_ended = true, .was_ignored = true};

    assert_int_equal(signal_action_of(SIGINT, FROM_KERNEL, &waiting), SIGNAL_END_WAITING);
    assert_int_equal(signal_action_of(SIGTERM, FROM_USER, &waiting), SIGNAL_END_WAITING);
    assert_int_equal(signal_action_of(SIGHUP, FROM_KERNEL, &waiting), SIGNAL_END_WAITING);
    assert_int_equal(signal_action_of(SIGQUIT, FROM_KERNEL, &waiting), SIGNAL_END_WAITING);
    assert_int_equal(signal_action_of(SIGTSTP, FROM_KERNEL, &waiting), SIGNAL_STOP_SELF);
    assert_int_equal(signal_action_of(SIGUSR1, FROM_USER, &waiting), SIGNAL_IGNORE);
    assert_int_equal(signal_action_of(SIGINT, FROM_KERNEL, &ignoring), SIGNAL_IGNORE);
    assert_int_equal(signal_action_of(SIGTSTP, FROM_KERNEL, &ignoring), SIGNAL_IGNORE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_signal_from_a_process_is_passed_on),
        cmocka_unit_test(test_a_signal_from_the_terminal_is_not_sent_twice),
        cmocka_unit_test(test_a_hangup_reaches_the_session_leader_only),
        cmocka_unit_test(test_the_shell_continues_the_whole_group),
        cmocka_unit_test(test_after_the_command_sonde_obeys_itself),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
