//! Programs from other projects: each has the right transfers. The expected calls were looked up
//! with `strace`. `cargo xtask setup` installs the programs.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

use rustix::process::Signal;
use zctrace::report::{Api, Certainty, Report, Transfer};

use crate::harness::{
    TestDir, Transfers as _, child_of, program, shell, state_of, wait_until, zctrace,
};

/// Several times the size of any program's buffer, and not a multiple of it.
const BYTES: u64 = 300_001;

/// A directory with a file `in` of [`BYTES`].
fn directory() -> TestDir {
    let directory = TestDir::new();
    let bytes: Vec<u8> = (0..BYTES).map(|index| (index * 7 % 251) as u8).collect();
    directory.write("in", bytes);
    directory
}

/// Makes sure that a file is the same as `in`.
#[track_caller]
fn assert_copied(directory: &TestDir, name: &str) {
    let read = |name: &str| {
        fs::read(directory.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    };
    assert!(read("in") == read(name), "{name} differs from in");
}

#[test]
fn cp_tries_a_reflink_and_uses_copy_file_range() {
    let directory = directory();
    let run = zctrace()
        .dir(directory.path())
        .run(&program("cp").args(&["in", "out"]));
    assert_copied(&directory, "out");
    let transfer = run.report.transfer("in", "out");
    assert_eq!(
        (transfer.api, transfer.bytes),
        (Api::CopyFileRange, Some(BYTES))
    );
    let attempts: Vec<_> = transfer
        .attempts
        .iter()
        .map(|attempt| (attempt.syscall.as_str(), attempt.errno.as_str()))
        .collect();
    assert_eq!(attempts, [("ioctl(FICLONE)", "EOPNOTSUPP")]);
    assert!(
        transfer
            .reason
            .as_ref()
            .is_some_and(|reason| reason.source.contains("coreutils")),
        "{:?}",
        transfer.reason
    );
    assert_eq!(transfer.user_memory_bytes, Some(0));
}

#[test]
fn cp_reflinks_on_btrfs() {
    let directory = directory();
    let script = "truncate -s 256M image && mkfs.btrfs -q image && mkdir mnt && mount -o loop image mnt && cp in mnt/in && cd mnt";
    let run = zctrace()
        .dir(directory.path())
        .with_mounts(script)
        .run(&program("cp").args(&["in", "out"]));
    let transfer = run.report.transfer("in", "out");
    assert_eq!(
        (transfer.api, transfer.from.fs.as_deref()),
        (Api::Reflink, Some("btrfs"))
    );
    assert_eq!(transfer.attempts, []);
}

#[test]
fn cp_without_reflinks_reads_and_writes() {
    let directory = directory();
    let run =
        zctrace()
            .dir(directory.path())
            .run(&program("cp").args(&["--reflink=never", "in", "out"]));
    assert_copied(&directory, "out");
    let transfer = run.report.transfer("in", "out");
    assert_eq!(
        (transfer.api, transfer.bytes),
        (Api::ReadWrite, Some(BYTES))
    );
    assert_eq!(transfer.user_memory_bytes, Some(2 * BYTES));
    assert!(
        transfer
            .verdict
            .contains(": cp reads and writes with --reflink=never, "),
        "{}",
        transfer.verdict
    );
}

#[test]
fn cp_reads_and_writes_a_file_with_holes() {
    let directory = directory();
    let file = fs::File::options().write(true).open(directory.join("in"));
    file.and_then(|file| file.set_len(1 << 20))
        .expect("a file with a hole at its end");
    let run = zctrace()
        .dir(directory.path())
        .run(&program("cp").args(&["in", "out"]));
    assert_copied(&directory, "out");
    let transfer = run.report.transfer("in", "out");
    assert_eq!(transfer.api, Api::ReadWrite, "{}", transfer.verdict);
    assert!(
        transfer
            .verdict
            .contains(": cp reads and writes if the source has holes, or "),
        "{}",
        transfer.verdict
    );
}

#[test]
fn cat_to_a_file_uses_copy_file_range() {
    let directory = directory();
    let run = zctrace()
        .dir(directory.path())
        .run(&shell("exec cat in > out"));
    assert_copied(&directory, "out");
    let transfer = run.report.transfer("in", "out");
    assert_eq!(
        (transfer.api, transfer.bytes),
        (Api::CopyFileRange, Some(BYTES))
    );
}

#[test]
fn a_pipeline_is_one_transfer_across_processes() {
    let directory = directory();
    let run = zctrace()
        .option("--wait-all")
        .dir(directory.path())
        .run(&shell(
            "cat in | dd of=out bs=64k iflag=fullblock status=none",
        ));
    assert_copied(&directory, "out");
    for (from, to) in [("in", "pipe"), ("pipe", "out")] {
        let transfer = run.report.transfer(from, to);
        assert_eq!(
            (transfer.api, transfer.bytes),
            (Api::ReadWrite, Some(BYTES)),
            "{from} -> {to}"
        );
    }
    let crossing = run.report.crossing("in", "out");
    assert_eq!((crossing.bytes, crossing.pids.len()), (Some(BYTES), 2));
}

#[test]
fn dd_reads_and_writes_blocks_and_its_summary_is_not_a_transfer() {
    let directory = directory();
    let run = zctrace()
        .dir(directory.path())
        .run(&program("dd").args(&["if=in", "of=out", "bs=64k"]));
    assert_copied(&directory, "out");
    let transfers = run.root_transfers();
    assert_eq!(transfers.len(), 1, "{transfers:?}");
    let transfer = run.report.transfer("in", "out");
    assert_eq!(
        (transfer.api, transfer.bytes),
        (Api::ReadWrite, Some(BYTES))
    );
    assert_eq!(
        (
            transfer.calls_by_syscall["read"],
            transfer.calls_by_syscall["write"]
        ),
        (6, 5)
    );
}

#[test]
fn tar_archives_all_bytes_of_the_file() {
    let directory = directory();
    let run = zctrace()
        .dir(directory.path())
        .run(&program("tar").args(&["cf", "archive", "in"]));
    let transfer = run.report.transfer("in", "archive");
    assert_eq!(
        (transfer.api, transfer.bytes),
        (Api::ReadWrite, Some(BYTES))
    );
}

#[test]
fn tar_extracts_what_it_reads_except_headers() {
    let directory = directory();
    let script = "tar cf archive in && mkdir x && exec \"$@\"";
    let run = zctrace()
        .dir(directory.path())
        .through(&["sh", "-c", script, "sh"])
        .run(&program("tar").args(&["xf", "archive", "-C", "x"]));
    assert_copied(&directory, "x/in");
    let transfer = run.report.transfer("archive", "in");
    assert_eq!(transfer.api, Api::ReadWrite);
    assert!(
        transfer.bytes <= Some(BYTES) && transfer.bytes > Some(BYTES / 10 * 9),
        "{transfer:?}"
    );
}

#[test]
fn rsync_copies_through_a_socket_and_its_transfers_are_lower_bounds() {
    let directory = directory();
    let run = zctrace()
        .option("--wait-all")
        .dir(directory.path())
        .run(&shell("exec rsync --whole-file in out"));
    assert_copied(&directory, "out");
    // rsync writes a temporary file, and renames it when it is complete.
    let is_temporary = |path: &str| path.starts_with(".out.");
    let of_temporary = |transfer: &&Transfer| transfer.to.path.as_deref().is_some_and(is_temporary);
    let of_in = |transfer: &&Transfer| transfer.from.path.as_deref() == Some("in");
    // rsync sends messages among the bytes, and copies the bytes in its memory. So there is no
    // transfer, or a lower bound.
    let all = || {
        run.report
            .transfers
            .iter()
            .filter(|transfer| !transfer.crosses_processes())
    };
    for stated in all().filter(of_in).chain(all().filter(of_temporary)) {
        assert!(
            stated.bytes <= Some(BYTES) && stated.certainty == Certainty::Inferred,
            "{stated:?}"
        );
    }
    let written = run
        .report
        .processes
        .iter()
        .flat_map(|process| &process.destinations);
    let temporary = written.filter(|to| {
        to.file
            .as_ref()
            .and_then(|file| file.path.as_deref())
            .is_some_and(is_temporary)
    });
    assert_eq!(
        temporary.map(|to| to.written_bytes).collect::<Vec<_>>(),
        [Some(BYTES)]
    );
}

#[test]
fn pythons_shutil_uses_sendfile() {
    let directory = directory();
    let run = zctrace()
        .dir(directory.path())
        .run(&program("python3").args(&["-c", "import shutil; shutil.copyfile('in', 'out')"]));
    assert_copied(&directory, "out");
    let transfer = run.report.transfer("in", "out");
    assert_eq!((transfer.api, transfer.bytes), (Api::Sendfile, Some(BYTES)));
    assert!(
        transfer
            .reason
            .as_ref()
            .is_some_and(|reason| reason.source.contains("shutil")),
        "{:?}",
        transfer.reason
    );
    assert!(
        transfer
            .verdict
            .contains(": if this is shutil.copyfile, it asks sendfile for the whole file"),
        "{}",
        transfer.verdict
    );
}

#[test]
fn node_uses_copy_file_range() {
    let directory = directory();
    let run = zctrace()
        .dir(directory.path())
        .run(&program("node").args(&["-e", "require('fs').copyFileSync('in', 'out')"]));
    assert_copied(&directory, "out");
    let transfer = run.report.transfer("in", "out");
    assert_eq!(
        (transfer.api, transfer.bytes),
        (Api::CopyFileRange, Some(BYTES))
    );
}

#[test]
fn javas_file_channel_uses_sendfile_to_a_socket() {
    let directory = directory();
    directory.write("Send.java", JAVA);
    let run = zctrace()
        .option("--wait-all")
        .dir(directory.path())
        .run(&program("java").args(&["Send.java", "in"]));
    let transfer = run.report.transfer("in", "tcp");
    assert_eq!((transfer.api, transfer.bytes), (Api::Sendfile, Some(BYTES)));
}

#[test]
fn gos_io_copy_uses_sendfile_to_tcp() {
    let directory = directory();
    let run = zctrace()
        .option("--wait-all")
        .dir(directory.path())
        .run(&program(go_program()).arg("in"));
    let transfer = run.report.transfer("in", "tcp");
    assert_eq!((transfer.api, transfer.bytes), (Api::Sendfile, Some(BYTES)));
    assert!(
        transfer
            .reason
            .as_ref()
            .is_some_and(|reason| reason.source.contains("golang")),
        "{:?}",
        transfer.reason
    );
    assert!(
        transfer
            .verdict
            .contains(": if this is io.Copy, it uses sendfile"),
        "{}",
        transfer.verdict
    );
}

/// The Go program, built once. It is in cargo's target directory, because a temporary directory in
/// a static would never be deleted.
fn go_program() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let build = || {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
        fs::write(directory.join("send.go"), GO).expect("room for a file");
        let status = Command::new("go")
            .args(["build", "-o", "go-send", "send.go"])
            .current_dir(directory)
            .env("GOCACHE", directory.join("go-cache"))
            .env("GOFLAGS", "-mod=mod")
            .env("GO111MODULE", "off")
            .status();
        assert!(
            status.expect("set-up installs Go").success(),
            "go builds the program"
        );
        directory.join("go-send")
    };
    BUILT.get_or_init(build).clone()
}

/// Sends a file to a socket of its own.
const JAVA: &str = r#"
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.*;
import java.nio.file.*;

public class Send {
    public static void main(String[] args) throws Exception {
        ServerSocketChannel server = ServerSocketChannel.open().bind(new InetSocketAddress("127.0.0.1", 0));
        Thread drain = new Thread(() -> {
            try (SocketChannel peer = server.accept()) {
                ByteBuffer buffer = ByteBuffer.allocateDirect(65536);
                while (peer.read(buffer) >= 0) buffer.clear();
            } catch (Exception e) { throw new RuntimeException(e); }
        });
        drain.start();
        try (FileChannel file = FileChannel.open(Path.of(args[0])); SocketChannel socket = SocketChannel.open(server.getLocalAddress())) {
            for (long sent = 0; sent < file.size();) sent += file.transferTo(sent, file.size() - sent, socket);
        }
        drain.join();
    }
}
"#;

/// Sends a file to a socket of its own.
const GO: &str = r#"
package main

import (
	"io"
	"log"
	"net"
	"os"
)

func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		peer, err := listener.Accept()
		if err != nil {
			log.Fatal(err)
		}
		io.Copy(io.Discard, peer)
		close(done)
	}()
	socket, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		log.Fatal(err)
	}
	file, err := os.Open(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	if _, err := io.Copy(socket, file); err != nil {
		log.Fatal(err)
	}
	socket.Close()
	<-done
}
"#;

#[test]
fn nginx_sends_a_file_by_sendfile() {
    let report = nginx("sendfile on;");
    let transfer = report.transfer("in", "tcp");
    assert_eq!((transfer.api, transfer.bytes), (Api::Sendfile, Some(BYTES)));
    assert_eq!(
        report.apis_to("tcp"),
        [Api::Sendfile],
        "request and header are not a transfer"
    );
}

#[test]
fn nginx_without_sendfile_reads_and_writes() {
    let report = nginx("sendfile off;");
    let transfer = report.transfer("in", "tcp");
    assert_eq!(transfer.api, Api::ReadWrite);
    assert!(
        (BYTES / 10 * 9..=BYTES).contains(&transfer.bytes.expect("known")),
        "{transfer:?}"
    );
}

#[test]
fn socat_reads_and_writes() {
    let directory = directory();
    let report = zctrace()
        .dir(directory.path())
        .run(&program("socat").args(&["-u", "OPEN:in", "CREATE:out"]))
        .report;
    assert_copied(&directory, "out");
    let transfer = report.transfer("in", "out");
    assert_eq!(
        (transfer.api, transfer.bytes, transfer.mean_bytes),
        (Api::ReadWrite, Some(BYTES), Some(BYTES / 37))
    );
}

#[test]
fn a_download_has_a_step_by_the_server_and_one_by_the_client() {
    let directory = directory();
    let (port, config) = nginx_config(&directory, "sendfile on;");
    // The pause lets nginx go to sleep: see `nginx`.
    let script = "nginx -c \"$0\" & until curl -s -o got \"$1\"; do sleep 0.1; done; sleep 0.2; kill $!; wait $!";
    let url = format!("http://127.0.0.1:{port}/in");
    let report = zctrace()
        .dir(directory.path())
        .run(&program("sh").args(&["-c", script, &config, &url]))
        .report;
    assert_copied(&directory, "got");
    let sent = report.transfer("in", "tcp");
    assert_eq!(
        (sent.api, sent.bytes, sent.certainty),
        (Api::Sendfile, Some(BYTES), Certainty::Observed)
    );
    // The server also sends a header, and the client keeps that. It copies some of the bytes in its
    // memory before it writes them.
    let got = report.transfer("tcp", "got");
    assert!(got.bytes < Some(BYTES), "{got:?}");
    assert!(!report.transfers.iter().any(Transfer::crosses_processes));
}

/// Writes the configuration of an nginx that serves this directory. Returns its port and the path
/// of the configuration.
fn nginx_config(directory: &TestDir, setting: &str) -> (u16, String) {
    let port = TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .expect("a free port")
        .port();
    let root = directory.path().display();
    let config = format!(
        "daemon off; master_process off; user root; pid {root}/pid; error_log stderr; events {{}}\n\
         http {{ access_log off; {setting} server {{ listen 127.0.0.1:{port}; root {root}; }} }}\n"
    );
    directory.write("nginx.conf", config);
    (port, format!("{root}/nginx.conf"))
}

/// Traces an nginx with this setting while it serves `in` once.
fn nginx(setting: &str) -> Report {
    let directory = directory();
    let (port, config) = nginx_config(&directory, setting);
    let (nginx, report) = zctrace()
        .dir(directory.path())
        .start(&program("nginx").args(&["-c", &config]));
    let mut connection = None;
    wait_until("nginx listens", || {
        connection = TcpStream::connect(("127.0.0.1", port)).ok();
        connection.is_some()
    });
    let mut connection = connection.expect("it is there");
    connection
        .write_all(b"GET /in HTTP/1.0\r\n\r\n")
        .expect("nginx reads");
    let mut answer = Vec::new();
    connection.read_to_end(&mut answer).expect("nginx answers");
    let bytes = fs::read(directory.join("in")).expect("it is there");
    assert!(
        answer.ends_with(&bytes),
        "it is not the file: {}",
        String::from_utf8_lossy(&answer[..answer.len().min(300)])
    );
    // Without a master process, nginx would not notice a signal that comes just before it goes to
    // sleep.
    let process = child_of(nginx.pid());
    wait_until("nginx sleeps", || state_of(process) == 'S');
    nginx.signal(Signal::TERM);
    assert_eq!(nginx.wait(), Some(0), "the exit status of nginx");
    report.read(&nginx.into_stderr())
}
