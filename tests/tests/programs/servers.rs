//! nginx and `socat`.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
};

use rustix::process::Signal;
use tempfile::TempDir;
use zctrace::report::{Api, Certainty, Report};

use super::{BYTES, assert_copied, directory};
use crate::harness::{Transfers as _, program, wait_until, zctrace};

#[test]
fn nginx_with_sendfile() {
    let report = nginx("sendfile on;");
    let transfer = report.transfer("in", "tcp");
    assert_eq!((transfer.api, transfer.bytes), (Api::Sendfile, Some(BYTES)));
    assert_eq!(report.apis_to("tcp"), [Api::Sendfile], "request and header are no transfer");
}

#[test]
fn nginx_without_sendfile() {
    let report = nginx("sendfile off;");
    let transfer = report.transfer("in", "tcp");
    assert_eq!(transfer.api, Api::ReadWrite);
    assert!((BYTES / 10 * 9..=BYTES).contains(&transfer.bytes.expect("known")), "{transfer:?}");
}

#[test]
fn socat_reads_and_writes() {
    let directory = directory();
    let report = zctrace().dir(directory.path()).run(&program("socat").args(&["-u", "OPEN:in", "CREATE:out"])).report;
    assert_copied(&directory, "out");
    let transfer = report.transfer("in", "out");
    assert_eq!((transfer.api, transfer.bytes, transfer.mean_bytes), (Api::ReadWrite, Some(BYTES), Some(BYTES / 37)));
}

#[test]
fn a_download_goes_from_the_servers_file_to_the_clients() {
    let directory = directory();
    let (port, config) = nginx_config(&directory, "sendfile on;");
    let script = "nginx -c \"$0\" & until curl -s -o got \"$1\"; do sleep 0.1; done; kill $!; wait $!";
    let url = format!("http://127.0.0.1:{port}/in");
    let report = zctrace().dir(directory.path()).run(&program("sh").args(&["-c", script, &config, &url])).report;
    assert_copied(&directory, "got");
    let way = report.crossing("in", "got");
    // The client gets a header, too, and copies some of the bytes in its memory before it writes them.
    let bytes = way.bytes.expect("known");
    assert!((BYTES / 2..BYTES).contains(&bytes) && way.certainty == Certainty::Inferred, "{way:?}");
    assert_eq!(way.hops.iter().map(|hop| hop.api).collect::<Vec<_>>(), [Api::Sendfile, Api::ReadWrite]);
}

/// Writes the settings of a server of this directory, and gives its port and where they are.
fn nginx_config(directory: &TempDir, setting: &str) -> (u16, String) {
    let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port").port();
    let root = directory.path().display();
    let config = format!(
        "daemon off; master_process off; user root; pid {root}/pid; error_log stderr; events {{}}\n\
         http {{ access_log off; {setting} server {{ listen 127.0.0.1:{port}; root {root}; }} }}\n"
    );
    fs::write(directory.path().join("nginx.conf"), config).expect("room for a file");
    (port, format!("{root}/nginx.conf"))
}

/// Serves `in` once with this setting, traced.
fn nginx(setting: &str) -> Report {
    let directory = directory();
    let (port, config) = nginx_config(&directory, setting);
    let (nginx, report) = zctrace().dir(directory.path()).start(&program("nginx").args(&["-c", &config]));
    let mut connection = None;
    wait_until("nginx listens", || {
        connection = TcpStream::connect(("127.0.0.1", port)).ok();
        connection.is_some()
    });
    let mut connection = connection.expect("it is there");
    connection.write_all(b"GET /in HTTP/1.0\r\n\r\n").expect("nginx reads");
    let mut answer = Vec::new();
    connection.read_to_end(&mut answer).expect("nginx answers");
    let bytes = fs::read(directory.path().join("in")).expect("it is there");
    assert!(answer.ends_with(&bytes), "it is the file that comes: {}", String::from_utf8_lossy(&answer[..answer.len().min(300)]));
    nginx.signal(Signal::TERM);
    assert_eq!(nginx.wait(), Some(0), "nginx ends when it is told to");
    report.read(&nginx.into_stderr())
}
