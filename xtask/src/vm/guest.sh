#!/bin/sh
# What a guest does after its start, as process 1: runs the tests that /run/plan names, and says how they ended. Lines that begin with
# "zctrace-vm:" are for `cargo xtask vm`, which believes nothing that is not said.

say() { printf '\nzctrace-vm: %s\n' "$*"; }

# Tries the tarball, if there is one.
try_tarball() {
    [ -z "$tarball" ] || unshare --mount in-an-empty-root "$tarball" /tmp/alone "$unpack" same same
}

mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/pts /dev/shm
mount -t devpts -o ptmxmode=666 devpts /dev/pts
mount -t tmpfs shm /dev/shm
ln -sf /proc/self/fd /dev/fd
ln -sf /dev/fd/0 /dev/stdin
ln -sf /dev/fd/1 /dev/stdout
ln -sf /dev/fd/2 /dev/stderr
mount -t tracefs tracefs /sys/kernel/tracing
mount -t cgroup2 cgroup2 /sys/fs/cgroup
busybox ifconfig lo 127.0.0.1 up
# Tests use loop devices, and there is no udev to load the module.
busybox modprobe loop 2>/dev/null
# Waiting takes ten times longer here, and random programs take a second each.
export HOME=/root LC_ALL=C.UTF-8 ZC_TEST_PATIENCE=10 ZC_RANDOM_PROGRAMS=90
say "release $(uname -r)"

# Sets test, programs, package, jobs, unpack and, if there is one, tarball.
. /run/plan/variables
export PATH="$programs:/usr/local/bin:/usr/bin:/usr/sbin:/bin:/sbin"
# As cargo starts a test.
cd "$package" || exit

# A name that fits no test would test nothing without a word.
"$test" --list --format terse >/tmp/list
set -- --test-threads="$jobs"
while read -r name; do
    grep -qF "$name" /tmp/list || say "no test $name"
    set -- "$@" "$name"
done </run/plan/only
while read -r name; do
    grep -qF "$name" /tmp/list || say "no test $name"
    set -- "$@" --skip "$name"
done </run/plan/without

# Through pipes: nothing here is a terminal to draw on.
zctrace doctor 2>&1 | cat
"$test" "$@"
say "tests ended with $?"
if [ -e /run/plan/checks ]; then
    set -- --jobs "$jobs" --timeout 10min zctrace.toml
    while read -r name; do
        set -- "$@" "$name"
    done </run/plan/checks
    { zctrace check "$@" 2>&1 && try_tarball; echo $? >/tmp/checked; } | cat
    say "checks ended with $(cat /tmp/checked)"
fi
say end
busybox poweroff -f
