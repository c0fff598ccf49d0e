#!/bin/sh
# What a guest does after its start, as process 1: runs the tests that /run/plan names, and says whether they passed. Lines that begin
# with "zctrace-vm:" are for `cargo xtask vm`, to which a guest that says no verdict has died.

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
unknown=
"$test" --list --format terse >/tmp/list
set -- --test-threads="$jobs"
while read -r name; do
    grep -qF "$name" /tmp/list || unknown="$unknown $name"
    set -- "$@" "$name"
done </run/plan/only
while read -r name; do
    grep -qF "$name" /tmp/list || unknown="$unknown $name"
    set -- "$@" --skip "$name"
done </run/plan/without

# Through pipes: nothing here is a terminal to draw on.
zctrace doctor 2>&1 | cat
{ "$test" "$@" 2>&1; echo $? >/tmp/tested; } | tee /tmp/tests
sums=$(sed -n 's/^test result: [A-Za-z]*\. \(.*\); finished.*/\1/p' /tmp/tests)
failing=$(sed -n 's/^test \(.*\) \.\.\. FAILED$/\1/p' /tmp/tests | head -n 5 | tr '\n' ' ')
case "$(cat /tmp/tested) $sums" in
    "0 0 passed"*) verdict=failed ;;
    "0 "*" passed; 0 failed; 0 ignored; "*) verdict=passed ;;
    *) verdict=failed ;;
esac
if [ -e /run/plan/checks ]; then
    set -- --jobs "$jobs" --timeout 10min zctrace.toml
    while read -r name; do
        set -- "$@" "$name"
    done </run/plan/checks
    { zctrace check "$@" 2>&1 && try_tarball; echo $? >/tmp/checked; } | cat
    checked=$(cat /tmp/checked)
    [ "$checked" = 0 ] || verdict=failed
    sums="$sums, the checks ended with $checked"
fi
[ -z "$unknown" ] || verdict="failed no test is called$unknown:"
say "$verdict $sums $failing"
busybox poweroff -f
