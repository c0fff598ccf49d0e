//! Programs from other projects: each has the right transfers. The expected calls were looked up
//! with `strace`. `cargo xtask setup` installs the programs.

use std::fs;

use zctrace::report::{Api, Certainty, Report, Transfer};

use crate::{
    files::{BYTES, input},
    harness::{
        Program, Run, TestDir, Transfers as _, each_backend, program, python, shell, untraced,
        words, zctrace,
    },
};

/// Makes sure that a file is the same as `in`.
#[track_caller]
fn assert_copied(directory: &TestDir, name: &str) {
    let [copied, found] = ["in", name].map(|name| fs::read(directory.join(name)).expect(name));
    assert!(copied == found, "{name} differs from in");
}

/// The program of this command line.
fn line(line: &str) -> Program {
    let words = words(line);
    program(words[0]).args(&words[1..])
}

/// Traces a program in this directory, to the end of all its processes.
#[track_caller]
fn traced(directory: &TestDir, program: &Program) -> Run {
    let zctrace = zctrace().option("--wait-all").dir(directory.path());
    zctrace.run(program)
}

/// Traces a program that copies `in` to `out`.
#[track_caller]
fn copied_by(program: &Program) -> Run {
    let directory = input();
    let run = traced(&directory, program);
    assert_copied(&directory, "out");
    run
}

/// Makes sure that all of the file went this way, and returns the transfer.
#[track_caller]
fn assert_moved<'a>(report: &'a Report, from: &str, to: &str, api: Api) -> &'a Transfer {
    let transfer = report.transfer(from, to);
    assert_eq!((transfer.api, transfer.bytes), (api, Some(BYTES)));
    transfer
}

#[test]
fn what_a_program_puts_where_it_has_read_is_not_what_it_has_read() {
    // Buffers of stdio lie where others were freed, or are changed in place.
    for script in [
        "md5sum in > out",
        "sha256sum in > out",
        "sort in -o out",
        "tr '\\000-\\177' '\\200-\\377' < in > out",
        "cat in | b2sum > out",
    ] {
        let run = traced(&input(), &shell(script));
        let transfers = run.report.transfers.iter();
        let to_out = transfers.filter(|one| one.to.path.as_deref() == Some("out"));
        let observed: Vec<_> = to_out
            .filter(|one| one.certainty == Certainty::Observed)
            .collect();
        assert!(observed.is_empty(), "{script}: {observed:?}");
    }
}

/// Makes sure that the verdict says why, with a source in this project.
#[track_caller]
fn assert_reason(transfer: &Transfer, project: &str, why: &str) {
    let reason = transfer.reason.as_ref().expect("a reason");
    assert!(reason.source.contains(project), "{reason:?}");
    assert!(transfer.verdict.contains(why), "{}", transfer.verdict);
}

#[test]
fn sizes_are_those_that_calls_had() {
    let program = |sizes: &str| {
        python(&format!(
            "import os\n\
             source = os.open('in', os.O_RDONLY)\n\
             target = os.open('out', os.O_CREAT | os.O_WRONLY)\n\
             for size in {sizes}: os.write(target, os.read(source, size))"
        ))
    };
    for (sizes, said) in [
        ("[1, 1, 1, 100001]", "3 calls of 1 B and 1 of 97.7 KiB"),
        ("[10, 20, 30]", "3 calls of 20 B on average"),
        ("[4096] * 20", "20 calls of 4 KiB"),
        ("[4096] * 19 + [7]", "19 calls of 4 KiB and 1 of 7 B"),
    ] {
        for zctrace in each_backend() {
            let directory = input();
            let run = zctrace.dir(directory.path()).run(&program(sizes));
            let verdict = &run.report.transfer("in", "out").verdict;
            assert_eq!(*verdict, format!("read + write, {said}"));
        }
    }
}

#[test]
fn cp_tries_a_reflink_and_uses_copy_file_range() {
    let run = copied_by(&line("cp in out"));
    let transfer = assert_moved(&run.report, "in", "out", Api::CopyFileRange);
    let attempts = transfer.attempts.iter();
    let attempts: Vec<_> = attempts
        .map(|one| (one.syscall.as_str(), one.errno.as_str()))
        .collect();
    assert_eq!(attempts, [("ioctl(FICLONE)", "EOPNOTSUPP")]);
    assert_reason(transfer, "coreutils", "");
    assert_eq!(transfer.user_memory_bytes, Some(0));
}

#[test]
fn cp_reflinks_on_btrfs() {
    let directory = input();
    let script = "truncate -s 256M image && mkfs.btrfs -q image && mkdir mnt \
                  && mount -o loop image mnt && cp in mnt/in && cd mnt";
    let zctrace = zctrace().dir(directory.path()).with_mounts(script);
    let report = zctrace.run(&line("cp in out")).report;
    let transfer = report.transfer("in", "out");
    let found = (transfer.api, transfer.from.fs.as_deref());
    assert_eq!(found, (Api::Reflink, Some("btrfs")));
    assert_eq!(transfer.attempts, []);
}

#[test]
fn cp_reads_and_writes_without_reflinks_and_a_file_with_holes() {
    let run = copied_by(&line("cp --reflink=never in out"));
    let transfer = assert_moved(&run.report, "in", "out", Api::ReadWrite);
    assert_eq!(transfer.user_memory_bytes, Some(2 * BYTES));
    assert_reason(transfer, "", ": cp reads and writes with --reflink=never, ");

    let directory = input();
    let file = fs::File::options().write(true).open(directory.join("in"));
    let grown = file.and_then(|file| file.set_len(1 << 20));
    grown.expect("a file with a hole at its end");
    let report = traced(&directory, &line("cp in out")).report;
    assert_copied(&directory, "out");
    let transfer = report.transfer("in", "out");
    assert_eq!(transfer.api, Api::ReadWrite, "{}", transfer.verdict);
    let why = ": cp reads and writes if the source has fewer blocks than its size needs, or ";
    assert_reason(transfer, "", why);
}

#[test]
fn cat_to_a_file_uses_copy_file_range() {
    let run = copied_by(&shell("exec cat in > out"));
    assert_moved(&run.report, "in", "out", Api::CopyFileRange);
}

#[test]
fn a_pipeline_is_one_transfer_across_processes() {
    let pipeline = "cat in | dd of=out bs=64k iflag=fullblock status=none";
    let report = copied_by(&shell(pipeline)).report;
    assert_moved(&report, "in", "pipe", Api::ReadWrite);
    assert_moved(&report, "pipe", "out", Api::ReadWrite);
    let crossing = report.crossing("in", "out");
    assert_eq!((crossing.bytes, crossing.pids.len()), (Some(BYTES), 2));
}

#[test]
fn dd_reads_and_writes_and_its_summary_is_not_a_transfer() {
    let run = copied_by(&line("dd if=in of=out bs=64k"));
    assert_eq!(run.report.transfers_of(run.root()).count(), 1);
    let transfer = assert_moved(&run.report, "in", "out", Api::ReadWrite);
    let calls = &transfer.calls_by_syscall;
    assert_eq!((calls["read"], calls["write"]), (6, 5));
}

#[test]
fn pythons_shutil_uses_sendfile() {
    let script = "import shutil; shutil.copyfile('in', 'out')";
    let run = copied_by(&program("python3").args(&["-c", script]));
    let transfer = assert_moved(&run.report, "in", "out", Api::Sendfile);
    let why = ": if this is shutil.copyfile, it asks sendfile for the whole file";
    assert_reason(transfer, "shutil", why);
}

#[test]
fn gos_io_copy_uses_sendfile_to_tcp() {
    let directory = input();
    directory.write("send.go", GO);
    let go = untraced(&line("go build -o go-send send.go")).dir(directory.path());
    // What it has compiled stays there.
    let go = go.env("GOCACHE", concat!(env!("CARGO_TARGET_TMPDIR"), "/go-cache"));
    let go = go.env("GOFLAGS", "-mod=mod").env("GO111MODULE", "off");
    go.finish().exits(0);
    let run = traced(&directory, &program("./go-send").arg("in"));
    let transfer = assert_moved(&run.report, "in", "tcp", Api::Sendfile);
    assert_reason(transfer, "golang", ": if this is io.Copy, it uses sendfile");
}

/// Sends a file to a socket of its own.
const GO: &str = r#"
package main

import (
	"io"
	"net"
	"os"
)

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func main() {
	listener := must(net.Listen("tcp", "127.0.0.1:0"))
	done := make(chan struct{})
	go func() {
		io.Copy(io.Discard, must(listener.Accept()))
		close(done)
	}()
	socket := must(net.Dial("tcp", listener.Addr().String()))
	must(io.Copy(socket, must(os.Open(os.Args[1]))))
	socket.Close()
	<-done
}
"#;
