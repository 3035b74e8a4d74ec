#!/usr/bin/env python3
"""sonde run: signals that are sent to it, to the command, and to both."""
import fcntl
import os
import pty
import re
import signal
import termios
import time

import harness

PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1,
             signal.SIGUSR2, signal.SIGCONT, signal.SIGWINCH, signal.SIGALRM, signal.SIGTSTP,
             signal.SIGURG, signal.SIGVTALRM, signal.SIGRTMIN + 3, signal.SIGRTMAX)


def own_group():
    """A group that is not orphaned, wherever the test itself runs: it can be stopped."""
    os.setpgid(0, 0)


def pending(pid):
    """The set of pending signals of a process."""
    with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as status:
        mask = int(re.search(r"^ShdPnd:\s*([0-9a-f]+)", status.read(), re.MULTILINE).group(1), 16)
    return {number for number in range(1, 65) if mask >> number - 1 & 1}


class PassedOn(harness.TestCase):
    def received(self):
        return [tuple(map(int, line.split())) for line in self.read("signals").splitlines()]

    def start_counting(self, **options):
        process = self.start_sonde("--", *self.victim("count-signals", self.path("signals")),
                                   **options)
        pid, _ = self.await_ready(process)
        return process, pid

    def test_each_reaches_the_command_once(self):
        process, pid = self.start_counting()
        for i, number in enumerate(PASSED_ON):
            process.send_signal(number)
            harness.wait_until(lambda: len(self.received()) > i, f"signal {number}")
        os.kill(pid, signal.SIGPROF)
        result = self.finish(process)
        self.assertEqual(result.status, 0, result)
        self.assertEqual(self.received(), [(int(number), process.pid) for number in PASSED_ON])

    def test_queued_ones_are_all_passed_on(self):
        process, pid = self.start_counting()
        for _ in range(100):
            process.send_signal(signal.SIGRTMIN + 3)
        harness.wait_until(lambda: len(self.received()) >= 100, "all that were sent")
        os.kill(pid, signal.SIGPROF)
        self.assertEqual(self.finish(process).status, 0)
        self.assertEqual(self.received(), [(signal.SIGRTMIN + 3, process.pid)] * 100)

    def test_under_load(self):
        """Signals during many lifecycle events: none is lost."""
        process, pid = self.start_counting()
        storm = self.start(*self.victim("fork-storm", 2000))
        for i in range(50):
            process.send_signal(signal.SIGUSR1)
            harness.wait_until(lambda: len(self.received()) > i, "a signal")
        storm.wait(harness.DEADLINE)
        os.kill(pid, signal.SIGPROF)
        self.assertEqual(self.finish(process).status, 0)
        self.assertEqual(self.received(), [(signal.SIGUSR1, process.pid)] * 50)

    def test_cause_names_the_sender(self):
        for number in (signal.SIGTERM, signal.SIGKILL):
            with self.subTest(signal=number.name):
                process = self.start_sonde("--", "sh", "-c", "echo ready $$; exec sleep 300")
                pid, _ = self.await_ready(process)
                if number == signal.SIGTERM:
                    process.send_signal(number)
                else:
                    os.kill(pid, number)
                result = self.finish(process)
                self.assertEqual(result.status, 128 + number, result)
                cause = result.summary["cause"]
                self.assertTrue(cause.startswith(f"killed by {number.name}"), cause)
                if number == signal.SIGTERM:
                    self.assertIn(f"sent by pid {os.getpid()} (", cause)
                    self.assertIn("test_run_signals", cause)
                else:
                    self.assertNotIn("sent by", cause)  # sonde has not seen it
                self.assertIn(f"killed by {number.name}", result.stderr)

    def test_command_that_survives_a_signal(self):
        """A signal that was handled is not what ended the command."""
        process = self.start_sonde("--", *self.victim("handle", self.path("signals"),
                                                      int(signal.SIGTERM)))
        self.await_ready(process)
        process.send_signal(signal.SIGTERM)
        harness.wait_until(lambda: self.read("signals"), "the signal")
        self.write("signals.end", "")
        result = self.finish(process)
        self.assertEqual(result.status, 7, result)
        self.assertEqual(result.summary["cause"], "exit status 7")

    def test_alarm_that_was_set_before(self):
        """An alarm survives exec, so that it would kill `env COMMAND`. It must not come before a
        busy machine has started sonde."""
        def prepare():
            signal.setitimer(signal.ITIMER_REAL, 3)
        result = self.run_sonde("run", "--", "sleep", "300", preexec_fn=prepare)
        self.assertEqual(result.status, 128 + signal.SIGALRM, result)
        self.assertEqual(result.summary["cause"], "killed by SIGALRM")

    def test_command_survives_the_kill_of_sonde(self):
        done = self.path("done")
        process = self.start_sonde("--", "sh", "-c",
                                   f"echo ready $$; read word; echo $word >{done}")
        pid, _ = self.await_ready(process)
        process.kill()
        self.assertEqual(process.wait(harness.DEADLINE), -signal.SIGKILL)
        self.assertTrue(harness.is_alive(pid))
        process.stdin.write(b"finished\n")
        process.stdin.close()
        harness.wait_until(lambda: os.path.exists(done) and self.read("done") == b"finished\n",
                           "the command's end")


class Stopping(harness.TestCase):
    def start_sleeping(self, *options):
        process = self.start_sonde(*options, "--", "sh", "-c", "echo ready $$; exec sleep 300",
                                   preexec_fn=own_group)
        pid, _ = self.await_ready(process)
        return process, pid

    def await_state(self, pid, is_stopped):
        harness.wait_until(lambda: (harness.process_state(pid) == "T") == is_stopped,
                           f"{pid} is stopped: {is_stopped}")

    def end(self, process, pid):
        os.kill(pid, signal.SIGTERM)
        result = self.finish(process)
        self.assertEqual(result.status, 128 + signal.SIGTERM, result)
        return result

    def test_stop_of_the_command_alone(self):
        """Only the command is stopped; sonde continues, and passes a signal on."""
        process, pid = self.start_sleeping()
        os.kill(pid, signal.SIGSTOP)
        self.await_state(pid, True)
        process.send_signal(signal.SIGUSR1)
        harness.wait_until(lambda: signal.SIGUSR1 in pending(pid), "the signal before the command")
        self.assertNotEqual(harness.process_state(process.pid), "T")
        os.kill(pid, signal.SIGCONT)
        result = self.finish(process)
        self.assertEqual(result.status, 128 + signal.SIGUSR1, result)

    def test_continue_through_sonde(self):
        process, pid = self.start_sleeping()
        os.kill(pid, signal.SIGSTOP)
        self.await_state(pid, True)
        process.send_signal(signal.SIGCONT)
        self.await_state(pid, False)
        self.end(process, pid)

    def test_terminal_stop_through_sonde(self):
        """Both stop, and continue when sonde alone is continued."""
        process, pid = self.start_sleeping()
        for number in (signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU, signal.SIGTSTP):
            process.send_signal(number)
            self.await_state(pid, True)
            self.await_state(process.pid, True)
            process.send_signal(signal.SIGCONT)
            self.await_state(process.pid, False)
            self.await_state(pid, False)
        self.end(process, pid)

    def test_group_stopped_and_continued(self):
        process, pid = self.start_sleeping()
        for _ in range(20):
            os.killpg(process.pid, signal.SIGTSTP)
            self.await_state(pid, True)
            self.await_state(process.pid, True)
            os.killpg(process.pid, signal.SIGCONT)
            self.await_state(process.pid, False)
            self.await_state(pid, False)
        self.end(process, pid)

    def test_group_stopped_and_continued_in_haste(self):
        """However far sonde is with stopping, SIGCONT continues it. Each time sonde must pass a
        signal on; otherwise it has stopped."""
        process = self.start_sonde("--", *self.victim("handle", self.path("signals"),
                                                      int(signal.SIGUSR1)), preexec_fn=own_group)
        pid, _ = self.await_ready(process)
        for i in range(200):
            os.kill(pid, signal.SIGTSTP)
            # From no delay to more than sonde needs to stop.
            end = time.perf_counter() + i * 5e-6
            while time.perf_counter() < end:
                pass
            os.killpg(process.pid, signal.SIGCONT)
            process.send_signal(signal.SIGUSR1)
            harness.wait_until(lambda: len(self.read("signals").splitlines()) > i,
                               f"a signal passed on, {i * 5} us after the stop")
        self.write("signals.end", "")
        self.assertEqual(self.finish(process).status, 7)

    def test_killed_while_stopped(self):
        process, pid = self.start_sleeping()
        os.killpg(process.pid, signal.SIGTSTP)
        self.await_state(process.pid, True)
        os.kill(pid, signal.SIGKILL)
        process.send_signal(signal.SIGCONT)
        result = self.finish(process)
        self.assertEqual(result.status, 128 + signal.SIGKILL, result)

    def test_time_stopped_is_a_gap(self):
        process, pid = self.start_sleeping()
        harness.wait_until(lambda: self.stored("SELECT 1 FROM snapshots"), "it samples")
        os.killpg(process.pid, signal.SIGTSTP)
        self.await_state(process.pid, True)
        time.sleep(0.5)  # the length of the gap
        os.killpg(process.pid, signal.SIGCONT)
        self.await_state(process.pid, False)
        result = self.end(process, pid)
        self.assertGreaterEqual(result.summary["gap_seconds"], 0.3)
        self.assertGreaterEqual(result.summary["wall_seconds"], 0.5)


class Hangup(harness.TestCase):
    def hang_up(self, prefix):
        """Closes the terminal of a session whose leader is the program; returns the result."""
        master, terminal = pty.openpty()
        signals = self.path("signals")
        process = self.start(*prefix, *self.victim("handle", signals, int(signal.SIGHUP)),
                             stdin=terminal, stderr=terminal, start_new_session=True,
                             preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        os.close(terminal)
        self.await_ready(process)
        os.close(master)
        harness.wait_until(lambda: self.read("signals"), "SIGHUP in the command")
        self.write("signals.end", "")
        status = process.wait(harness.DEADLINE)
        received = [int(line.split()[0]) for line in self.read("signals").splitlines()]
        os.unlink(signals)
        os.unlink(signals + ".end")
        return status, received

    def test_session_leader_passes_it_on(self):
        """The kernel signals only the leader of the session: with `env` that is the command."""
        truth = self.hang_up(("env",))
        self.assertEqual(truth, (7, [signal.SIGHUP]))
        self.assertEqual(self.hang_up((harness.SONDE, "run", "--")), truth)


if __name__ == "__main__":
    harness.main()
