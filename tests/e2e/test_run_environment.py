#!/usr/bin/env python3
"""sonde run: the command gets the same environment as under `env COMMAND`.

The reference is always the same helper under `env`, started in the same way.
"""
import ctypes
import fcntl
import itertools
import os
import pty
import resource
import signal
import termios

import harness

# AddressSanitizer installs its own handlers where these are ignored.
FAULTS = {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE} if harness.is_sanitized() else set()
UNCHANGEABLE = {signal.SIGKILL, signal.SIGSTOP}

IGNORED = {
    "none": (),
    "SIGPIPE": (signal.SIGPIPE,),
    "SIGCHLD": (signal.SIGCHLD,),
    "SIGINT and SIGQUIT, as in the background": (signal.SIGINT, signal.SIGQUIT),
    "SIGHUP, as by nohup": (signal.SIGHUP,),
    "SIGTSTP, SIGTTIN, SIGTTOU": (signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU),
    "real-time": (signal.SIGRTMIN + 3, signal.SIGRTMAX),
    "all": tuple(signal.valid_signals() - UNCHANGEABLE - FAULTS),
}
BLOCKED = {
    "none": (),
    "SIGTERM": (signal.SIGTERM,),
    "SIGCHLD and SIGPIPE": (signal.SIGCHLD, signal.SIGPIPE),
    "real-time": (signal.SIGRTMIN + 3,),
    "all": tuple(signal.valid_signals()),
}


def set_signals(ignored, blocked):
    """Runs between fork and exec: all other signals are default and unblocked."""
    def prepare():
        for number in signal.valid_signals() - UNCHANGEABLE:
            signal.signal(number, signal.SIG_IGN if number in ignored else signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    return prepare


class Environment(harness.TestCase):
    def state_under(self, prefix, **options):
        path = os.path.join(self.open_directory(), "state")
        with open(os.devnull, "r+b") as null:
            result = self.run_program(*prefix, *self.victim("state", path), stdin=null,
                                      stdout=null, **options)
        self.assertEqual(result.status, 0, result)
        with open(path, encoding="utf-8") as state:
            lines = state.read().splitlines()
        os.unlink(path)
        self.assertGreater(len(lines), 30)
        # stderr is another file at each run.
        return [line for line in lines if not line.startswith("fd 2 ")]

    def assert_same(self, before=(), **options):
        truth = self.state_under((*before, "env"), **options)
        seen = self.state_under((*before, harness.SONDE, "run", "-q", "--"), **options)
        self.assertEqual(seen, truth)
        return truth

    def test_plain(self):
        truth = self.assert_same()
        self.assertIn(f"environment HOME={self.directory}", truth)

    def test_with_a_summary_file(self):
        """The command does not inherit the descriptor of the summary."""
        truth = self.state_under(("env",))
        seen = self.state_under((harness.SONDE, "run", "--summary", self.path("summary"), "--"))
        self.assertEqual(seen, truth)

    def test_signal_dispositions_and_mask(self):
        for (ignored_name, ignored), (blocked_name, blocked) in itertools.product(
                IGNORED.items(), BLOCKED.items()):
            with self.subTest(ignored=ignored_name, blocked=blocked_name):
                truth = self.assert_same(preexec_fn=set_signals(ignored, blocked),
                                         restore_signals=False)
                mask = sum(1 << number - 1 for number in ignored)
                line = next(line for line in truth if line.startswith("SigIgn:"))
                # 32 and 33 belong to libc; the caller of this test may have left them ignored.
                self.assertEqual(int(line.split()[1], 16) & ~(3 << 31), mask)

    def test_descriptors_are_inherited(self):
        files = [os.open("/dev/null", os.O_RDONLY), os.open("/etc/passwd", os.O_RDONLY),
                 os.open(self.directory, os.O_PATH),
                 os.open("/dev/zero", os.O_RDWR | os.O_NONBLOCK)]
        high = fcntl.fcntl(files[0], fcntl.F_DUPFD, 200)
        try:
            truth = self.assert_same(pass_fds=[*files, high])
        finally:
            for fd in (*files, high):
                os.close(fd)
        self.assertTrue(any(line.startswith("fd 200 ") for line in truth))

    def test_limits_umask_nice_and_directory(self):
        def prepare():
            resource.setrlimit(resource.RLIMIT_NOFILE, (300, 400))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            resource.setrlimit(resource.RLIMIT_STACK, (1 << 22, 1 << 23))
            resource.setrlimit(resource.RLIMIT_CPU, (1000, 2000))
            os.nice(5)
            os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
            ctypes.CDLL(None).prctl(29, 70000, 0, 0, 0)  # PR_SET_TIMERSLACK
        truth = self.assert_same(preexec_fn=prepare, umask=0o137, cwd="/usr")
        for line in ("limit 7 300 400", "nice 5", "cwd /usr", "Umask:\t0137",
                     "timer slack 70000"):
            self.assertIn(line, truth)

    def test_environment_variables(self):
        strange = dict(self.environment, EMPTY="", LINES="a\nb", LD_BIND_NOW="1",
                       SONDE_STATE_DIR=self.path("nowhere"), **{"odd name": "=x="})
        truth = self.assert_same(env=strange)
        self.assertIn("environment odd name==x=", truth)

    def test_process_group_and_session(self):
        truth = self.assert_same()
        self.assertIn(f"pgid {os.getpgrp()}", truth)
        self.assertIn(f"sid {os.getsid(0)}", truth)

    def test_new_session_with_a_terminal(self):
        """As the leader of a session: the command is in its group, in the foreground."""
        for prefix in (("env",), (harness.SONDE, "run", "-q", "--")):
            with self.subTest(prefix=prefix):
                master, terminal = pty.openpty()
                path = self.path("state")
                process = self.start(
                    *prefix, *self.victim("state", path), stdin=terminal, stdout=terminal,
                    start_new_session=True,
                    preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
                self.assertEqual(process.wait(harness.DEADLINE), 0)
                os.close(master)
                os.close(terminal)
                lines = self.read("state").decode().splitlines()
                for name in ("pgid", "sid", "foreground"):
                    self.assertIn(f"{name} {process.pid}", lines)

    @harness.needs_program("setpriv")
    def test_as_an_unprivileged_user(self):
        prefix = harness.unprivileged()
        if not prefix:
            self.skipTest("all tests run as an unprivileged user already")
        truth = self.assert_same(before=prefix)
        self.assertIn("CapEff:\t0000000000000000", truth)

    def test_pending_signal_reaches_the_command(self):
        """A signal that was pending when sonde was executed: exec keeps it, and so does sonde."""
        def prepare():
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
            os.kill(os.getpid(), signal.SIGUSR1)
        process = self.start_sonde("-q", "--", *self.victim("count-signals", self.path("signals")),
                                   preexec_fn=prepare)
        pid, _ = self.await_ready(process)
        harness.wait_until(lambda: self.read("signals"), "the signal in the command")
        os.kill(pid, signal.SIGPROF)
        self.assertEqual(self.finish(process).status, 0)
        lines = self.read("signals").decode().splitlines()
        self.assertEqual([line.split()[0] for line in lines], [str(int(signal.SIGUSR1))])


class SignalsInherited(harness.TestCase):
    """The effects of inherited dispositions that a user sees."""

    def both(self, script, **options):
        """The output of the script with `env` and with sonde as $RUN; it must be the same."""
        answers = []
        for run in ("env", f"{harness.SONDE} run -q --"):
            environment = dict(self.environment, RUN=run)
            result = self.run_program("bash", "-c", script, env=environment, **options)
            answers.append((result.status, result.stdout))
        self.assertEqual(answers[0], answers[1])
        return answers[0]

    def test_yes_into_head(self):
        script = '$RUN yes 2>/dev/null | head -n 1; echo "${PIPESTATUS[0]}"'
        plain = self.both(script, preexec_fn=set_signals((), ()), restore_signals=False)
        self.assertEqual(plain[1], b"y\n141\n")
        ignored = self.both(script, preexec_fn=set_signals((signal.SIGPIPE,), ()),
                            restore_signals=False)
        self.assertEqual(ignored[1], b"y\n1\n")  # a write error instead of a signal

    def test_children_ignored_by_the_parent(self):
        """The command inherits an ignored SIGCHLD; sonde still learns how the command ended."""
        for status in (0, 7):
            with self.subTest(status=status):
                result = self.run_sonde(
                    "run", "--", "sh", "-c", f"exit {status}",
                    preexec_fn=set_signals((signal.SIGCHLD,), ()), restore_signals=False)
                self.assertEqual(result.status, status, result)
                self.assertEqual(result.summary["exit_code"], status)

    def test_nohup(self):
        script = "exec nohup $RUN sh -c 'kill -HUP $$; echo alive' 2>/dev/null"
        self.assertEqual(self.both(script), (0, b"alive\n"))

    def test_background_ignores_interrupts(self):
        script = "set +m; $RUN sh -c 'kill -INT $$; echo alive' & wait"
        self.assertEqual(self.both(script), (0, b"alive\n"))


if __name__ == "__main__":
    harness.main()
