#!/bin/sh
# Unpacks the package $1 below the directory $2 with the command $3, makes a root with its program, /proc
# and /sys alone, and has the program trace itself there under eBPF: the report must be exact. Where
# the package is for another architecture, $4, than the machine's, $5, it is only unpacked. The
# mounts stay until their namespace ends.
set -e
name=${1##*/}
mkdir -p "$2/files" "$2/root/proc" "$2/root/sys"
cd "$2/files"
# shellcheck disable=SC2086 # $3 is a program with its arguments.
case $3 in
    tar*) $3 "$1" ;;
    dpkg-deb*) $3 "$1" | tar --extract ;;
    rpm2cpio*) $3 "$1" | cpio --quiet --extract --make-directories ;;
esac
cp "$(find . -type f -name zctrace -perm -755)" "$2/root/zctrace"
if [ "$4" != "$5" ]; then
    echo "dist: $name has the program; it was not run, for want of such a machine"
    exit
fi
mount -t proc proc "$2/root/proc"
mount --rbind /sys "$2/root/sys"
report=$(env -i "$(command -v chroot)" "$2/root" \
    /zctrace --backend ebpf --syscalls all --format json -o - -- /zctrace -V)
for fact in '"backend": "ebpf"' '"exact": true'; do
    case $report in
        *"$fact"*) ;;
        *) echo "$report"; echo "dist: in an empty root, the report of $name lacks $fact"; exit 1 ;;
    esac
done
echo "dist: $name: alone in an empty root, the program traced itself: exact"
