"""A real terminal for a test: a shell with job control in a tmux server for that test."""
import os
import subprocess

import harness


@harness.needs_program("tmux")
class TestCase(harness.TestCase):
    size = (80, 24)

    def setUp(self):
        super().setUp()
        self.environment["TMUX_TMPDIR"] = self.directory
        self.server = f"sonde-{os.getpid()}"
        self.addCleanup(self.tmux, "kill-server", check=False)
        columns, rows = self.size
        self.tmux("-u", "-f", "/dev/null", "new-session", "-d", "-x", str(columns), "-y", str(rows),
                  "env PS1='> ' bash --norc --noprofile -i")
        self.await_screen(">")

    def tmux(self, *words, check=True):
        return subprocess.run(["tmux", "-L", self.server, *words], env=self.environment,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=check,
                              timeout=harness.DEADLINE).stdout.decode("utf-8", "replace")

    def type(self, line):
        self.tmux("send-keys", "-l", line)
        self.tmux("send-keys", "Enter")

    def press(self, *keys):
        self.tmux("send-keys", *keys)

    def resize(self, columns, rows):
        self.tmux("resize-window", "-x", str(columns), "-y", str(rows))

    def screen(self):
        """All output, with wrapped lines joined."""
        return self.tmux("capture-pane", "-p", "-J", "-S", "-")

    def await_screen(self, text):
        harness.wait_until(lambda: text in self.screen(),
                           lambda: f"'{text}' on the screen; it has: {self.screen()}")

    def await_file(self, name):
        """The content of a file that a command in the terminal writes, once it has a full line."""
        path = self.path(name)
        harness.wait_until(lambda: os.path.exists(path) and self.read(name).endswith(b"\n"),
                           lambda: f"{name}; the screen: {self.screen()}")
        return self.read(name).decode()
