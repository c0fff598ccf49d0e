#!/usr/bin/env -S python3 -B
"""Series of traced runs, each with a table in Markdown as its result.

`cargo xtask reference`, `matrix` and `contracts` start it. It needs root. All its files are in a
temporary directory, and all that it mounts is in a mount namespace of its own: both are gone with it.
"""

import argparse
import contextlib
import ctypes
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import tomllib
from pathlib import Path

TESTS = Path(__file__).parent


def die_with_us():
    """Has the kernel send SIGTERM to this process if its parent ends first."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGTERM)


@contextlib.contextmanager
def running(command, **options):
    """A process that is told to end, and waited for, when the block ends."""
    with subprocess.Popen(command, preexec_fn=die_with_us, text=True, **options) as process:
        try:
            yield process
        finally:
            process.terminate()


def run(command, may_fail=False, **options):
    """Runs a command to its end, and returns its stdout."""
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with running(command, **(pipes | options)) as process:
        printed, said = process.communicate()
    if process.returncode and not may_fail:
        sys.exit(f"runs: {shlex.join(map(str, command))} failed: {(said or '').strip()}")
    return printed


class Programs:
    """The programs of the project."""

    def __init__(self, directory):
        self.directory = Path(directory).absolute()
        self.zctrace = os.environ.get("ZCTRACE_BIN", self.directory / "zctrace")

    def resolve(self, command):
        """A command whose first word may be one of the programs."""
        own = self.directory / command[0]
        return [str(own), *command[1:]] if own.exists() else command

    def trace(self, command, options, scratch, **streams):
        """The report on a command."""
        report = scratch / "report"
        run([self.zctrace, "-o", report, *options, "--", *self.resolve(command)], **streams)
        return report.read_text()

    @contextlib.contextmanager
    def peer(self, *arguments):
        """The other side of a copy, `copier sink` or `copier feed`: its address."""
        command = [self.directory / "copier", *arguments]
        with running(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
            yield process.stdout.readline().removeprefix("listening ").rstrip("\n")
            if "--keep" not in arguments and process.wait():
                sys.exit(f"runs: {shlex.join(arguments)} failed")


PLACES = {
    "disk": "mkdir disk",
    "memory": "mkdir memory && mount -t tmpfs none memory",
    "ext4": "truncate -s $0 ext4.image && mkfs.ext4 -q -F ext4.image && mkdir ext4 && mount -o loop ext4.image ext4",
    "btrfs": "truncate -s $0 btrfs.image && mkfs.btrfs -q btrfs.image && mkdir btrfs && mount -o loop btrfs.image btrfs",
}
# Room for a filesystem's own structures; btrfs refuses less than 109 MiB.
OVERHEAD_BYTES, MIN_IMAGE_BYTES = 64 << 20, 256 << 20


def place(root, name, size):
    """A directory on a filesystem of this kind, with room for this many bytes."""
    if not (root / name).exists():
        image = max(size + size // 4 + OVERHEAD_BYTES, MIN_IMAGE_BYTES)
        run(["sh", "-c", PLACES[name], str(image)], cwd=root)
    return root / name


def write_input(path, size):
    """Writes lines of text, which no filesystem stores as a hole."""
    block = bytes([*range(ord(" "), ord("~") + 1), ord("\n")]) * 4096
    with open(path, "xb") as file:
        for _ in range(size // len(block)):
            file.write(block)
        file.write(block[: size % len(block)])
        file.flush()
        # Measurements must not share the disk with the writeback. All runs find it in the page cache.
        os.fsync(file.fileno())
    with open(path, "rb") as file:
        shutil.copyfileobj(file, open(os.devnull, "wb"))


@contextlib.contextmanager
def loop_device(image, size):
    """A block device with this many bytes. The kernel detaches it with its last user."""
    write_input(image, -(-size // 4096) * 4096)
    path = run(["losetup", "--find", "--show", image]).strip()
    with open(path, "rb"):
        run(["losetup", "--detach", path])
        yield path


# What others have published.


def reference(options, programs, scratch):
    """Repeats published measurements: the title of each row has what was published."""
    scenarios = {path.stem: path for path in sorted((TESTS / "scenarios").glob("*.toml"))}
    for name in options.only:
        if not any(known.startswith(name) for known in scenarios):
            sys.exit(f"runs: there is no run '{name}'; there are {', '.join(scenarios)}")
    for name, path in scenarios.items():
        if not options.only or name.startswith(tuple(options.only)):
            with tempfile.TemporaryDirectory(dir=scratch) as root:
                measure(name, tomllib.loads(path.read_text()), options, programs, Path(root))


def measure(name, scenario, options, programs, root):
    """Runs every command of a scenario, and prints what was measured."""
    made, to = scenario.get("input", {"bytes": 0, "on": "disk"}), scenario["output"]["to"]
    size = int(made["bytes"] * (1 if made.get("fixed") else options.scale))
    print(f"## {name}: {scenario['title']}\n\nPublished: {scenario['published']}. Here: {size} bytes.\n", flush=True)
    out_on = scenario["output"].get("on", made["on"])
    with contextlib.ExitStack() as stack:
        # Mounts go before the directory does.
        stack.callback(unmount, root)
        # An output file needs as much room again.
        source = place(root, made["on"], size * (1 + (to == "file" and out_on == made["on"])))
        ends = {"{in}": source / "in", "{out}": source / "socket", "{file}": root / "file"}
        if "input" in scenario:
            write_input(ends["{in}"], size)
        if to == "file":
            ends["{out}"] = place(root, out_on, size) / "out"
        elif to == "unix-socket":
            ends["{out}"] = f"unix:{ends['{out}']}"
            stack.enter_context(programs.peer("sink", ends["{out}"], "--keep"))
        if "{device}" in str(scenario):
            ends["{device}"] = stack.enter_context(loop_device(root / "device.image", size))

        def filled(word):
            return re.sub("{(in|out|file|device)}", lambda end: str(ends[end[0]]), word)

        commands = [[filled(word) for word in row["command"]] for row in scenario["run"]]
        titles = [title(row) for row in scenario["run"]]
        if scenario["measure"] == "compare":
            compare(zip(titles, commands), options.runs, programs, root, to == "pipe")
        else:
            for row, command in zip(titles, commands):
                report = programs.trace(
                    command, ["--format=markdown", "--wait-all"], root, stdout=subprocess.DEVNULL
                )
                print(f"{row}:\n\n{report}", flush=True)


def unmount(root):
    for name in PLACES:
        if os.path.ismount(root / name):
            run(["umount", root / name])


def title(row):
    """The name of a row, with its published figures and how many copies the measured ones are of."""
    published = f" (published: {row['published']})" if "published" in row else ""
    copies = f" ({row['copies']} copies)" if row.get("copies", 1) > 1 else ""
    return row["name"] + published + copies


def compare(rows, runs, programs, root, to_pipe):
    """Times and compares commands."""
    words = [programs.zctrace, "compare", "--format=markdown", "--warmup=1", "--runs", str(runs)]
    # Only a shell can connect the pipe. Its own time is subtracted.
    words += [] if to_pipe else ["-N"]
    end = f" > {drained_pipe(root)}" if to_pipe else ""
    for row, command in rows:
        words += ["--name", row, shlex.join(programs.resolve(command)) + end]
    run(words, stdout=None, stderr=None)
    print(flush=True)


def drained_pipe(root):
    """A pipe with a name that this process drains until it ends."""
    path = root / "pipe"
    os.mkfifo(path)
    # Open for both, so that it does not end with a writer.
    pipe = os.fdopen(os.open(path, os.O_RDWR), "rb", buffering=0)
    drain = threading.Thread(target=shutil.copyfileobj, args=(pipe, open(os.devnull, "wb")), daemon=True)
    drain.start()
    return path


# Which interface `std::io::copy` uses between which ends.

# The name, the copier's argument, and an option that it needs.
SOURCES = [
    ("regular file (ext4)", "{ext4}/in", []),
    ("regular file (tmpfs)", "{memory}/in", []),
    ("empty file", "{ext4}/empty", []),
    ("procfs file", "/proc/version", []),
    ("block device", "{source}", []),
    ("char device", "/dev/zero", ["--size=200123"]),
    ("memfd", "memfd:{ext4}/in", []),
    ("pipe", "pipe:{ext4}/in", []),
    ("unix stream", "unix:{disk}/from.socket", []),
    ("tcp", "tcp:127.0.0.1:0", []),
]
# Also the kind in reports.
DESTINATIONS = [
    ("regular file (ext4)", "{ext4}/out", [], "regular"),
    ("regular file (tmpfs)", "{memory}/out", [], "regular"),
    ("regular file, O_APPEND", "{ext4}/log", ["--append"], "regular"),
    ("block device", "{destination}", [], "block"),
    ("char device", "/dev/null", [], "char"),
    ("memfd", "memfd:", [], "memfd"),
    ("pipe", "pipe:/dev/null", [], "pipe"),
    ("unix stream", "unix:{disk}/to.socket", [], "unix-stream"),
    ("tcp", "tcp:127.0.0.1:0", [], "tcp"),
]
WRAPPINGS = {
    "`BufReader`": "bufreader",
    "`BufWriter`": "bufwriter",
    "`BufReader`, `BufWriter`": "bufreader,bufwriter",
    "`Take`": "take",
    "`&mut`": "mut",
    "`dyn Read`, `dyn Write`": "dyn",
}
# Several times what a pipe holds, and not a multiple of a buffer.
INPUT_BYTES = 200_123


def matrix(options, programs, scratch):
    """Copies between all kinds of ends, and shows what moved the bytes."""
    with contextlib.ExitStack() as stack:
        stack.callback(unmount, scratch)
        places = {name: place(scratch, name, 16 << 20) for name in ["ext4", "memory", "disk"]}
        for name in ["ext4", "memory"]:
            write_input(places[name] / "in", INPUT_BYTES)
        (places["ext4"] / "empty").touch()
        for name in ["source", "destination"]:
            device = loop_device(places["disk"] / f"{name}.image", INPUT_BYTES)
            places[name] = stack.enter_context(device)
        backend = f"--backend={options.backend}"
        kernels = []

        def cell(source, destination, *words):
            report, kind = copied(source, destination, words, backend, programs, places), destination[3]
            kernels.append(report["kernel"])
            return cell_of(report, kind)

        lines = [f"| from \\ to | {' | '.join(name for name, *_ in DESTINATIONS)} |"]
        lines += ["|---|" + "---|" * len(DESTINATIONS)]
        for source in SOURCES:
            cells = [cell(source, destination) for destination in DESTINATIONS]
            lines += [f"| {source[0]} | {' | '.join(cells)} |"]
        wrapped = "From a regular file to another on the same filesystem, through wrappers:"
        lines += ["", wrapped, "", "| wrapped | API |", "|---|---|"]
        for name, wrap in WRAPPINGS.items():
            lines += [f"| {name} | {cell(SOURCES[0], DESTINATIONS[0], f'--wrap={wrap}')} |"]
        # The compiler names itself in what it compiles.
        copier = (programs.directory / "copier").read_bytes()
        rust = re.search(rb"rustc version ([\d.]+)", copier)[1].decode()
        print(f"std::io::copy of Rust {rust}, kernel {kernels[0]}\n\n" + "\n".join(lines))


def copied(source, destination, words, backend, programs, places):
    """The report on one copy."""
    from_, to = (end[1].format_map(places) for end in (source, destination))
    with contextlib.ExitStack() as peers:
        if from_.startswith(("unix:", "tcp:")):
            feed = programs.peer("feed", from_, "--from", str(places["ext4"] / "in"))
            from_ = peers.enter_context(feed)
        if to.startswith(("unix:", "tcp:")):
            to = peers.enter_context(programs.peer("sink", to))
        command = ["copier", "std-io-copy", "--from", from_, "--to", to, *source[2], *destination[2], *words]
        options = ["--format=json", "--wait-all", backend]
        return json.loads(programs.trace(command, options, places["disk"]))


def cell_of(report, kind):
    """The interfaces by which the copier moved bytes to an end of this kind."""
    copier = next(process for process in report["processes"] if process["comm"] == "copier")
    cells = []
    for transfer in (report["transfers"][index] for index in copier["transfers"]):
        failed = [f"`{attempt['syscall']}` {attempt['errno']}" for attempt in transfer["attempts"]]
        cell = f"`{transfer['api']}`" + (f" after {', '.join(failed)}" if failed else "")
        if transfer["to"]["kind"] == kind and cell not in cells:
            cells.append(cell)
    return ", ".join(cells) or "nothing"


# What programs of other projects promise.


def contracts(options, programs, scratch):
    """Runs the checks of tests/contracts. A program that is not installed is no failure."""
    # The checks may name our copiers, which use libraries of others.
    os.environ["PATH"] = f"{programs.directory}:{os.environ['PATH']}"
    broken = []
    print("| program | what it does | by | why | |\n|---|---|---|---|---|")
    for path in sorted((TESTS / "contracts").glob("*.toml")):
        text = path.read_text()
        project, needs, version = re.match("# (.*)\n# needs: (.*)\n# version: (.*)\n", text).groups()
        project, about = project.split(": ", 1)
        is_here = all(map(shutil.which, needs.split()))
        if is_here:
            project += f" {run(['sh', '-c', version], may_fail=True, cwd=path.parent).strip()}"
        found = checked(path, programs, scratch) if is_here else {}
        for check in tomllib.loads(text)["check"]:
            name, why = check["name"], check.get("why", about)
            by, state = "", f"NOT RUN: needs {needs.replace(' ', ' and ')}"
            if is_here:
                result, by = found[name]
                state = "ok" if result["status"] == "passed" else result["status"]
                if state != "ok":
                    broken.append(f"{name}: {state} {findings(result)}")
            print(f"| {project} | {name} | {by} | {why} | {state} |", flush=True)
    if broken:
        sys.exit("\n".join(["runs: broken contracts:", *broken]))


def checked(path, programs, scratch):
    """The result of each check of a file by its name, and what moved the bytes of its prepared file."""
    reports = scratch / path.stem
    check = [programs.zctrace, "check", path, "--format=json", "--jobs=1", "--reports", reports]
    results, by = json.loads(run(check, may_fail=True, stderr=None))["checks"], {}
    for report in map(json.loads, (file.read_text() for file in reports.glob("*.json"))):
        # The most bytes first. Those that are part of another transfer have `part_of`.
        apis = [
            transfer["api"]
            for transfer in report["transfers"]
            if transfer["from"].get("path") == "in" and not transfer.get("part_of")
        ]
        by[report["labels"]["name"]] = ", ".join(dict.fromkeys(apis)) or "none"
    return {result["name"]: (result, by.get(result["name"], "")) for result in results}


def findings(result):
    """What a check found instead."""
    said = [result["error"] or ""]
    for expectation in result["expectations"]:
        if expectation["verdict"] != "holds":
            said += [one["found"] for one in expectation["findings"] if one["verdict"] != "holds"]
    return "; ".join(filter(None, said))


def part(text):
    scale = float(text)
    if not 0 < scale <= 1:
        raise argparse.ArgumentTypeError("a scale is above 0 and at most 1")
    return scale


def arguments():
    """Reads the command line."""
    parser = argparse.ArgumentParser(prog="cargo xtask", description="Series of traced runs.")
    parser.add_argument("--programs", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--scratch", type=Path, help=argparse.SUPPRESS)
    series = parser.add_subparsers(required=True)
    one = series.add_parser("reference", help="repeat published measurements")
    one.set_defaults(series=reference)
    one.add_argument("only", nargs="*", metavar="RUN", help="names in tests/scenarios, or beginnings of names")
    one.add_argument("--scale", type=part, default=0.25, help="the part of the published sizes to copy [0.25]")
    one.add_argument("--runs", type=int, default=5, help="timed runs of each command [5]")
    two = series.add_parser("matrix", help="show which kernel interface std::io::copy uses between which ends")
    two.set_defaults(series=matrix)
    two.add_argument("--backend", choices=["ebpf", "strace"], default="ebpf")
    three = series.add_parser("contracts", help="check what other projects' programs promise")
    three.set_defaults(series=contracts)
    return parser.parse_args()


def main():
    options = arguments()
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(1))
    if options.scratch:
        return options.series(options, Programs(options.programs), options.scratch)
    with tempfile.TemporaryDirectory() as scratch:
        again = ["unshare", "--mount", sys.executable, __file__, "--scratch", scratch, *sys.argv[1:]]
        with running(again) as process:
            sys.exit(process.wait() and 1)


if __name__ == "__main__":
    main()
