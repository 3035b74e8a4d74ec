"""A file system of a few megabytes, with the state directory on it, that a test can fill."""
import os
import subprocess

import harness

# Snapshots that wait to be written, at most (STORE_QUEUE_MAX in writer/store-writer.h).
QUEUE_MAX = 64
# The message that sonde logs once each time the disk gets full.
FULL = "the disk is full; sampling continues"
# The processes of a run that fills a disk soon, and the files that a snapshot reads of each at
# most. Few enough that a busy machine takes hundreds of snapshots within the deadline of a test.
CROWD = 20
READS_MAX = 8


def count_snapshots(pid):
    """A lower bound of the snapshots that a sonde has taken of a crowd, from the number of files
    that it has read."""
    with open(f"/proc/{pid}/io", encoding="ascii") as file:
        reads = int(dict(line.split(": ") for line in file)["syscr"])
    return reads // (CROWD * READS_MAX)


@harness.needs_namespaces()
class TestCase(harness.TestCase):
    """Must precede the base class that sets the state directory, which this class replaces."""

    SIZE_MB = 6

    def setUp(self):
        super().setUp()
        self.disk = self.path("disk")
        os.mkdir(self.disk)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={self.SIZE_MB}m,mode=0700", "none",
                        self.disk], check=True)
        self.addCleanup(subprocess.run, ["umount", "-l", self.disk], check=False)
        self.state = os.path.join(self.disk, "state")
        self.environment["SONDE_STATE_DIR"] = self.state

    def fill(self):
        """Uses all space that is left, to the last byte."""
        with open(os.path.join(self.disk, "filler"), "ab", buffering=0) as filler:
            for size in (65536, 4096, 512, 1):
                try:
                    while True:
                        filler.write(b"x" * size)
                except OSError:
                    pass

    def fill_until(self, condition, what):
        """Also uses the space that the ballast and retention free, until the condition holds."""
        def is_there():
            self.fill()
            return condition()
        harness.wait_until(is_there, what)

    def start_crowd(self, *options):
        """Starts a run of a crowd that is sampled often, by reading files."""
        self.write("config/sonde/sonde.yaml", "profiler:\n  collector: procfs\n")
        process = self.start_sonde("--interval", "10ms", *options, "--",
                                   *self.victim("crowd", CROWD))
        self.await_ready(process)
        harness.wait_until(lambda: self.stored("SELECT 1 FROM snapshots"), "a snapshot is stored")
        return process

    def make_room(self):
        os.unlink(os.path.join(self.disk, "filler"))

    def enlarge(self):
        subprocess.run(["mount", "-o", f"remount,size={2 * self.SIZE_MB}m", self.disk], check=True)
