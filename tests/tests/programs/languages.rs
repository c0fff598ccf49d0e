//! What the standard libraries of Python, Go, Node and Java choose.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

use zctrace::report::Api;

use super::{BYTES, assert_copied, directory};
use crate::harness::{Transfers as _, program, zctrace};

#[test]
fn pythons_shutil_takes_sendfile() {
    let directory = directory();
    let run =
        zctrace().dir(directory.path()).run(&program("python3").args(&["-c", "import shutil; shutil.copyfile('in', 'out')"]));
    assert_copied(&directory, "out");
    let transfer = run.report.transfer("in", "out");
    assert_eq!((transfer.api, transfer.bytes), (Api::Sendfile, Some(BYTES)));
    assert!(transfer.reason.as_ref().is_some_and(|reason| reason.source.contains("shutil")), "{:?}", transfer.reason);
    assert!(
        transfer.verdict.contains(": if this is shutil.copyfile, it asks sendfile for the whole file"),
        "{}",
        transfer.verdict
    );
}

#[test]
fn node_takes_copy_file_range() {
    let directory = directory();
    let run = zctrace().dir(directory.path()).run(&program("node").args(&["-e", "require('fs').copyFileSync('in', 'out')"]));
    assert_copied(&directory, "out");
    let transfer = run.report.transfer("in", "out");
    assert_eq!((transfer.api, transfer.bytes), (Api::CopyFileRange, Some(BYTES)));
}

#[test]
fn javas_file_channel_takes_sendfile_to_a_socket() {
    let directory = directory();
    fs::write(directory.path().join("Send.java"), JAVA).expect("room for a file");
    let run = zctrace().option("--wait-all").dir(directory.path()).run(&program("java").args(&["Send.java", "in"]));
    let transfer = run.report.transfer("in", "tcp");
    assert_eq!((transfer.api, transfer.bytes), (Api::Sendfile, Some(BYTES)));
}

#[test]
fn gos_io_copy_takes_sendfile_to_tcp() {
    let directory = directory();
    let run = zctrace().option("--wait-all").dir(directory.path()).run(&program(go_program()).arg("in"));
    let transfer = run.report.transfer("in", "tcp");
    assert_eq!((transfer.api, transfer.bytes), (Api::Sendfile, Some(BYTES)));
    assert!(transfer.reason.as_ref().is_some_and(|reason| reason.source.contains("golang")), "{:?}", transfer.reason);
    assert!(transfer.verdict.contains(": if this is io.Copy, it uses sendfile"), "{}", transfer.verdict);
}

/// The Go program, built once, among what cargo builds: what a static holds is never dropped, nor would a temporary folder be.
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
        assert!(status.expect("set-up installs Go").success(), "go builds the program");
        directory.join("go-send")
    };
    BUILT.get_or_init(build).clone()
}

/// Sends the file that is named to a socket of its own.
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

/// Likewise.
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
