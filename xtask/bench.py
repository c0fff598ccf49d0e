#!/usr/bin/env -S python3 -B
"""What tracing costs, printed as tables. `cargo xtask bench` builds all programs and starts it.

It needs root and a mounted tracefs, in which other tools find the tracepoints.
"""

import argparse
import math
import os
import platform
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import namedtuple
from pathlib import Path

from apt import Apt, Unavailable, own_suites

# Seconds, the CPU time of a run and of all processes that it waited for, and the largest resident set
# of one of them. Where other work disturbs the wall times, CPU times still compare.
Sample = namedtuple("Sample", "wall cpu max_rss_kib")

# What is measured: its name in the table, how often it is run, and a function that runs it once.
Subject = namedtuple("Subject", "name rounds run")

FLOOR = "floor: two empty programs"
STRACE = "strace -c -f -o /dev/null --".split()


def zctrace(options=""):
    """zctrace with these options, and its report sent to /dev/null."""
    return [f"{OPTIONS.release}/zctrace", *f"--backend ebpf -o /dev/null {options} --".split()]


def floor(options=""):
    """The least that any design with tracepoints costs: programs that do nothing, or what the options say."""
    return [f"{OPTIONS.release}/examples/floor", *options.split(), "--"]


def start(words):
    """Runs a command line once: the sample, and what it wrote to stderr."""
    # In other languages, numbers have commas.
    environment = os.environ | {"LC_ALL": "C"}
    with open(os.devnull, "r+b") as null, tempfile.TemporaryFile() as stderr:
        files = [(null, 0), (null, 1), (stderr, 2)]
        streams = [(os.POSIX_SPAWN_DUP2, file.fileno(), number) for file, number in files]
        began = time.monotonic()
        pid = os.posix_spawnp(words[0], words, environment, file_actions=streams)
        _, status, usage = os.wait4(pid, 0)
        wall = time.monotonic() - began
        stderr.seek(0)
        printed = stderr.read().decode(errors="replace")
    if status:
        sys.exit(f"bench: `{' '.join(words)}` failed (wait status {status}): {printed}")
    return Sample(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss), printed


def under(name, prefix, command, rounds=None):
    """A command under a tool, which is started by the prefix."""
    return Subject(name, rounds or OPTIONS.rounds, lambda: start([*prefix, *command])[0])


def interleaved(subjects):
    """Runs every subject in every round, so that a slow moment of the machine affects all of them."""
    rows = {subject.name: [] for subject in subjects}
    for number in range(max(subject.rounds for subject in subjects)):
        for subject in subjects:
            if number < subject.rounds:
                rows[subject.name].append(subject.run())
    return rows


def table(rows, parts):
    """The shortest of all times: other work on the machine disturbs it least.

    What is added is over the first row, and its ratio is to what the floor adds. A work may have no
    parts, or no floor.

    >>> def row(ms):
    ...     return [Sample(wall / 1000, wall / 500, 10**8) for wall in (ms + 100, ms, ms + 100)]
    >>> rows = {"untraced": row(400), FLOOR: row(600), "zctrace": row(900)}
    >>> print(table(rows, 800_000).splitlines()[-1])
    | zctrace | 3 | 0.9000 | 1.0000 | 0.5000 | 625 | 2.50 | 2.25 | 1.8000 | 100000 |
    >>> print(table({"untraced": row(400)}, 0).splitlines()[-1])
    | untraced | 3 | 0.4000 | 0.5000 | 0.0000 |  |  | 1.00 | 0.8000 | 100000 |
    """
    lines = ["| | rounds | least, s | median, s | added, s | ns each | floors | / untraced | CPU, s | resident, MB |"]
    lines += ["|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|"]
    least = {name: min(sample.wall for sample in samples) for name, samples in rows.items()}
    untraced = next(iter(least.values()))
    for name, samples in rows.items():
        added = least[name] - untraced
        floors = added / (least[FLOOR] - untraced) if FLOOR in least else math.nan
        figures = [
            (least[name], 4),
            (sorted(sample.wall for sample in samples)[len(samples) // 2], 4),
            (added, 4),
            (added * 1e9 / parts if parts else math.nan, 0),
            (floors, 2),
            (least[name] / untraced, 2),
            (min(sample.cpu for sample in samples), 4),
        ]
        cells = [f"{figure:.{digits}f}" if math.isfinite(figure) else "" for figure, digits in figures]
        # Until its exec, a process has the memory of this one.
        own, resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, max(sample.max_rss_kib for sample in samples)
        resident = f"{resident // 1000}" if resident > own else f"≤ {own // 1000}"
        lines += [f"| {name} | {len(samples)} | {' | '.join(cells)} | {resident} |"]
    return "\n".join(lines)


def report(title, subjects, parts=0):
    """Measures and prints a table."""
    print(f"## {title}\n\n{table(interleaved(subjects), parts)}\n", flush=True)


# What tracing adds to the cheapest calls, under zctrace and under other tools.

# How many blocks dd copies, with two calls for each, which move next to nothing. Tools that stop or
# wake something at each call copy fewer.
BLOCKS, FEW_BLOCKS = 400_000, 40_000

# zctrace, from where it records least. The fourth only lacks which writes belong to which reads.
OURS = [
    "--recorded none",
    "--counts-only --no-files",
    "--no-files",
    "--recorded rows,times,histograms,others,files",
    "",
    "--callers",
]

# Tools that are not ours. If the words end with `--`, the tool starts dd. The others trace the whole
# machine, and are started next to dd.
BPFTRACE_CALLS = """BEGIN { printf("attached\\n") }
    tracepoint:raw_syscalls:sys_exit { @c[pid, args->id] = count(); }"""
BPFTRACE_ALL = """BEGIN { printf("attached\\n") }
    tracepoint:raw_syscalls:sys_enter { @s[tid] = nsecs; }
    tracepoint:raw_syscalls:sys_exit /@s[tid]/ {
        $d = nsecs - @s[tid]; delete(@s[tid]);
        @n[pid, args->id] = count(); @t[pid, args->id] = sum($d);
        @m[pid, args->id] = max($d); @h[pid, args->id] = hist($d);
        if (args->ret > 0) { @b[pid, args->id] = sum(args->ret); }
    }"""
PEERS = {
    "syscount": ["/usr/sbin/syscount"],
    "syscount -L": ["/usr/sbin/syscount", "-L"],
    "bpftrace: calls": ["bpftrace", "-e", BPFTRACE_CALLS],
    "bpftrace: calls, times, bytes, histograms": ["bpftrace", "-e", BPFTRACE_ALL],
    "perf trace -s": "perf trace -s -o /dev/null --".split(),
    "strace -c": "strace -c -o /dev/null --".split(),
}
# The lines that say that all is attached. syscount prints it after that. bpftrace runs BEGIN before,
# but reads what programs have printed only after it has attached the last one.
ATTACHED = ("Tracing syscalls", "attached")


def copy(prefix=(), blocks=BLOCKS):
    """Runs dd under a tool. Its wall time is what all blocks take by dd's own account."""
    dd = f"dd if=/dev/zero of=/dev/null bs=4k count={blocks}"
    sample, printed = start([*prefix, *dd.split()])
    seconds = float(re.search(r"copied, (\S+) s", printed)[1])
    return sample._replace(wall=seconds * BLOCKS / blocks)


def copy_beside(tool, blocks=BLOCKS):
    """Runs dd while a tool traces the whole machine. The sample is that of dd alone."""
    # Into a pipe, programs write lines only when there are many.
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(["stdbuf", "-oL", *tool], text=True, **streams) as process:
        try:
            if not any(line.startswith(ATTACHED) for line in process.stdout):
                raise OSError("it ends before it is attached: try it by hand")
            return copy(blocks=blocks)
        finally:
            process.send_signal(signal.SIGINT)
            # It prints what it has counted.
            for _ in process.stdout:
                pass


def calls():
    """The time that dd takes by its own account, so the start and the end of tools are left out."""

    def subject(name, prefix):
        return Subject(name, OPTIONS.rounds, lambda: copy(prefix))

    subjects = [subject("untraced", []), subject(FLOOR, floor())]
    subjects += [subject("two that read the clock", floor("--clocks"))]
    subjects += [subject(f"zctrace {options}".strip(), zctrace(options)) for options in OURS]
    for name, tool in PEERS.items():
        run, rounds, blocks = (copy_beside, OPTIONS.rounds, BLOCKS)
        if tool[-1] == "--":
            run, rounds, blocks = (copy, 1, FEW_BLOCKS)
        if not shutil.which(tool[0]):
            print(f"not installed: {name}\n")
            continue
        try:
            run(tool, 1)
        except (OSError, SystemExit) as error:
            print(f"does not run here: {name}: {error}\n")
            continue
        subjects += [Subject(name, rounds, lambda run=run, tool=tool, blocks=blocks: run(tool, blocks))]
    report("A call: dd of 4 KiB blocks", subjects, 2 * BLOCKS)


# A name, how many parts it has, and a line for sh, whose $0 is our test program. The last one appends:
# for a file that is truncated, some file systems wait for the disk.
WORKS = [
    ("2,000 x true", 2_000, "seq 2000 | xargs -n1 true"),
    ("20,000 forks", 20_000, "$0 fork-storm 20000"),
    ("2 x 200,000 writes", 400_000, "$0 thread-storm 2 200000"),
    (
        "50,000 files, one write each",
        50_000,
        "cd $1; i=0; while [ $i -lt 50000 ]; do i=$((i + 1)); echo >>$i; done",
    ),
    ("find /usr", 0, "find /usr -size +1G"),
]


def processes():
    """Work of several kinds, besides what two empty programs add."""
    for name, parts, line in WORKS:
        with tempfile.TemporaryDirectory() as directory:
            command = ["sh", "-c", line, f"{OPTIONS.release}/workload", directory]
            subjects = [under("untraced", [], command), under(FLOOR, floor(), command)]
            for options in ["", "--counts-only", "--callers", "--paths"]:
                subjects += [under(f"zctrace {options}".strip(), zctrace(options), command)]
            report(name, subjects, parts)


def starts():
    """`true` by itself, checks of it, and traces in a process that is built for debugging, as tests are."""
    with tempfile.TemporaryDirectory() as directory:

        def checks(count):
            file = f"{directory}/{count}.toml"
            rest = 'command = ["true"]\nexpect = ["exit.code == 0"]\n'
            with open(file, "w", encoding="utf-8") as text:
                text.writelines(f'[[check]]\nname = "{number}"\n{rest}' for number in range(count))
            return under(f"{count} checks", [], [f"{OPTIONS.release}/zctrace", "check", file])

        traces = [f"{OPTIONS.debug}/examples/many_traces", "closures"]
        subjects = [under("untraced", [], ["true"]), under(FLOOR, floor(), ["true"])]
        subjects += [under("zctrace", zctrace(), ["true"])]
        subjects += [under("zctrace --callers", zctrace("--callers"), ["true"])]
        subjects += [checks(10), checks(100)]
        subjects += [under("1 closure in a debug build", traces, ["1"])]
        subjects += [under("50 closures", traces, ["50"])]
        if shutil.which("strace"):
            subjects += [under("strace -c -f", STRACE, ["true"])]
        report("A start: true", subjects)


# The source package whose C files are compiled.
PACKAGE = "redis"
# Without what only some machines have, and without optimizing, which is not what is measured.
MAKE = "make -j2 MALLOC=libc USE_SYSTEMD=no OPTIMIZATION=-O0 -C".split()


def build():
    """A program that people use, where its source can be fetched."""
    try:
        apt = Apt(OPTIONS.directory / "apt", platform.machine(), own_suites(), "deb-src", "Sources")
        source = apt.source(PACKAGE, OPTIONS.directory)
    except Unavailable as error:
        print(f"## Build of {PACKAGE}\n\nNOT RUN: {error}\n")
        return

    def once(prefix=()):
        with tempfile.TemporaryDirectory() as tree:
            unpack = ["tar", "--strip-components=1", "-xf", source, "-C", tree]
            subprocess.run(unpack, check=True)
            return start([*prefix, *MAKE, tree])[0]

    # It brings compiler and source into memory.
    once()
    rounds = min(OPTIONS.rounds, 3)
    subjects = [Subject("untraced", rounds, once)]
    subjects += [Subject("zctrace", rounds, lambda: once(zctrace()))]
    subjects += [Subject("zctrace --paths", rounds, lambda: once(zctrace("--paths")))]
    if shutil.which("strace"):
        subjects += [Subject("strace -c -f", 1, lambda: once(STRACE))]
    report(f"Build of {source.name}", subjects)


MEASURED = {"call": calls, "process": processes, "start": starts, "build": build}

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("works", nargs="*", choices=[[], *MEASURED])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--release")
    parser.add_argument("--debug")
    parser.add_argument("--directory", type=Path, help="a directory for sources")
    OPTIONS = parser.parse_args()
    for work, measure in MEASURED.items():
        if not OPTIONS.works or work in OPTIONS.works:
            measure()
