"""System calls in pytest: the fixture ``syscalls`` runs a command under zctrace and gives its report.

    def test_a_copy_is_left_to_the_kernel(syscalls, tmp_path):
        source = tmp_path / "in"
        source.write_bytes(bytes(100_000))
        report = syscalls(["cp", source, tmp_path / "out"])
        assert report.exact and report.exit_code == 0
        assert report.calls("write") == 0
        assert report.bytes("copy_file_range") == 100_000

A part of a test is traced with all threads of its process and all that it starts:

    def test_a_copy_reads_nothing(syscalls, tmp_path):
        with syscalls.trace() as span:
            shutil.copyfile(source, tmp_path / "out")
        assert span.report.calls("read") == 0

A test is skipped where nothing can be traced, but it fails where ``CI`` is set. ``ZCTRACE`` names the
program if it is not on the PATH.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest

__version__ = "0.1.0"


class NotCounted(KeyError):
    """The call has no row in this report, because it was not selected. That is not 0."""


class TraceError(RuntimeError):
    """zctrace wrote no report. The message says why."""


@dataclass(frozen=True)
class SyscallReport:
    """What a command and all its descendants did. Counts are lower bounds unless ``exact``."""

    #: The report as `zctrace --format json` wrote it: docs/json.md describes each field.
    json: dict
    #: What the command wrote.
    stdout: bytes
    stderr: bytes

    @property
    def exact(self) -> bool:
        """Whether every count is exact. If not, ``json["losses"]`` says what was lost."""
        return self.json["exact"]

    @property
    def exit_code(self):
        """The exit status of the command; ``None`` if a signal ended it."""
        return self.json["exit"]["code"]

    @property
    def transfers(self) -> list:
        """Which bytes went from where to where, and by which interface."""
        return self.json["transfers"]

    def calls(self, name: str) -> int:
        """How often the call returned."""
        return sum(row["calls"] for row in self._rows(name))

    def errors(self, name: str) -> int:
        """How often it failed."""
        return sum(row["errors"] for row in self._rows(name))

    def bytes(self, name: str):
        """How many bytes it moved; ``None``: it moves none, or that is unknown."""
        moved = [row["bytes"] for row in self._rows(name)]
        return None if None in moved else sum(moved)

    def failed_paths(self) -> list:
        """The calls that take a path and failed, as ``(errno, path, call)``."""
        failed = self.json["totals"]["failed_paths"]
        return [(entry["errno"], entry["path"], entry["syscall"]) for entry in failed]

    def _rows(self, name: str) -> list:
        counted = self.json["counted"]
        rows = [row for row in self.json["totals"]["syscalls"] if row["name"] == name]
        if not rows and counted != "all" and name not in (counted or {}).get("names", ()):
            raise NotCounted(f"{name} was not counted: pass select='{name}' or select='all'")
        return rows


def run(command, *, select=None, backend=None, timeout=None, zctrace="zctrace", **popen) -> SyscallReport:
    """Runs a command under zctrace and returns its report.

    ``select`` is what `-e` takes, and ``backend`` is ``"ebpf"`` or ``"strace"``. After ``timeout`` seconds
    the command is ended, which raises :class:`subprocess.TimeoutExpired`. Everything else goes to
    :class:`subprocess.Popen`.
    """
    options = ["-e", select] if select else []
    options += ["--backend", backend] if backend else []
    with tempfile.TemporaryDirectory(prefix="pytest-zctrace-") as folder:
        file = Path(folder, "report.json")
        argv = [zctrace, *options, "--format", "json", "-o", file, "--", *command]
        popen = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **popen}
        with subprocess.Popen([os.fspath(word) for word in argv], **popen) as process:
            try:
                stdout, stderr = process.communicate(timeout=timeout)
            except subprocess.TimeoutExpired:
                # zctrace passes it on to the command.
                process.terminate()
                try:
                    process.communicate(timeout=5)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.communicate()
                raise
        # It is there only if it is complete.
        if not file.exists():
            said = (stderr or b"").decode(errors="replace").strip()
            raise TraceError(said or f"zctrace ended with {process.returncode} and no report")
        return SyscallReport(json.loads(file.read_bytes()), stdout or b"", stderr or b"")


class Span:
    """A part of a test."""

    #: What was done in it, when it has ended.
    report: SyscallReport = None


@contextlib.contextmanager
def trace(*, select=None, zctrace="zctrace"):
    """Traces this process, its threads and all that it starts, in a ``with`` block. It takes eBPF."""
    span, options = Span(), ["-e", select] if select else []
    with tempfile.TemporaryDirectory(prefix="pytest-zctrace-") as folder, contextlib.ExitStack() as stack:
        file = Path(folder, "span.json")
        (commands, lines), (answers, outlet) = os.pipe(), os.pipe()
        for ours in (lines, answers):
            stack.callback(os.close, ours)
        argv = [zctrace, "-p", str(os.getpid()), f"--control=fd:{commands},{outlet}", *options, "--format=json"]
        try:
            tracer = subprocess.Popen(
                [*argv, "-o", file], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, pass_fds=(commands, outlet)
            )
        finally:
            os.close(commands)
            os.close(outlet)
        stack.callback(tracer.communicate)
        stack.callback(tracer.send_signal, signal.SIGINT)

        def say(line):
            with contextlib.suppress(BrokenPipeError):
                os.write(lines, line)
            # It closes this end if it ends, and has said why.
            answer = os.read(answers, 4096) or tracer.stderr.read()
            if answer != b"ok\n":
                raise TraceError(answer.decode(errors="replace").strip())

        say(b"start\n")
        yield span
        say(b"stop\n")
        span.report = SyscallReport(json.loads(file.read_bytes()), b"", b"")


class Syscalls:
    """What the fixture gives: called with a command it does what :func:`run` does."""

    def __init__(self, zctrace):
        self._zctrace = zctrace

    def __call__(self, command, **options) -> SyscallReport:
        return run(command, zctrace=self._zctrace, **options)

    def trace(self, **options):
        """What :func:`trace` does."""
        return trace(zctrace=self._zctrace, **options)


@pytest.fixture(scope="session")
def _zctrace():
    """The program, and why it cannot trace anything here, if so."""
    zctrace = os.environ.get("ZCTRACE") or shutil.which("zctrace")
    if not zctrace:
        return None, "no zctrace on the PATH, and ZCTRACE names none"
    tried = subprocess.run([zctrace, "-o", "/dev/null", "--", "true"], capture_output=True, check=False)
    return zctrace, tried.stderr.decode(errors="replace").strip() if tried.returncode else None


@pytest.fixture
def syscalls(_zctrace):
    """Traces a command, or with ``trace`` a part of the test: see :class:`Syscalls`."""
    zctrace, why = _zctrace
    if zctrace is None or why is not None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(f"nothing can be traced: {why}")
    return Syscalls(zctrace)
