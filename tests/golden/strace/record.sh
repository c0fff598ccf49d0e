#!/bin/sh
# Records the logs of this directory again: small programs under the strace of this machine, with each mix of options.
# After that, INSTA_UPDATE=always cargo test -p zctrace-capture --lib updates the snapshots of what is read from them. Review these.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
bin=/tmp/zc-golden
rm -rf "$bin" && mkdir -p "$bin"
rm -rf "$here"/*.log "$here"/*.ff
for program in moves restarts threadexec; do
    gcc -O2 -w -static -pthread -o "$bin/$program" "$here/programs/$program.c"
done
gcc -O2 -w -m32 -static -nostdlib -o "$bin/compat" "$here/programs/compat.c"
cd "$bin"

# record NAME OPTIONS... -- COMMAND...: to NAME.log, through -o.
record() {
    name=$1 && shift
    options=
    while [ "$1" != -- ]; do options="$options $1" && shift; done && shift
    # shellcheck disable=SC2086 # options are words
    env -i PATH=/usr/bin:/bin LC_ALL=C strace $options -o "$here/$name.log" "$@" >/dev/null 2>&1 </dev/null || true
}

# The same through strace's stderr, which also has the output of the program and strace's own messages.
record_stderr() {
    name=$1 && shift
    options=
    while [ "$1" != -- ]; do options="$options $1" && shift; done && shift
    # shellcheck disable=SC2086
    env -i PATH=/usr/bin:/bin LC_ALL=C strace $options "$@" 2>"$here/$name.log" >/dev/null </dev/null || true
}

dd='dd if=/dev/zero of=/dev/null bs=4k count=3'
pipeline='echo hi | cat; exit 4'

record plain -- $dd
record stamps-t -t -- $dd
record stamps-tt-T -tt -T -- $dd
record stamps-ttt -ttt -T -- $dd
record stamps-r -r -- $dd
record stamps-r-t -r -t -T -- $dd
record paths-y -y -T -- cp /etc/hostname /tmp/zc-golden/copy
record paths-yy -yy -T -- ./moves
for options in -y -yy '-yy -xx'; do
    rm -rf "$bin/ends" && mkdir "$bin/ends"
    record "ends$(echo "$options" | tr -d ' ')" -s8 $options -e trace=write,sendto,recvfrom,connect,socket,socketpair,accept4,memfd_create -- \
        python3 -S "$here/programs/ends.py" ./ends
done
record summary-C -C -- $dd
record summary-C-f -f -C -T -- ./moves
record raw-X -f -X raw -- ./moves
record verbose-X -f -X verbose -T -- ./moves
record raw-calls -f -e raw=all -- ./moves
record positions -f -i -n -ttt -- ./moves
record names-Y -f -Y -T -- sh -c "$pipeline"
record pipeline-f -f -ttt -T -- sh -c "$pipeline"
record not-followed -T -- sh -c "$pipeline"
record python -f -T -e trace=%process,read,write,pread64 -- python3 -S -c 'import _thread, os, time
for _ in range(2): _thread.start_new_thread(os.write, (1, b"x"))
time.sleep(0.05)'
record seccomp -f --seccomp-bpf -T -yy -e trace=%process,%network,read,write,splice,sendfile -e quiet=none -- ./moves
record restarts -f -T -ttt -- ./restarts
record timeout -f -T -tt -e trace=%process,%signal,read,write -- sh -c 'sleep 0.5 | timeout 0.2 cat'
record killed -f -T -- sh -c 'kill -9 $$'
record failed-exec -f -T -- env nowhere
record threadexec -f -T -e quiet=none -- ./threadexec
record compat-unmarked -f -T -- sh -c './compat; true'
record compat-marked -f -T -e quiet=none -- sh -c './compat; true'
record pid-namespace -f --decode-pids=pidns -- unshare -fp sh -c 'true & wait'
record summary-C-pipeline -f -C -- sh -c "$pipeline"
record_stderr stderr-plain -- $dd
record_stderr stderr-f -f -T -- sh -c "$pipeline"
record_stderr stderr-moves -f -T -tt -- ./moves
record_stderr stderr-threadexec -f -- ./threadexec
record_stderr stderr-noise -f -- sh -c 'cat /nowhere; printf "1\n2\n" >&2; printf "5" >&2; cat <&9'

# Attached to a program that runs already: the entry of the first call is missing, and so is the command.
env -i PATH=/usr/bin:/bin sh -c 'sleep 0.3; cat </dev/null; exit 6' &
strace -f -T -o "$here/attached.log" -p $! 2>/dev/null || true
env -i PATH=/usr/bin:/bin sleep 0.3 &
strace -T -p $! 2>"$here/attached-stderr.log" || true

for options in '-ff -ttt -T' '-ff -r'; do
    name=ff$(echo "$options" | tr -d ' ' | sed 's/^-ff//')
    mkdir "$here/$name.ff"
    # shellcheck disable=SC2086
    env -i PATH=/usr/bin:/bin LC_ALL=C strace $options -o "$here/$name.ff/log" sh -c "$pipeline" >/dev/null 2>&1 </dev/null || true
done
mkdir "$here/ff-threadexec.ff"
env -i PATH=/usr/bin:/bin LC_ALL=C strace -ff -T -e quiet=none -o "$here/ff-threadexec.ff/log" ./threadexec >/dev/null 2>&1 || true

# Logs that are cut off: inside a string, inside a duration, before a line break, between the two halves of a call.
cut_log() { head -c "$3" "$here/$1.log" >"$here/$2.log"; }
cut_log plain cut-in-string $(($(grep -b -m1 ELF "$here/plain.log" | cut -d: -f1) + 20))
size=$(wc -c <"$here/stamps-tt-T.log")
cut_log stamps-tt-T cut-in-duration $((size - 120))
cut_log plain cut-before-line-break $(($(wc -c <"$here/plain.log") - 1))
cut_log pipeline-f cut-in-pipeline $(($(grep -b -m1 'wait4.*unfinished' "$here/pipeline-f.log" | cut -d: -f1) + 60))
rm -rf "$bin"
