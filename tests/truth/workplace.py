"""A temporary directory in which commands run under sonde, for the scripts that repeat a real build."""
import json
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))


class Workplace:
    """Is removed at the end, like the results of all runs. SONDE is the binary; the witness is that of
    build/."""

    def __enter__(self):
        build = os.path.join(HERE, "..", "..", "build")
        self.sonde = os.environ.get("SONDE", os.path.join(build, "sonde"))
        self.witness = os.path.join(build, "tests", "truth", "witness")
        for program in (self.sonde, self.witness):
            if not os.access(program, os.X_OK):
                sys.exit(f"{sys.argv[0]}: {program}: not a program; build it with make")
        self.directory = tempfile.mkdtemp(prefix="sonde-truth-")
        os.chmod(self.directory, 0o777)  # for an ordinary user
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.directory)

    def path(self, name):
        return os.path.join(self.directory, name)

    def run(self, command, prefix=()):
        """The summary of `command` under `sonde run`."""
        environment = dict(os.environ, SONDE_STATE_DIR=self.path("state"),
                           SONDE_SOCKET=self.path("socket"))
        environment.pop("STATE_DIRECTORY", None)
        summary = self.path("summary")
        if os.path.exists(summary):
            os.unlink(summary)
        subprocess.run([*prefix, self.sonde, "run", "--no-store", "-q", "--summary", summary, "--",
                        *command], env=environment, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, check=False)
        with open(summary, encoding="utf-8") as file:
            return json.load(file)
