#!/usr/bin/env python3
"""Which processes a user may trace, and as which user strace runs; and misbehaving programs named
strace."""
import json
import os
import pathlib
import select
import shutil
import signal

import harness
import tracing


@tracing.needs_strace()
@harness.needs_root()
class Rights(tracing.TestCase):
    """Users may trace only their own processes; strace runs as the user of the process."""

    def rpc_unprivileged(self, sonde, method, **params):
        return self.rpc_as(None, sonde, method, **params)

    def rpc_as(self, uid, sonde, method, **params):
        """As that user; None: as the user whose processes are traced here."""
        script = ("import json, socket, sys\n"
                  "link = socket.socket(socket.AF_UNIX)\n"
                  "link.connect(sys.argv[1])\n"
                  "link.sendall(sys.argv[2].encode() + b'\\n')\n"
                  "print(link.makefile().readline())\n")
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        user = harness.unprivileged() if uid is None else (
            "setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups")
        done = self.run_program(*user, "python3", "-c", script, sonde.socket, json.dumps(request))
        return json.loads(done.stdout)

    def open_daemon(self):
        """A daemon that every user may connect to."""
        where = self.open_directory()
        return self.daemon("daemon:\n  access: everyone\n",
                           env={"SONDE_SOCKET": os.path.join(where, "sock")})

    def test_own_and_others(self):
        sonde = self.open_daemon()
        theirs, ours = self.busy(*harness.unprivileged()), self.busy()
        answer = self.rpc_unprivileged(sonde, "strace.attach", pid=ours.pid)
        self.assertEqual(answer["error"]["code"], -32004)
        self.assertEqual(tracing.tracer_of(ours.pid), 0)
        answer = self.rpc_unprivileged(sonde, "strace.attach", pid=theirs.pid)
        self.assertTrue(answer["result"]["attached"], answer)
        self.await_calls(theirs)
        tracer = pathlib.Path(f"/proc/{answer['result']['tracer_pid']}")
        status = (tracer / "status").read_text(encoding="ascii")
        self.assertRegex(status, r"Uid:\t(\d+)\t\1\t\1\t\1\nGid:\t(\d+)\t\2\t\2\t\2")
        self.assertNotRegex(status, r"Uid:\t0\t")
        self.assertRegex(status, r"\nGroups:\t? ?\n")
        self.assertRegex(status, r"\nCapEff:\t0+\n")
        for method in ("strace.detach", "strace.trace"):
            self.assertEqual(self.rpc_unprivileged(sonde, method, pid=ours.pid)["error"]["code"],
                             -32004)
        self.assertIn("write", self.rpc_unprivileged(sonde, "strace.detach",
                                                  pid=theirs.pid)["result"]["syscall_counts"])

    def test_others_get_no_table_of_an_ended_process(self):
        """A tracer outlives its target while a child of the target lives: it still belongs to that
        user."""
        sonde = self.open_daemon()
        shell = self.start(*harness.unprivileged(), "sh", "-c",
                           "read gate; dd if=/dev/zero of=/dev/null bs=1 2>/dev/null & exit")
        # A process that has changed its user can be traced only after an exec: then its private
        # files belong to that user.
        harness.wait_until(lambda: os.stat(f"/proc/{shell.pid}/environ").st_uid != 0,
                           "it is theirs")
        tracer = self.attach(sonde, shell.pid)
        shell.stdin.write(b"\n")
        shell.stdin.close()
        shell.wait(harness.DEADLINE)
        self.assertEqual(sonde.rpc("daemon.status")["tracer_pids"], [tracer])
        self.assertIsNone(self.rpc_as(12345, sonde, "strace.detach", pid=shell.pid)["result"])
        self.assertEqual(sonde.rpc("daemon.status")["tracer_pids"], [tracer])
        own = self.rpc_unprivileged(sonde, "strace.detach", pid=shell.pid)["result"]
        self.assertIn("execve", own["syscall_counts"])

    def test_users_cannot_stall_the_daemon(self):
        """Users can stop, kill and trace their strace: snapshots do not wait for it."""
        sonde = self.open_daemon()
        theirs = self.busy(*harness.unprivileged())
        for number in (signal.SIGSTOP, signal.SIGKILL):
            tracer = self.attach(sonde, theirs.pid)
            self.run_program(*harness.unprivileged(), "kill", f"-{int(number)}", str(tracer))
            sonde.await_snapshots(3)
            sonde.rpc("strace.detach", pid=theirs.pid)
            self.assert_nothing_left(sonde)

    def test_trace_files_need_the_users_rights(self):
        """The file is created as that user, so root's directories are out of reach."""
        sonde = self.open_daemon()
        theirs = self.busy(*harness.unprivileged())
        answer = self.rpc_unprivileged(sonde, "strace.trace", pid=theirs.pid,
                                    file=os.path.join(self.directory, "root-only"))
        self.assertFalse(answer["result"]["attached"], answer)
        self.assertIn("Permission denied", answer["result"]["reason"])
        path = os.path.join(self.open_directory(), "theirs")
        answer = self.rpc_unprivileged(sonde, "strace.trace", pid=theirs.pid, file=path)
        self.assertTrue(answer["result"]["attached"], answer)
        self.assertEqual(os.stat(path).st_uid, os.stat(f"/proc/{theirs.pid}").st_uid)
        sonde.rpc("strace.detach", pid=theirs.pid)

    def test_setuid_program(self):
        """A user may not trace a setuid program that the user has started."""
        sonde = self.open_daemon()
        program = os.path.join(self.open_directory(), "sleep")
        shutil.copy(shutil.which("sleep"), program)
        os.chmod(program, 0o4755)
        process = self.start(*harness.unprivileged(), program, "1000")
        harness.wait_until(lambda: b"sleep" in pathlib.Path(
            f"/proc/{process.pid}/cmdline").read_bytes().split(b"\0")[0], "it runs")
        answer = self.rpc_unprivileged(sonde, "strace.attach", pid=process.pid)
        self.assertIn("other rights than its user", answer["result"]["reason"])
        self.assertEqual(tracing.tracer_of(process.pid), 0)


class Impostors(tracing.TestCase):
    """Programs named strace."""

    def impostor(self, script):
        os.makedirs(self.path("bin"), exist_ok=True)
        self.write("bin/strace", "#!/bin/sh\n" + script, 0o755)
        path = self.path("bin") + ":" + self.environment["PATH"]
        return self.daemon(env={"PATH": path}, interval=0.1)

    def ask(self, sonde, is_slow=False):
        """Requests an attach. With `is_slow`, snapshots are taken before the answer arrives."""
        process = self.busy()
        link = sonde.connect()
        before = sonde.rpc("daemon.status")
        link.send({"jsonrpc": "2.0", "id": 1, "method": "strace.attach",
                   "params": {"pid": process.pid}})
        if is_slow:
            sonde.await_snapshots(3)
            self.assertEqual(select.select([link], [], [], 0)[0], [])
        answer = link.read()["result"]
        after = sonde.rpc("daemon.status")
        self.assertEqual(tracing.tracer_of(process.pid), 0)
        # Sanitizers keep freed memory for a while.
        self.assertLess(after["rss_mb"], before["rss_mb"] + (128 if harness.is_sanitized() else 8))
        return answer

    def test_hangs(self):
        sonde = self.impostor("trap '' INT TERM; echo $$ >> \"${0%/*}/pids\"; "
                              "while :; do sleep 0.2; done\n")
        answer = self.ask(sonde, is_slow=True)
        self.assertFalse(answer["attached"])
        self.assertIn("did not attach", answer["reason"])
        self.assert_nothing_left(sonde)

    def test_floods(self):
        """300 MB are far more than the daemon may grow by."""
        sonde = self.impostor("trap '' INT; head -c 300000000 /dev/zero >&2\nexit 0\n")
        answer = self.ask(sonde)
        self.assertFalse(answer["attached"])
        self.assert_nothing_left(sonde)

    def test_floods_with_lines(self):
        sonde = self.impostor("trap '' INT; yes 'strace: Process 1 attached' | "
                              "head -c 300000000 >&2\n")
        self.assertFalse(self.ask(sonde)["attached"])
        self.assert_nothing_left(sonde)

    def test_garbage(self):
        sonde = self.impostor("head -c 200000 /dev/urandom >&2; echo '% time seconds' >&2; exit 1\n")
        answer = self.ask(sonde)
        self.assertFalse(answer["attached"])
        self.assertTrue(answer["reason"].isprintable(), answer)

    def test_dies_half_way(self):
        """It claims to have attached and then prints a truncated table."""
        sonde = self.impostor(
            "trap 'echo \"% time seconds usecs/call calls errors syscall\n"
            "------ ------ ------ ------ ------ ------\n"
            " 50.00 0.5 1 7 write\n 49.\" >&2; kill -9 $$' INT\n"
            "echo \"strace: Process ${5} attached\" >&2\n"
            "while :; do sleep 0.05; done\n")
        process = self.busy()
        self.assertTrue(sonde.rpc("strace.attach", pid=process.pid)["attached"])
        self.assertEqual(sonde.rpc("strace.detach", pid=process.pid)["syscall_counts"],
                         {"write": 7})
        self.assert_nothing_left(sonde)

    def test_leaves_children(self):
        sonde = self.impostor("sleep 1000 & echo $! > \"${0%/*}/left\"; exit 0\n")
        self.assertFalse(self.ask(sonde)["attached"])
        left = int(self.read("bin/left"))
        harness.wait_until(lambda: harness.process_state(left) in (None, "Z"), "it is gone")

    def test_does_not_detach(self):
        """It is killed after five seconds; both requests are answered."""
        sonde = self.impostor("trap '' INT; echo \"strace: Process ${5} attached\" >&2\n"
                              "while :; do sleep 0.2; done\n")
        process = self.busy()
        self.assertTrue(sonde.rpc("strace.attach", pid=process.pid)["attached"])
        link = sonde.connect()
        link.send({"jsonrpc": "2.0", "id": 1, "method": "strace.detach",
                   "params": {"pid": process.pid}})
        answer = sonde.rpc("strace.detach", pid=process.pid)
        self.assertIsNone(answer["syscall_counts"])
        self.assertEqual(answer["reason"], "strace did not detach in time and was killed")
        self.assertEqual(link.read()["result"], answer)
        self.assert_nothing_left(sonde)

    def test_stopping_does_not_wait_for_it(self):
        sonde = self.impostor("trap '' INT; echo \"strace: Process ${5} attached\" >&2\n"
                              "while :; do sleep 0.2; done\n")
        process = self.busy()
        self.assertTrue(sonde.rpc("strace.attach", pid=process.pid)["attached"])
        tracer = sonde.rpc("daemon.status")["tracer_pids"][0]
        sonde.stop()
        self.assertFalse(harness.is_alive(tracer))

    @harness.needs_root()
    def test_directory_that_others_can_write(self):
        """A strace in a directory that all users can write is not run."""
        where = self.open_directory()
        path = os.path.join(where, "strace")
        pathlib.Path(path).write_text("#!/bin/sh\ntouch \"${0%/*}/was-run\"\n", encoding="ascii")
        os.chmod(path, 0o755)
        sonde = self.daemon(env={"PATH": where})
        self.assertFalse(sonde.rpc("strace.attach", pid=self.busy().pid)["attached"])
        self.assertFalse(os.path.exists(os.path.join(where, "was-run")))

    def test_run_does_not_wait_for_a_hanging_strace(self):
        """A strace that hangs does not delay a job."""
        os.makedirs(self.path("bin"))
        self.write("bin/strace", "#!/bin/sh\ntrap '' INT\n: > \"${0%/*}/started\"\n"
                                 "while :; do sleep 0.2; done\n", 0o755)
        # The command ends once strace has been started.
        config = self.write("own.yaml", "profiler:\n  strace_enabled: true\n")
        environment = dict(self.environment,
                           PATH=self.path("bin") + ":" + self.environment["PATH"])
        result = self.run_sonde("run", "--config", config, "--", "sh", "-c",
                                "until [ -e \"$0\" ]; do :; done; exit 7",
                                self.path("bin/started"), env=environment)
        self.assertEqual(result.status, 7)
        self.assertEqual(result.summary["processes"], 1)
        self.assertEqual(result.summary["left_running"], [])


if __name__ == "__main__":
    harness.main()
