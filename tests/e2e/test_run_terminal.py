#!/usr/bin/env python3
"""sonde run in a real terminal, driven by keys: a shell with job control in tmux."""
import fcntl
import os
import pathlib
import pty
import shlex
import signal
import subprocess
import termios

import harness
import tmux

BOTH = "sonde and the command"


class Terminal(tmux.TestCase):
    def words(self, *options_and_command):
        return " ".join(map(shlex.quote, (harness.SONDE, "run", "--summary", self.path("summary"),
                                          *options_and_command)))

    def start_in_terminal(self, *command, suffix="", options=()):
        """Types `sonde run -- COMMAND`, which prints "ready PID"; returns both pids."""
        self.type(f"{self.words(*options, '--', *command)} >{self.path('out')} {suffix}")
        pid = int(self.await_file("out").split()[1])
        return harness.parent_of(pid), pid

    def start_sleeping(self, **options):
        """A shell that has executed sleep: one that is still a shell handles SIGINT, and then
        sends it to itself."""
        pids = self.start_in_terminal("sh", "-c", "echo ready $$; exec sleep 300", **options)
        harness.wait_until(lambda: pathlib.Path(f"/proc/{pids[1]}/comm").read_text("ascii") ==
                           "sleep\n", "the sleep")
        return pids

    def start_handling(self, *numbers, suffix=""):
        return self.start_in_terminal(*self.victim("handle", self.path("signals"),
                                                   *map(int, numbers)), suffix=suffix)

    def received(self):
        return [tuple(map(int, line.split())) for line in self.read("signals").splitlines()]

    def await_states(self, pids, are_stopped):
        harness.wait_until(
            lambda: all((harness.process_state(pid) == "T") == are_stopped for pid in pids),
            lambda: f"{BOTH} stopped: {are_stopped}; their states: "
                    f"{[harness.process_state(pid) for pid in pids]}; the screen: {self.screen()}")

    def await_prompt(self):
        """Waits for the prompt of the shell."""
        self.type(f"echo here >{self.path('prompt')}")
        self.await_file("prompt")
        os.unlink(self.path("prompt"))

    def summary(self):
        return harness.strict_json(self.await_file("summary"))

    # ---- keys ----

    def test_interrupt(self):
        self.start_sleeping(suffix=f"; echo $? >{self.path('status')}")
        self.press("C-c")
        self.assertEqual(self.await_file("status"), "130\n")
        self.await_screen("killed by SIGINT, from the terminal")
        self.assertEqual(self.summary()["signal_num"], signal.SIGINT)

    def test_interrupt_that_the_kernel_collector_sees(self):
        """The result is the same as when sonde sees it itself."""
        if self.run_sonde("run", "--no-store", "--exact", "--", "true").status:
            self.skipTest("needs the kernel collector")
        self.start_sleeping(options=("--exact",))
        self.press("C-c")
        self.assertEqual(self.summary()["cause"], "killed by SIGINT, from the terminal")

    def test_interrupt_at_once(self):
        """The command presses Ctrl-C itself, before sonde waits for it."""
        master, slave = pty.openpty()
        self.addCleanup(os.close, master)
        self.addCleanup(os.close, slave)
        process = subprocess.Popen(
            [harness.SONDE, "run", "--summary", self.path("summary"), "--", "sh", "-c",
             f"printf '\\003' >&{master}; exec sleep 300"], stdin=slave, env=self.environment,
            pass_fds=(master,), stderr=subprocess.DEVNULL, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(slave, termios.TIOCSCTTY, 0))
        self.started.append(process)
        process.wait(harness.DEADLINE)
        self.assertEqual(self.summary()["cause"], "killed by SIGINT, from the terminal")

    def test_interrupt_reaches_the_command_once(self):
        self.start_handling(signal.SIGINT, signal.SIGQUIT,
                            suffix=f"; echo $? >{self.path('status')}")
        self.press("C-c")
        harness.wait_until(lambda: len(self.received()) == 1, "SIGINT")
        self.press("C-\\")
        harness.wait_until(lambda: len(self.received()) == 2, "SIGQUIT")
        self.write("signals.end", "")
        self.assertEqual(self.await_file("status"), "7\n")
        # Both come from the kernel: sonde sent none.
        self.assertEqual(self.received(), [(signal.SIGINT, 0), (signal.SIGQUIT, 0)])

    def test_resize_reaches_the_command_from_the_kernel_only(self):
        self.start_handling(signal.SIGWINCH)
        self.tmux("resize-window", "-x", "100", "-y", "30")
        harness.wait_until(self.received, "SIGWINCH")
        self.write("signals.end", "")
        self.assertEqual(self.summary()["exit_code"], 7)
        self.assertEqual({sender for _, sender in self.received()}, {0})

    def test_stop_and_foreground_twice(self):
        """Ctrl-Z stops both and the shell has its prompt; `fg` continues both; and again."""
        pids = self.start_handling(signal.SIGCONT)
        for turn in (1, 2):
            self.press("C-z")
            self.await_states(pids, True)
            self.await_prompt()
            self.type(f"jobs >{self.path('jobs')}")
            self.assertIn("Stopped", self.await_file("jobs"))
            os.unlink(self.path("jobs"))
            self.type(f"fg; echo $? >{self.path('status')}")
            self.await_states(pids, False)
            harness.wait_until(lambda: len(self.received()) >= turn, "SIGCONT")
        self.write("signals.end", "")
        # The first one was there as soon as its `fg` ended with a stop.
        harness.wait_until(lambda: self.await_file("status") == "7\n", "the status")
        self.assertEqual(self.summary()["outcome"], "failure")
        self.assertEqual(len(self.received()), 2, "a SIGCONT came twice")

    def test_stop_while_it_waits_for_what_was_left(self):
        """The command has ended, and Ctrl-Z stops sonde like any program."""
        self.type(f"{self.words('--wait', '--', 'sh', '-c', 'sleep 300 & echo $! $PPID')} "
                  f">{self.path('out')}")
        sleeper, sonde = map(int, self.await_file("out").split())
        harness.wait_until(lambda: harness.parent_of(sleeper) == sonde, "the orphan")
        self.press("C-z")
        self.await_states((sleeper, sonde), True)
        self.await_prompt()
        self.type("fg")
        self.await_states((sleeper, sonde), False)
        self.press("C-c")
        self.assertEqual(self.summary()["exit_code"], 0)
        self.await_prompt()

    def test_stop_and_background(self):
        pids = self.start_handling(signal.SIGUSR1)
        self.press("C-z")
        self.await_states(pids, True)
        self.type("bg")
        self.await_states(pids, False)
        self.await_prompt()
        os.kill(pids[0], signal.SIGUSR1)
        harness.wait_until(lambda: self.received() == [(signal.SIGUSR1, pids[0])],
                           "sonde passes signals on in the background")
        self.type(f"wait %1; echo $? >{self.path('status')}")
        self.write("signals.end", "")
        self.assertEqual(self.await_file("status"), "7\n")

    def test_stop_that_the_command_ignores(self):
        """Then nothing stops, as without sonde."""
        victim = " ".join(map(shlex.quote, self.victim("handle", self.path("signals"), 2)))
        pids = self.start_in_terminal("sh", "-c", f"trap '' TSTP; exec {victim}",
                                      suffix=f"; echo $? >{self.path('status')}")
        self.press("C-z")
        self.press("C-c")  # arrives after it
        harness.wait_until(self.received, "SIGINT")
        self.assertNotIn("T", [harness.process_state(pid) for pid in pids])
        self.write("signals.end", "")
        self.assertEqual(self.await_file("status"), "7\n")

    def test_stop_while_the_figures_go_on(self):
        """CPU time before and after a stop is complete."""
        burn = " ".join(self.victim("burn", 150))
        self.type(self.words("--", "sh", "-c",
                             f"{burn}; echo ready $$; kill -TSTP $$; {burn}") +
                  f" >{self.path('out')}")
        harness.wait_until(lambda: os.path.exists(self.path("out")) and
                           self.read("out").count(b"\n") == 2, "the first half")
        pid = int(self.read("out").split()[-1])
        self.await_states((harness.parent_of(pid), pid), True)
        self.type("fg")
        summary = self.summary()
        self.assertEqual(summary["outcome"], "success")
        cpu = [float(line.split()[1]) for line in self.read("out").decode().splitlines()
               if line.startswith("cpu")]
        self.assertEqual(len(cpu), 2)
        self.assert_near(summary["cpu_seconds"], sum(cpu), slack=0.015)

    # ---- other functions of the terminal ----

    def test_background_job_reads_the_terminal(self):
        self.type(self.words("--", "sh", "-c", f"echo ready $$ >{self.path('out')}; exec cat") +
                  f" >{self.path('copy')} &")
        pid = int(self.await_file("out").split()[1])
        self.await_states((harness.parent_of(pid), pid), True)

        def is_reported():  # the shell is notified when the last thread has stopped
            self.type(f"jobs >{self.path('jobs')}")
            return "Stopped" in self.await_file("jobs")
        harness.wait_until(is_reported, lambda: self.read("jobs"))
        self.type(f"fg; echo $? >{self.path('status')}")
        self.await_states((pid,), False)
        self.type("a line for cat")
        self.press("C-d")
        self.assertEqual(self.await_file("status"), "0\n")
        self.assertEqual(self.read("copy"), b"a line for cat\n")

    def test_interactive_shell_as_the_command(self):
        """A command that takes the terminal gives it back, and sonde continues."""
        self.type(self.words("--", "bash", "--norc", "--noprofile", "-i") +
                  f"; echo $? >{self.path('status')}")
        self.type(f"echo $$ >{self.path('inner')}")
        inner = int(self.await_file("inner"))
        self.type("sleep 300")
        harness.wait_until(lambda: harness.children_of(inner), "the sleep")
        sleeper, = harness.children_of(inner)
        self.press("C-z")
        self.await_screen("Stopped")
        self.type("fg")
        # it owns the terminal before it continues; before that, the key would go to the shell
        self.await_states((sleeper,), False)
        self.press("C-c")
        self.type("exit 6")
        self.assertEqual(self.await_file("status"), "6\n")
        self.assertEqual(self.summary()["exit_code"], 6)
        self.await_prompt()

    def test_terminal_that_is_closed(self):
        _, pid = self.start_sleeping()
        self.tmux("kill-window")
        summary = self.summary()
        self.assertEqual(summary["signal_num"], signal.SIGHUP)
        self.assertFalse(harness.is_alive(pid))

    def test_summary_is_readable_on_a_terminal(self):
        self.type(self.words("--", "true"))
        self.await_screen("processes")
        text = self.screen()
        for word in ("success", "wall", "CPU", "memory"):
            self.assertIn(word, text)

    def test_interrupt_of_a_pipeline(self):
        self.type(self.words("--", "sh", "-c", f"echo ready $$ >{self.path('out')}; exec sleep 300")
                  + f" | cat; echo ${{PIPESTATUS[0]}} >{self.path('status')}")
        self.await_file("out")
        self.press("C-c")
        self.await_prompt()
        self.assertEqual(self.summary()["signal_num"], signal.SIGINT)


if __name__ == "__main__":
    harness.main()
