#!/usr/bin/env -S python3 -B
"""The integration tests inside guests with the kernels that people run, each booted in QEMU.

`cargo xtask vm` starts it, once to fetch what the guests of an architecture need, then, when the
programs under test are built, to boot them.
"""

import argparse
import contextlib
import fcntl
import os
import platform
import re
import shutil
import subprocess
import sys
import threading
import time
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from apt import DEBIAN, Apt, Unavailable, own_suites, run

HERE = Path(__file__).parent

# All kernels: the first two numbers of the version, and Debian's suites that have it. The newest package
# is taken.
SERIES = {
    "6.1": ["bookworm", "bookworm-security"],
    "6.12": ["trixie", "trixie-security"],
    "6.18": ["trixie-backports"],
    "newest": ["trixie-backports", "sid"],
}

# Tests that no guest runs, by a part of their names. Most are judged and printed the same way on every
# kernel; guests run the checks of zctrace.toml instead. Some take compilers, binutils or Go, which guests
# lack. The other tests depend on the kernel: on its verifier, its tracepoints, its system calls and its
# rules for tracers.
LEFT_OUT = """
    callers::builds:: formats:: gos_io_copy_uses_sendfile_to_tcp sessions::action sessions::check
    sessions::compare sessions::diff sessions::help sessions::links sessions::marks sessions::output
    sessions::page sessions::saved_reports sessions::usage_errors
""".split()

# The guests that CI boots; the one that takes longest is first.
SUBSET = [("aarch64", "6.1"), ("x86_64", "6.1"), ("x86_64", "6.12")]

# The tests that CI runs in guests, those that depend most on the kernel: that the programs load, known
# counts, calls of 32 bits, the kernel's own counters beside ours, storms of processes, programs and
# threads, callers, running processes and a cgroup, a span, syncs, and touched paths.
SUBSET_OF_TESTS = """
    attach::cgroup::everything_in_a_cgroup attach::threads_and_children callers::std_io_copy_is_named
    counters:: counts:: spans::a_controlled_span storms::sixty_four_threads storms::three_hundred_programs
    storms::two_thousand_processes syncs::kernel::programs_and_maps_for_syncs
    touches::further_calls
""".split()

# Of these, the tests that CI leaves out because they take long and depend the least on the kernel.
NOT_IN_SUBSET = """
    _beside_bystanders counts::a_child_that_strace_cannot_follow counts::calls_without_a_name
    counts::only_selected_calls counts::processes_in_a_pid_namespace counts::without_files
    counts::without_times
""".split()

# The checks that CI runs in guests: every kernel interface that a copier can use.
SUBSET_OF_CHECKS = ["copier: *", "copier-c: *", "std::io::copy: file to *"]

# How long all guests of CI together may take. On two idle processors they take less than 8 minutes.
CI_LIMIT_S = 12 * 60

# Packages with programs that the tests use. Their dependencies are installed, too.
PACKAGES = """
    base-files base-passwd bash bsdutils btrfs-progs busybox-static coreutils dash diffutils e2fsprogs
    findutils grep groff-base gzip jq kmod libc-bin man-db mount perl procps python3 sed strace tar util-linux
""".split()
# Directories that are links into /usr, and directories that no package has.
MERGED, BARE = "bin sbin lib lib64".split(), "dev proc sys run tmp root mnt var/tmp".split()
# Size of the disk; it is sparse.
DISK_BYTES = 4 << 30
# Modules that the kernel needs to mount the disk; their dependencies are added. In newer kernels they are
# built in.
DISK_MODULES = ["virtio_pci", "virtio_blk", "ext4"]

# Options of QEMU for the emulated machine. Its processor has every feature of QEMU except some that are
# slow to emulate and not needed: without pointer authentication and SVE, an arm64 guest takes a third less
# time.
MACHINE = {"x86_64": "-machine pc -cpu max", "aarch64": "-machine virt -cpu max,pauth=off,sve=off"}
# Options for the kernel, with its name of the first serial port. The dynamic loader of arm64 unmaps the
# excess around a library, if its address leaves any: at random addresses, runs of the same program differ
# by a call. On a busy machine the first ticks of an emulated timer come too late for the check of x86
# ("IO-APIC + timer doesn't work!"). A guest whose kernel panics must end; its missing last line shows the
# failure.
KERNEL_OPTIONS = {"x86_64": "console=ttyS0 no_timer_check", "aarch64": "console=ttyAMA0 norandmaps"}
QUIET = "quiet loglevel=4 panic=-1 oops=panic"
# Emulation works everywhere; KVM is missing in many containers. One thread runs both processors in turn:
# with a thread for each, a processor may still meet the breakpoint of a code patch that the other has
# completed, which ends the kernel with "Oops: int3" (seen with QEMU 7.2 and Linux 6.18, in __schedule).
EMULATION = """
    -accel tcg,thread=single -smp 2 -m 2048 -nodefaults -no-user-config -display none -no-reboot
    -serial stdio
""".split()

# A guest that prints nothing for so long hangs. The checks print nothing until all have run, which takes
# up to two minutes.
HANGS_S = 5 * 60

PASSED, FAILED, NOT_RUN = "ok", "FAILED", "NOT RUN"

Kernel = namedtuple("Kernel", "release image modules")
Result = namedtuple("Result", "arch series release state why seconds")


def line(result):
    """The closing line about a guest."""
    release = f"{result.release}: " if result.release else ""
    guest = f"{result.series:7} {result.arch:7}"
    return f"{result.state:7} vm {guest} {result.seconds:6.1f} s  {release}{result.why}"


def exit_code(states):
    """Success if all guests passed; 3 if one could not be run at all, and none failed.

    >>> [exit_code(states) for states in [{PASSED}, {PASSED, NOT_RUN}, {NOT_RUN, FAILED}]]
    [0, 3, 1]
    """
    return 1 if FAILED in states else 3 if NOT_RUN in states else 0


# Kernels.


def numbers(release):
    """The numbers in a release, to compare it with others."""
    return [int(number) for number in re.findall(r"\d+", release)]


def newest_of(series, names, arch):
    """The newest package of a series among these names, as the kernel's release.

    >>> names = '''linux-image-6.1-cloud-amd64 linux-image-6.1.0-9-cloud-amd64
    ... linux-image-6.1.0-56-cloud-amd64 linux-image-6.1.0-57-cloud-amd64-unsigned linux-image-6.1.0-58-amd64
    ... linux-image-6.12.90+deb13.1-cloud-amd64 linux-image-6.12.117+deb13-cloud-amd64
    ... linux-image-6.12.117+deb13-cloud-amd64-dbg linux-image-7.0.13+deb13-cloud-amd64
    ... linux-image-7.0.13+deb13-cloud-arm64 linux-image-cloud-amd64'''.split()
    >>> for series, arch in [("6.1", "x86_64"), ("6.12", "x86_64"), ("newest", "x86_64"), ("newest", "aarch64")]:
    ...     newest_of(series, names, arch)
    '6.1.0-56-cloud-amd64'
    '6.12.117+deb13-cloud-amd64'
    '7.0.13+deb13-cloud-amd64'
    '7.0.13+deb13-cloud-arm64'
    >>> newest_of("6.18", names, "x86_64")
    """
    start = "" if series == "newest" else f"{series}."
    found = [
        name.removeprefix("linux-image-")
        for name in names
        if name.startswith(f"linux-image-{start}") and name.endswith(f"-cloud-{DEBIAN[arch]}")
    ]
    return max((release for release in found if len(numbers(release)) > 2), key=numbers, default=None)


def fetch_kernel(series, arch):
    """Fetches and unpacks a kernel below the cache, unless that was done before."""
    apt = Apt(cache(arch) / "apt" / series, arch, SERIES[series])
    names = apt.names("linux-")
    release = newest_of(series, names, arch)
    if not release:
        suites = ", ".join(SERIES[series])
        raise Unavailable(f"no package linux-image-{series}.*-cloud-{DEBIAN[arch]} in {suites}")
    tree = cache(arch) / "kernels" / release
    if not (tree / "complete").exists():
        shutil.rmtree(tree, ignore_errors=True)
        # Newer kernels have image and modules in packages of their own.
        parts = [f"linux-{part}-{release}" for part in ["image", "base", "binary", "modules"]]
        packages = tree.with_name(f"{release}.packages")
        for package in apt.download([part for part in parts if part in names], packages):
            run(["dpkg-deb", "-x", package, tree], "cannot unpack a kernel")
        shutil.rmtree(packages)
        (tree / "complete").touch()
    modules = next(filter(Path.is_dir, (tree / place / release for place in ["lib/modules", "usr/lib/modules"])))
    # In newer packages the image is beside the modules.
    image = tree / f"boot/vmlinuz-{release}"
    return Kernel(release, image if image.exists() else modules / "vmlinuz", modules)


# The disk of a guest, with Debian, the modules of its kernels and the programs under test; and the
# initramfs that it starts from.


def unpack_tree(arch):
    """Unpacks packages of this machine's own release, so that programs built here find their libraries."""
    apt = Apt(cache(arch) / "apt/guest", arch, own_suites())
    packages = apt.closure(PACKAGES)
    archives = apt.download(packages, cache(arch) / "guest")
    tree, stamp = work(arch) / "root", work(arch) / "root.packages"
    if stamp.exists() and stamp.read_text() == "\n".join(packages):
        return tree
    shutil.rmtree(tree, ignore_errors=True)
    for name in MERGED:
        (tree / "usr" / name).mkdir(parents=True)
        (tree / name).symlink_to(f"usr/{name}")
    for archive in archives:
        # dpkg-deb's own -x would put directories in place of the links.
        script = 'dpkg-deb --fsys-tarfile "$0" | tar -x --keep-directory-symlink -C "$1"'
        run(["sh", "-c", script, archive, tree], "cannot unpack a package")
    for name in BARE:
        (tree / name).mkdir(parents=True, exist_ok=True)
    (tree / "tmp").chmod(0o1777)
    # The packages' own scripts would do this.
    for name in ["passwd", "group"]:
        shutil.copy(tree / f"usr/share/base-passwd/{name}.master", tree / "etc" / name)
    (tree / "etc/hostname").write_text("guest\n")
    (tree / "etc/hosts").write_text("127.0.0.1 localhost guest\n")
    stamp.write_text("\n".join(packages))
    return tree


def make_disk(tree, kernels, files, tests, disk):
    """Puts the programs at the same paths as on this machine, and makes a disk. All kernels share it: a
    guest's changes to it are not kept."""
    inside = lambda path: tree / str(path).lstrip("/")
    # Those of an earlier build.
    shutil.rmtree(inside(tests), ignore_errors=True)
    for path in files:
        place = inside(path)
        place.parent.mkdir(parents=True, exist_ok=True)
        # A hard link costs nothing; on another filesystem it has to be a copy.
        run(["sh", "-c", 'cp -alT --remove-destination "$0" "$1" 2>/dev/null || cp -aT "$0" "$1"', path, place], "cannot copy")
    for name, script in {"in-an-empty-root": "src/dist/in-an-empty-root.sh", "guest": "src/vm/guest.sh"}.items():
        write_script(tree / "usr/sbin" / name, (HERE / script).read_text())
    for kernel in kernels:
        place = tree / "lib/modules" / kernel.release
        if not place.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            run(["cp", "-a", kernel.modules, place], "cannot copy the modules")
            run(["/sbin/depmod", "-b", tree, kernel.release], "cannot list the modules")
    disk.unlink(missing_ok=True)
    with open(disk, "wb") as file:
        file.truncate(DISK_BYTES)
    run(["/sbin/mkfs.ext4", "-q", "-F", "-E", "root_owner=0:0", "-d", tree, disk], "cannot make a disk")


def load_order(dependencies, names):
    """The files of these modules and of their dependencies, in the order in which they can be loaded.

    A line of `modules.dep` has a module, a colon and its dependencies, the last of which is loaded first
    (`man 5 modules.dep`). A module without a line is built into the kernel.

    >>> load_order('''virtio/ring.ko.xz:
    ... virtio/virtio.ko.xz: virtio/ring.ko.xz
    ... block/virtio_blk.ko.xz: virtio/virtio.ko.xz virtio/ring.ko.xz
    ... virtio/virtio_pci.ko.xz: virtio/legacy.ko.xz virtio/virtio.ko.xz virtio/ring.ko.xz
    ... ''', ["virtio_pci", "virtio_blk", "ext4"])
    ... # doctest: +NORMALIZE_WHITESPACE
    ['virtio/ring.ko.xz', 'virtio/virtio.ko.xz', 'virtio/legacy.ko.xz', 'virtio/virtio_pci.ko.xz',
     'block/virtio_blk.ko.xz']
    """
    order = []
    for name in names:
        found = [line for line in dependencies.splitlines() if f"/{name}.ko" in line.split(":")[0]]
        for entry in found[:1]:
            module, below = entry.split(":")
            order += [file for file in [*reversed(below.split()), module] if file not in order]
    return order


def write_script(path, text):
    """Writes a file that can be run."""
    path.write_text(text)
    path.chmod(0o755)


def make_initramfs(tree, kernel, plan, path):
    """Makes the initramfs, which mounts the disk and has the plan: files for the guest's script."""
    start = path.with_name(f"{path.name}.start")
    shutil.rmtree(start, ignore_errors=True)
    for name in ["bin", "modules", "plan"]:
        (start / name).mkdir(parents=True)
    shutil.copy(tree / "bin/busybox", start / "bin/busybox")
    write_script(start / "init", (HERE / "src/vm/init").read_text())
    for name, text in plan.items():
        (start / "plan" / name).write_text(text)
    modules = tree / "lib/modules" / kernel.release
    order = load_order((modules / "modules.dep").read_text(), DISK_MODULES)
    for position, module in enumerate(order):
        unpack = "xz -dc" if module.endswith(".xz") else "cat"
        place = start / f"modules/{position:02}.ko"
        run(["sh", "-c", f'{unpack} "$0" >"$1"', modules / module, place], "cannot unpack a module")
    pack = 'find . | cpio --quiet -o -H newc -R 0:0 >"$0"'
    run(["sh", "-c", pack, path.absolute()], "cannot make the initramfs", cwd=start)
    shutil.rmtree(start)


# Running a guest.


def to_end_of(command, limit_s, on_line):
    """Runs a program until it ends or its time is over. For how long it was silent at the end of its time;
    `None` if it ended by itself.

    >>> to_end_of(["printf", r"one\\r\\n\\ntwo"], 60, print)
    one
    <BLANKLINE>
    two
    >>> to_end_of(["sh", "-c", "echo here; exec sleep 1000"], 1, print) >= 0
    here
    True
    """
    # To `timeout`, 0 is no limit.
    limited = ["timeout", "--foreground", "-k", "5", str(max(limit_s, 1)), *map(str, command)]
    # It ends with this process.
    limited = ["setpriv", "--pdeathsig", "TERM", *limited]
    with subprocess.Popen(limited, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as program:
        last = time.monotonic()
        for text in program.stdout:
            last = time.monotonic()
            on_line(text.decode(errors="replace").rstrip("\r\n"))
        silent = time.monotonic() - last
    if program.returncode in (126, 127):
        raise Unavailable(f"cannot start {command[0]}")
    # What `timeout` says if it has ended the program, and what if it had to kill it.
    return silent if program.returncode in (124, 137, -9) else None


class Transcript:
    """What a guest has printed about its tests."""

    def __init__(self):
        self.passed, self.failed, self.verdict = 0, 0, None

    def read(self, text):
        """Reads one line of output. The guest's script says how its work ended."""
        said = re.fullmatch("zctrace-vm: (passed|failed) (.*)", text)
        if said:
            self.verdict = (PASSED if said[1] == "passed" else FAILED, said[2])
        elif text.startswith("test "):
            self.failed += text.endswith(" ... FAILED")
            self.passed += text.endswith(" ... ok")

    def judge(self, silent):
        """The verdict; a guest that did not say one has died, or is on a slow machine if it was still
        printing when its time was over.

        >>> def judged(lines, silent=None):
        ...     transcript = Transcript()
        ...     for text in lines: transcript.read(text)
        ...     return transcript.judge(silent)[0]
        >>> ok, bad = "test storms::one ... ok", "test storms::two ... FAILED"
        >>> judged([ok, "zctrace-vm: passed 12 passed"]), judged([ok, "zctrace-vm: release 6.1"], 10)
        ('ok', 'NOT RUN')
        >>> judged([bad, "zctrace-vm: failed 1 failed"]), judged([ok]), judged([ok, bad], 10), judged([ok], 300)
        ('FAILED', 'FAILED', 'FAILED', 'FAILED')
        """
        so_far = f"{self.passed} passed, {self.failed} failed until then"
        if self.verdict:
            return self.verdict
        if silent is None:
            return (FAILED, f"the guest died: {so_far}")
        if self.failed or silent >= HANGS_S:
            return (FAILED, f"ran out of time: {so_far}, and nothing was said for {silent:.0f} s")
        return (NOT_RUN, f"ran out of time: {so_far}")


def boot(arch, series, kernel, tree, plan, limit_s):
    """Boots a guest, prints what it prints, and judges it."""
    initramfs = work(arch) / f"initramfs-{series}"
    make_initramfs(tree, kernel, plan, initramfs)
    qemu = [f"qemu-system-{arch}", *MACHINE[arch].split(), *EMULATION]
    qemu += ["-kernel", kernel.image, "-initrd", initramfs, "-append", f"{KERNEL_OPTIONS[arch]} {QUIET}"]
    qemu += ["-drive", f"file={work(arch) / 'disk'},format=raw,if=virtio,snapshot=on"]
    print(f"== {kernel.release} on {arch}: boots, within {limit_s:.0f} s", flush=True)
    transcript, start = Transcript(), time.monotonic()

    def on_line(text):
        print(f"{series} {arch} {time.monotonic() - start:6.1f} | {text}", flush=True)
        transcript.read(text)

    return transcript.judge(to_end_of(qemu, limit_s, on_line))


# What the guests of one architecture share.


def cache(arch):
    """Where packages are kept between runs, outside the repository."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(home) / "zctrace/vm" / DEBIAN[arch]


def work(arch):
    """Where the disks of guests are made."""
    return OPTIONS.target / "vm" / arch


@contextlib.contextmanager
def lock(directory):
    """Waits until no other process works in a directory, and keeps others out."""
    directory.mkdir(parents=True, exist_ok=True)
    with open(directory / "lock", "w", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            print("vm: waits for another `cargo xtask vm`", file=sys.stderr)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def fetch(arch, names):
    """The tree of Debian's files, and each kernel, or why it is not there."""
    kernels = {}
    with lock(cache(arch)):
        tree = unpack_tree(arch)
        for series in names:
            try:
                kernels[series] = fetch_kernel(series, arch)
            except Unavailable as error:
                kernels[series] = error
    return tree, kernels


def selection():
    """The files that tell a guest which tests and checks to run, with one name on each line. Without names
    of tests or checks, all that guests can run."""
    only, without, checks = OPTIONS.test, LEFT_OUT, None if OPTIONS.test else []
    if OPTIONS.subset or OPTIONS.ci:
        only, without, checks = SUBSET_OF_TESTS, NOT_IN_SUBSET, SUBSET_OF_CHECKS
    plan = {"only": only, "without": without} | ({} if checks is None else {"checks": checks})
    return {name: "".join(f"{one}\n" for one in names) for name, names in plan.items()}


def boot_all(guests):
    """Boots these guests of one or two architectures, some at a time, and prints a line for each."""
    first, results = time.monotonic(), {}
    programs = {arch: (Path(test), tarball) for arch, test, tarball in OPTIONS.programs}
    unbuilt = {arch: (state, why) for arch, state, why in OPTIONS.without}
    with contextlib.ExitStack() as locks:
        shared = {}
        for arch in {arch for arch, _ in guests} & programs.keys():
            locks.enter_context(lock(work(arch)))
            try:
                tree, kernels = fetch(arch, [series for other, series in guests if other == arch])
                there = [kernel for kernel in kernels.values() if isinstance(kernel, Kernel)]
                test, tarball = programs[arch]
                files = [test, *OPTIONS.files, *filter(None, [tarball])]
                built = test.parent.parent
                files += [built / name for name in OPTIONS.built if (built / name).exists()]
                make_disk(tree, there, files, test.parent, work(arch) / "disk")
                shared[arch] = (tree, kernels)
            except Unavailable as error:
                unbuilt[arch] = (NOT_RUN, str(error))

        def one(guest):
            (arch, series), start = guest, time.monotonic()
            release, (state, why) = None, unbuilt.get(arch, (None, None))
            if arch in shared:
                tree, kernels = shared[arch]
                kernel = kernels[series]
                state, why = NOT_RUN, str(kernel)
                if isinstance(kernel, Kernel):
                    release = kernel.release
                    limit_s = CI_LIMIT_S - (start - first) if OPTIONS.ci else OPTIONS.limit * 60
                    plan = selection() | {"variables": variables(arch, series, programs)}
                    try:
                        state, why = boot(arch, series, kernel, tree, plan, limit_s)
                    except Unavailable as error:
                        state, why = FAILED, str(error)
            result = Result(arch, series, release, state, why, time.monotonic() - start)
            print(f"== {line(result)}", flush=True)
            return result

        with ThreadPoolExecutor(OPTIONS.jobs or len(guests)) as pool:
            results = list(pool.map(one, guests))
    return results


def variables(arch, series, programs):
    """Variables for the guest's script. A guest has everything at the same paths as this machine, because
    they are compiled into the test binary."""
    test, tarball = programs[arch]
    values = {"test": test, "programs": test.parent.parent, "package": OPTIONS.package, "unpack": OPTIONS.unpack}
    values |= {"tarball": tarball} if tarball else {}
    # With two at a time, 7.3 was seen to skip programs: see
    # docs/decisions/0008-programs-that-are-not-preempted.md.
    values["jobs"] = 1 if series == "newest" else 2
    return "".join(f"{name}='{value}'\n" for name, value in values.items())


def arguments():
    """Reads the command line."""
    parser = argparse.ArgumentParser(prog="cargo xtask vm")
    parser.add_argument("kernels", nargs="*", metavar="KERNEL")
    parser.add_argument("--arch")
    parser.add_argument("--subset", action="store_true")
    parser.add_argument("--ci", action="store_true")
    parser.add_argument("--test", action="append", default=[])
    parser.add_argument("--limit", type=int, default=120)
    parser.add_argument("--jobs", type=int)
    parser.add_argument("--fetch", metavar="ARCH", help="only fetch what the guests of this architecture need")
    parser.add_argument("--target", type=Path, required=True, help="cargo's target directory")
    parser.add_argument("--package", help="the package of the tests")
    parser.add_argument("--files", nargs="*", default=[], help="files that guests need")
    parser.add_argument("--built", nargs="*", default=[], help="programs that guests need")
    parser.add_argument("--unpack", help="what unpacks a tarball of a release")
    parser.add_argument("--programs", nargs=3, action="append", default=[], metavar=("ARCH", "TEST", "TARBALL"))
    parser.add_argument("--without", nargs=3, action="append", default=[], metavar=("ARCH", "STATE", "WHY"))
    parser.add_argument("--summary", type=Path, help="a file for the closing lines")
    return parser.parse_args()


def main():
    arch = OPTIONS.arch or platform.machine()
    guests = [(arch, series) for series in SERIES if not OPTIONS.kernels or series in OPTIONS.kernels]
    if OPTIONS.ci or OPTIONS.subset and not (OPTIONS.kernels or OPTIONS.arch):
        guests = SUBSET
    unknown = [name for name in OPTIONS.kernels if name not in SERIES]
    if unknown:
        sys.exit(f"xtask: there is no kernel {unknown[0]}; there are {', '.join(SERIES)}")
    if OPTIONS.fetch:
        fetch(OPTIONS.fetch, [series for arch, series in guests if arch == OPTIONS.fetch])
        return
    results = boot_all(guests)
    lines = "".join(f"{line(result)}\n" for result in results)
    print(f"\n{lines}", end="")
    if OPTIONS.summary:
        OPTIONS.summary.write_text(lines)
    sys.exit(exit_code({result.state for result in results}))


if __name__ == "__main__":
    OPTIONS = arguments()
    try:
        main()
    except Unavailable as error:
        sys.exit(str(error))
