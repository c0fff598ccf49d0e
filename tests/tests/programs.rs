//! Programs from other projects: each has the right transfers. The expected calls were looked up
//! with `strace`. `cargo xtask setup` installs the programs.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    sync::OnceLock,
};

use rustix::process::Signal;
use zctrace::report::{Api, Certainty, End, Report, Transfer};

use crate::{
    files::{BYTES, input},
    harness::{
        Program, Run, TestDir, Transfers as _, child_of, program, shell, state_of, untraced,
        wait_until, words, zctrace,
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
    let why = ": cp reads and writes if the source has holes, or ";
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
fn dd_and_socat_read_and_write_and_the_summary_of_dd_is_not_a_transfer() {
    let run = copied_by(&line("dd if=in of=out bs=64k"));
    assert_eq!(run.root_transfers().len(), 1, "{:?}", run.root_transfers());
    let transfer = assert_moved(&run.report, "in", "out", Api::ReadWrite);
    let calls = &transfer.calls_by_syscall;
    assert_eq!((calls["read"], calls["write"]), (6, 5));

    let report = copied_by(&line("socat -u OPEN:in CREATE:out")).report;
    let transfer = assert_moved(&report, "in", "out", Api::ReadWrite);
    assert_eq!(transfer.mean_bytes, Some(BYTES / 37));
}

/// Makes sure that a read-and-write loop moved at least so many bytes, and at most so many.
#[track_caller]
fn assert_moved_between(report: &Report, from: &str, to: &str, least: u64, most: u64) {
    let transfer = report.transfer(from, to);
    assert_eq!(transfer.api, Api::ReadWrite, "{transfer:?}");
    let bytes = transfer.bytes.expect("known");
    assert!((least..=most).contains(&bytes), "{transfer:?}");
}

#[test]
fn tar_archives_all_bytes_and_extracts_what_it_reads_except_headers() {
    let directory = input();
    let report = traced(&directory, &line("tar cf archive in")).report;
    // The padding of its last record is what it had read there before. It does not zero all of it,
    // and no word was kept where it does.
    let archive = 10_240 * BYTES.div_ceil(10_240);
    assert_moved_between(&report, "in", "archive", BYTES, archive);

    fs::create_dir(directory.join("x")).expect("the directory is ours");
    let report = traced(&directory, &line("tar xf archive -C x")).report;
    assert_copied(&directory, "x/in");
    assert_moved_between(&report, "archive", "in", BYTES / 10 * 9 + 1, BYTES);
}

#[test]
fn rsync_copies_through_a_socket_and_its_transfers_are_lower_bounds() {
    let report = copied_by(&line("rsync --whole-file in out")).report;
    // rsync writes a temporary file, and renames it when it is complete. It sends messages among
    // the bytes, and copies the bytes in its memory. So there is no transfer, or a lower bound.
    let is_temporary = |end: &End| {
        let path = end.path.as_ref();
        path.is_some_and(|path| path.starts_with(".out."))
    };
    let mut stated: Vec<&Transfer> = report.transfers.iter().collect();
    stated.retain(|transfer| !transfer.crosses_processes());
    stated.retain(|one| one.from.path.as_deref() == Some("in") || is_temporary(&one.to));
    for one in stated {
        let is_bound = one.certainty == Certainty::Inferred;
        assert!(one.bytes <= Some(BYTES) && is_bound, "{one:?}");
    }
    let processes = report.processes.iter();
    let written = processes.flat_map(|process| &process.destinations);
    let temporary = written.filter(|to| to.file.as_ref().is_some_and(is_temporary));
    let bytes: Vec<_> = temporary.map(|to| to.written_bytes).collect();
    assert_eq!(bytes, [Some(BYTES)]);
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
    let run = traced(&input(), &program(go_program()).arg("in"));
    let transfer = assert_moved(&run.report, "in", "tcp", Api::Sendfile);
    assert_reason(transfer, "golang", ": if this is io.Copy, it uses sendfile");
}

/// The Go program, built once. It is in cargo's target directory, because a temporary directory in
/// a static would never be deleted.
fn go_program() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let build = || {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
        fs::write(directory.join("send.go"), GO).expect("room for a file");
        let go = untraced(&line("go build -o go-send send.go")).dir(directory);
        let go = go.env("GOCACHE", directory.join("go-cache"));
        let go = go.env("GOFLAGS", "-mod=mod").env("GO111MODULE", "off");
        go.finish().exits(0);
        directory.join("go-send")
    };
    BUILT.get_or_init(build).clone()
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

#[test]
fn nginx_sends_a_file_by_sendfile_or_reads_and_writes() {
    let report = nginx("sendfile on;");
    assert_moved(&report, "in", "tcp", Api::Sendfile);
    // Request and header are not a transfer.
    let mut transfers = report.transfers.iter();
    let is_to_tcp = |one: &&Transfer| one.to.kind.as_deref() == Some("tcp");
    assert!(transfers.all(|one| !is_to_tcp(&one) || one.api == Api::Sendfile));

    let report = nginx("sendfile off;");
    assert_moved_between(&report, "in", "tcp", BYTES / 10 * 9, BYTES);
}

/// Traces an nginx with this setting while it serves `in` once.
fn nginx(setting: &str) -> Report {
    let directory = input();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("it has one").port();
    drop(listener);
    let root = directory.path().display();
    let config = format!(
        "daemon off; master_process off; user root; pid {root}/pid; error_log stderr; events {{}}\n\
         http {{ access_log off; {setting} server {{ listen 127.0.0.1:{port}; root {root}; }} }}\n"
    );
    let config = directory.write("nginx.conf", config);
    let zctrace = zctrace().dir(directory.path());
    let (nginx, report) = zctrace.start(&program("nginx").arg("-c").arg(config));
    let connect = || TcpStream::connect(("127.0.0.1", port));
    wait_until("nginx listens", || connect().is_ok());
    let mut connection = connect().expect("nginx listens");
    let asked = connection.write_all(b"GET /in HTTP/1.0\r\n\r\n");
    asked.expect("nginx reads");
    let mut answer = Vec::new();
    connection.read_to_end(&mut answer).expect("nginx answers");
    let bytes = fs::read(directory.join("in")).expect("it is there");
    assert!(answer.ends_with(&bytes), "{} bytes", answer.len());
    // Without a master process, nginx would not notice a signal that comes just before it goes to
    // sleep.
    let process = child_of(nginx.pid());
    wait_until("nginx sleeps", || state_of(process) == 'S');
    nginx.signal(Signal::TERM);
    assert_eq!(nginx.wait(), Some(0), "the exit status of nginx");
    report.read(&nginx.stderr())
}
