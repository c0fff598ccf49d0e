//! A program that lives on makes and closes more connections than there is room for: each is counted,
//! and those that are closed are summed.

use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
    thread,
};

use rustix::process::Pid;
use zctrace::report::{Certainty, Report, Transfer, violations};

use super::{AttachedTrace, target, tell};
use crate::harness::{TestDir, state_of, wait_until};

/// Bytes that each connection gets, and that it answers.
const PAGE: usize = 6000;
const ANSWER: usize = 5000;

/// Sends the page to a port the given number of times, over a new connection each time, and logs
/// the answers.
const VISIT: &str = "
import socket
def visit(folder, port, count):
    log = os.open(folder + '/log', os.O_WRONLY | os.O_CREAT)
    for number in range(count):
        connection = socket.create_connection(('127.0.0.1', port))
        page = os.open(folder + '/page', os.O_RDONLY)
        os.write(connection.fileno(), os.read(page, 6000))
        os.close(page)
        os.write(log, connection.recv(5000, socket.MSG_WAITALL))
        connection.close()
    os.close(log)
";

/// Answers this many connections, each with other bytes. Now and then it waits until zctrace sleeps, so
/// that the result does not depend on speed: zctrace is woken when there is little room for files.
fn answer(listener: &TcpListener, count: usize, zctrace: Pid) {
    for number in 0..count {
        if number % 32 == 0 {
            wait_until("zctrace sleeps", || state_of(zctrace) == 'S');
        }
        let (mut connection, _) = listener.accept().expect("a connection");
        let mut page = [0; PAGE];
        connection.read_exact(&mut page).expect("the page");
        let answer: Vec<u8> = (0..=u8::MAX)
            .cycle()
            .skip(number % 256)
            .take(ANSWER)
            .collect();
        connection.write_all(&answer).expect("it waits");
    }
}

fn kind(transfer: &Transfer) -> [Option<&str>; 2] {
    [&transfer.from, &transfer.to].map(|end| end.kind.as_deref())
}

/// The bytes that were observed to go between files of these kinds.
fn observed(report: &Report, kinds: [&str; 2]) -> usize {
    let all = report.transfers.iter();
    let chosen = all.filter(|one| kind(one) == kinds.map(Some));
    let bytes: u64 = chosen
        .inspect(|one| assert_eq!(one.certainty, Certainty::Observed))
        .map(|one| one.bytes.expect("known"))
        .sum();
    usize::try_from(bytes).expect("few")
}

#[test]
fn connections_beyond_the_room_for_files_are_summed_and_none_is_lost() {
    const COUNT: usize = 2000;
    const ROOM: usize = 512;
    let dir = TestDir::new();
    dir.write("page", [b'p'; PAGE]);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port();
    let mut target = target();
    // A function of several lines is defined by one line.
    tell(&mut target, &format!("exec({VISIT:?}, globals())"));
    let pid = target.pid().as_raw_pid().to_string();
    let room = format!("--max-files={ROOM}");
    let trace = AttachedTrace::start(&["--backend=ebpf", "-p", &pid, &room, "--files"]);
    let zctrace = trace.zctrace.pid();
    let visit = format!("visit({:?}, {port}, {COUNT})", dir.path());
    thread::scope(|scope| {
        scope.spawn(|| answer(&listener, COUNT, zctrace));
        tell(&mut target, &visit);
    });
    let report = trace.end();
    assert_eq!(violations(&report), [""; 0], "its sums do not add up");
    assert_eq!(report.calls_without_files, 0);
    assert_eq!(observed(&report, ["regular", "tcp"]), COUNT * PAGE);
    assert_eq!(observed(&report, ["tcp", "regular"]), COUNT * ANSWER);
    assert!(report.files.len() <= ROOM, "{} files", report.files.len());
    let mut notes = report.notes.iter();
    assert!(notes.any(|note| note.contains("are summed by kind")));
}
