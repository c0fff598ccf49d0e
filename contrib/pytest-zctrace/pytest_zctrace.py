"""System calls in pytest: the fixture ``syscalls`` traces a command, or a part of a test, by zctrace.

    def test_the_kernel_does_the_copying(syscalls, tmp_path):
        report = syscalls(["cp", "in", tmp_path / "out"])
        assert report.exact and report.calls("write") == 0

    def test_a_copy_reads_nothing(syscalls, tmp_path):
        with syscalls.trace() as report:
            shutil.copyfile("in", tmp_path / "out")
        assert report.calls("read") == 0

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


class NotCounted(KeyError):
    """The call has no row in this report, because it was not selected. That is not 0."""


class TraceError(RuntimeError):
    """zctrace wrote no report. The message says why."""


@dataclass
class SyscallReport:
    """What a command and all its descendants did. Counts are lower bounds unless ``exact``."""

    json: dict = None  #: As `zctrace --format json` wrote it: docs/json.md describes each field.
    stdout: bytes = b""  #: What the command wrote.
    stderr: bytes = b""

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
        return [(one["errno"], one["path"], one["syscall"]) for one in self.json["totals"]["failed_paths"]]

    def _rows(self, name: str) -> list:
        counted = self.json["counted"]
        rows = [row for row in self.json["totals"]["syscalls"] if row["name"] == name]
        if not rows and counted != "all" and name not in (counted or {}).get("names", ()):
            raise NotCounted(f"{name} was not counted: select it by the options '-e', '{name}'")
        return rows


class Syscalls:
    """What the fixture gives. ``options`` are those of zctrace: ``syscalls(["true"], "-e", "%network")``."""

    def __init__(self, zctrace):
        self._zctrace = zctrace

    def __call__(self, command, *options, **popen) -> SyscallReport:
        """Runs a command. ``popen`` goes to :class:`subprocess.Popen`. ``"--duration=5s", "--kill"`` limit its time."""
        popen = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **popen}
        with tempfile.TemporaryDirectory(prefix="pytest-zctrace-") as folder:
            file = Path(folder, "report.json")
            argv = [self._zctrace, "--format=json", "-o", file, *options, "--", *map(os.fspath, command)]
            with subprocess.Popen(argv, **popen) as process:
                stdout, stderr = (b"" if output is None else output for output in process.communicate())
            if not file.exists():  # It is there only if it is complete.
                said = stderr if isinstance(stderr, str) else stderr.decode(errors="replace")
                raise TraceError(said.strip() or f"zctrace ended with {process.returncode} and no report")
            return SyscallReport(json.loads(file.read_bytes()), stdout, stderr)

    def check(self, command, *expectations, options=(), **popen):
        """Fails unless these expectations hold of a command: ``check(["./save"], 'durable("data/**")')``.

        ``options`` are those of ``zctrace check``, and ``popen`` goes to :func:`subprocess.run`."""
        expected = [f"--expect={expectation}" for expectation in expectations]
        argv = [self._zctrace, "check", *options, *expected, "--", *map(os.fspath, command)]
        popen = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True, **popen}
        checked = subprocess.run(argv, check=False, **popen)
        if checked.returncode != 0:
            raise AssertionError(f"{checked.stdout}{checked.stderr}".strip())

    @contextlib.contextmanager
    def trace(self, *options):
        """Traces this process and all that it starts, by eBPF. The report is complete after the block."""
        with tempfile.TemporaryDirectory(prefix="pytest-zctrace-") as folder, contextlib.ExitStack() as stack:
            file = Path(folder, "span.json")
            (commands, lines), (answers, outlet) = os.pipe(), os.pipe()
            for ours in (lines, answers):
                stack.callback(os.close, ours)
            argv = [self._zctrace, "-p", str(os.getpid()), f"--control=fd:{commands},{outlet}", *options]
            streams = {"stdin": subprocess.DEVNULL, "stderr": subprocess.PIPE, "pass_fds": (commands, outlet)}
            try:
                tracer = subprocess.Popen([*argv, "--format=json", "-o", file], **streams)
            finally:
                os.close(commands)
                os.close(outlet)
            stack.callback(tracer.communicate)
            stack.callback(tracer.send_signal, signal.SIGINT)

            def say(line):
                with contextlib.suppress(BrokenPipeError):
                    os.write(lines, line)
                answer = os.read(answers, 4096) or tracer.stderr.read()  # If it ends, it has said why.
                if answer != b"ok\n":
                    _need(self._zctrace, "--backend=ebpf")
                    raise TraceError(answer.decode(errors="replace").strip())

            say(b"start\n")
            yield (report := SyscallReport())
            say(b"stop\n")
            report.json = json.loads(file.read_bytes())


def _need(zctrace, *options):
    """Skips the test where nothing can be traced with these options; fails it in CI."""
    why = "no zctrace on the PATH, and ZCTRACE names none"
    if zctrace:
        tried = subprocess.run([zctrace, *options, "-o", "/dev/null", "--", "true"], capture_output=True, check=False)
        why = tried.returncode and (tried.stderr.decode(errors="replace").strip() or "zctrace fails")
    if why:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(f"nothing can be traced: {why}")


@pytest.fixture(scope="session")
def syscalls():
    """Traces a command, or with ``trace`` a part of the test: see :class:`Syscalls`."""
    _need(zctrace := os.environ.get("ZCTRACE") or shutil.which("zctrace"))
    return Syscalls(zctrace)
