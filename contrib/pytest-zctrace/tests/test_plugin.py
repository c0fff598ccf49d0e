"""`pytest contrib/pytest-zctrace`, with the plug-in installed, or named by PYTHONPATH and PYTEST_PLUGINS."""

import os
import re
from pathlib import Path

import pytest

from pytest_zctrace import NotCounted, Syscalls, TraceError

pytest_plugins = ["pytester"]


def test_calls_bytes_and_transfers_of_a_copy(syscalls, tmp_path):
    source = tmp_path / "in"
    source.write_bytes(os.urandom(100_000))
    report = syscalls(["dd", f"if={source}", f"of={tmp_path / 'out'}", "bs=1000", "status=none"])
    assert report.exact and report.exit_code == 0
    assert report.calls("write") == 100
    assert report.bytes("write") == 100_000
    assert report.errors("write") == 0
    [transfer] = [one for one in report.transfers if one["to"]["path"].endswith("out")]
    assert transfer["bytes"] == 100_000


def test_a_call_that_was_not_counted_is_an_error_and_not_0(syscalls):
    report = syscalls(["true"], "-e", "write")
    assert report.calls("write") == 0
    with pytest.raises(NotCounted):
        report.calls("read")
    assert syscalls(["true"], "-e", "all").calls("brk") > 0


def test_output_exit_status_and_failed_paths(syscalls):
    report = syscalls(["sh", "-c", "echo out; echo err >&2; cat /no/such; exit 3"])
    assert (report.exit_code, report.stdout) == (3, b"out\n")
    assert report.stderr.startswith(b"err\n")
    assert ("ENOENT", "/no/such", "openat") in report.failed_paths()


def test_expectations_hold_or_fail_with_what_was_found(syscalls, tmp_path):
    saved = ["sh", "-c", "echo x >f && sync f && sync ."]
    syscalls.check(saved, 'durable("f")', 'syncs("f").count == 1', cwd=tmp_path)
    with pytest.raises(AssertionError, match="f: not synced: it was not synced after write"):
        syscalls.check(["sh", "-c", "echo y >f"], 'durable("f")', cwd=tmp_path)
    with pytest.raises(AssertionError, match="made no mark \"commit\""):
        syscalls.check(saved, 'durable("f") at mark("commit")', cwd=tmp_path)


def test_a_part_of_a_test_has_its_own_calls_alone(syscalls):
    null = os.open("/dev/null", os.O_WRONLY)
    os.write(null, b"before")
    with syscalls.trace("-e", "write") as report:
        for _ in range(100):
            os.write(null, b"bytes")
    os.write(null, b"after")
    os.close(null)
    assert (report.calls("write"), report.bytes("write")) == (100, 500)
    assert report.exact


def test_a_command_that_is_not_there_says_so(syscalls):
    for popen in ({}, {"text": True}):
        with pytest.raises(TraceError, match="nosuch"):
            syscalls(["nosuch"], **popen)


def test_a_limit_of_time_ends_the_command(syscalls):
    report = syscalls(["sleep", "60"], "--duration=500ms", "--kill")
    assert report.json["exit"]["signal"] == 9 and report.exact


def test_without_zctrace_a_test_is_skipped_and_fails_in_ci(pytester, monkeypatch):
    pytester.makepyfile("def test_one(syscalls): syscalls(['true'])")
    monkeypatch.setenv("ZCTRACE", "/bin/false")
    monkeypatch.delenv("CI", raising=False)
    pytester.runpytest_subprocess().assert_outcomes(skipped=1)
    monkeypatch.setenv("CI", "true")
    pytester.runpytest_subprocess().assert_outcomes(errors=1)


def test_without_ebpf_a_part_of_a_test_is_skipped_and_fails_in_ci(pytester, monkeypatch):
    zctrace = pytester.path / "zctrace"
    zctrace.write_text("#!/bin/sh\ncase \"$*\" in *ebpf* | *control*) echo no eBPF >&2; exit 125 ;; esac\n")
    zctrace.chmod(0o755)
    pytester.makepyfile("def test_one(syscalls):\n    with syscalls.trace(): pass")
    monkeypatch.setenv("ZCTRACE", str(zctrace))
    monkeypatch.delenv("CI", raising=False)
    pytester.runpytest_subprocess().assert_outcomes(skipped=1)
    monkeypatch.setenv("CI", "true")
    pytester.runpytest_subprocess().assert_outcomes(failed=1)


def test_the_examples_of_the_readme_run(pytester):
    readme = (Path(__file__).parent.parent / "README.md").read_text()
    examples = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    for number, example in enumerate(examples):
        pytester.makepyfile(**{f"test_{number}": example})
    pytester.runpytest_subprocess().assert_outcomes(passed=len(examples))


def test_it_runs_without_the_fixture():
    zctrace = os.environ.get("ZCTRACE", "zctrace")
    assert Syscalls(zctrace)(["true"]).exit_code == 0
