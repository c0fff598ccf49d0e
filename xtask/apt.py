"""Debian packages of other suites and architectures, fetched with an apt configuration of our own.

The system's sources, lists and packages stay as they are.
"""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

# The architectures as Debian calls them.
DEBIAN = {"x86_64": "amd64", "aarch64": "arm64"}

# Names a mirror of Debian's main archive, to be used instead of it.
MIRROR_VARIABLE = "ZCTRACE_DEBIAN_MIRROR"
# Debian's keys, where Debian's packages put them.
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
# Package lists are fetched again after this time.
LISTS_ARE_FRESH_S = 24 * 3600

# Keeps apt away from the system's state. Settings such as proxies still come from the system's
# configuration. By default an update succeeds if a mirror does not answer.
CONFIGURATION = """Dir::Etc::sourcelist "{directory}/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
Dir::State "{directory}/state";
Dir::State::status "{directory}/status";
Dir::Cache "{directory}/cache";
APT::Architecture "{arch}";
#clear APT::Architectures;
APT::Architectures {{ "{arch}"; }};
APT::Sandbox::User "root";
APT::Get::List-Cleanup "false";
APT::Update::Error-Mode "any";
APT::Install-Recommends "false";
Acquire::Languages "none";
Acquire::Retries "2";
Acquire::http::Timeout "30";
Debug::NoLocking "true";
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
"""


class Unavailable(Exception):
    """Something cannot be fetched or installed."""


def run(command, what, **options):
    """Runs a command, and returns its stdout. If it fails, `what` is unavailable."""
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, **options)
    if done.returncode:
        raise Unavailable(f"{what}: `{' '.join(map(str, command[:6]))} ...` ended with {done.returncode}")
    return done.stdout


def own_suites():
    """This machine's release of Debian. Programs that are built here run with that release's libraries."""
    about = Path("/etc/os-release").read_text(encoding="utf-8").splitlines()
    names = [line.partition("=")[2].strip('"') for line in about if line.startswith("VERSION_CODENAME=")]
    if not names:
        raise Unavailable("/etc/os-release has no VERSION_CODENAME")
    return [names[0], f"{names[0]}-security"]


def sources(mirror, suites, kind):
    """The sources.list for these suites. A mirror need not have the security updates.

    >>> print(sources(None, ["a", "a-security"], "deb [o]"), end="")
    deb [o] http://deb.debian.org/debian a main
    deb [o] http://deb.debian.org/debian-security a-security main
    >>> print(sources("http://mirror.example/debian", ["a", "a-security"], "deb [o]"), end="")
    deb [o] http://mirror.example/debian a main
    """
    lines = ""
    for suite in suites:
        is_security = suite.endswith("-security")
        if not (mirror and is_security):
            archive = mirror or "http://deb.debian.org/debian" + "-security" * is_security
            lines += f"{kind} {archive} {suite} main\n"
    return lines


def installed(simulation):
    """The packages that apt would install, from what `apt-get -s install` prints.

    >>> installed("Reading package lists...\\nInst libc6 (2.36-9 Debian:12 [arm64]) []\\n"
    ...           "Inst dash (0.5.12-2 Debian:12 [arm64])\\nConf libc6 (2.36-9 Debian:12 [arm64])\\n")
    ['libc6=2.36-9', 'dash=0.5.12-2']
    """
    lines = [line.split() for line in simulation.splitlines() if line.startswith("Inst ")]
    return [f"{name}={version.lstrip('(')}" for _, name, version, *_ in lines]


class Apt:
    """An apt with its own sources, for one architecture."""

    def __init__(self, directory, arch, suites, kind="deb", target="Packages"):
        """Fetches the package lists if they are old. If that fails, the old lists are used."""
        self.directory = Path(directory).absolute()
        for part in ["state/lists/partial", "cache/archives/partial"]:
            (self.directory / part).mkdir(parents=True, exist_ok=True)
        (self.directory / "status").touch()
        configuration = CONFIGURATION.format(directory=self.directory, arch=DEBIAN[arch])
        (self.directory / "apt.conf").write_text(configuration)
        signed = f" signed-by={KEYRING}" if os.path.exists(KEYRING) else ""
        kind = f"{kind} [target={target} arch={DEBIAN[arch]}{signed}]"
        self.refresh(sources(os.environ.get(MIRROR_VARIABLE), suites, kind))

    def refresh(self, text):
        """Fetches the lists of packages, unless they are fresh.

        >>> import tempfile
        >>> apt = Apt.__new__(Apt)
        >>> apt.directory = Path(tempfile.mkdtemp())
        >>> (apt.directory / "apt.conf").write_text(CONFIGURATION.format(directory=apt.directory, arch="amd64")) > 0
        True
        >>> try: apt.refresh("deb http://127.0.0.1:1/debian bookworm main\\n")  # Nobody listens there.
        ... except Unavailable: (apt.directory / "fetched").exists()
        False
        >>> shutil.rmtree(apt.directory)
        """
        stamp = self.directory / "fetched"
        was_fetched = stamp.exists() and stamp.read_text() == text
        (self.directory / "sources.list").write_text(text)
        if was_fetched and time.time() - stamp.stat().st_mtime < LISTS_ARE_FRESH_S:
            return
        try:
            self.get(180, "-q", "update", what="cannot fetch the lists of packages")
            stamp.write_text(text)
        except Unavailable as error:
            if not was_fetched:
                raise
            print(f"apt: {error}; the lists that were fetched before are used", file=sys.stderr)

    def get(self, limit_s, *words, what, **options):
        """`apt-get` with a time limit: behind some proxies a download hangs for ever."""
        configuration = self.directory / "apt.conf"
        return run(["timeout", "-k", "5", str(limit_s), "apt-get", "-c", configuration, *words], what, **options)

    def names(self, prefix):
        """Names of the packages with this prefix."""
        configuration = self.directory / "apt.conf"
        return run(["apt-cache", "-c", configuration, "pkgnames", prefix], "no list of packages").split()

    def closure(self, packages):
        """These packages and all that they depend on, each as `NAME=VERSION`."""
        what = f"apt finds no way to install all of {' '.join(packages)}"
        return installed(self.get(120, "-s", "-q", "install", *packages, what=what))

    def download(self, packages, into):
        """Downloads packages into a directory, which then has these and no others."""
        stamp = into / "packages"
        if not (stamp.exists() and stamp.read_text() == "\n".join(packages)):
            shutil.rmtree(into, ignore_errors=True)
            into.mkdir(parents=True)
            self.get(300, "-q", "download", *packages, what="cannot fetch packages", cwd=into)
            stamp.write_text("\n".join(packages))
        return sorted(into.glob("*.deb"))

    def source(self, package, into):
        """Downloads what the authors of a package released, without Debian's changes."""
        words = ["-qq", "source", "--download-only", "--tar-only", package]
        self.get(300, *words, what="cannot fetch the source", cwd=into)
        return sorted(into.glob("*.orig.tar.gz"))[-1]
