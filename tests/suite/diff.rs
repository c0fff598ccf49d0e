//! `zctrace diff`: two saved reports, or a saved one and a command.

use serde_json::Value;

use crate::harness::{Finished, Program, TestDir, program, python, workload, zctrace};

/// Saves a report of this program in the folder.
fn save(dir: &TestDir, name: &str, program: &Program) {
    let saving = zctrace().dir(dir.path()).json_to(name);
    saving.show(program).exits(0);
}

fn copy(option: &str) -> Program {
    program("cp").args(&[option, "in", "out"])
}

/// A folder with a file to copy, and one to replace, so that every copy finds the same.
fn two_files() -> TestDir {
    let dir = TestDir::with("in", vec![b'x'; 1 << 20]);
    dir.write("out", "");
    dir
}

fn diff(dir: &TestDir, words: &[&str]) -> Finished {
    zctrace().dir(dir.path()).option("diff").finish_with(words)
}

#[test]
fn equal_runs_have_no_difference_and_another_interface_is_one() {
    let dir = two_files();
    save(&dir, "a.json", &copy("--reflink=never"));
    save(&dir, "b.json", &copy("--reflink=auto"));
    let same = diff(&dir, &["a.json", "a.json"]);
    same.exits(0).prints("\nnothing changed: ");
    let changed = diff(&dir, &["a.json", "b.json"]);
    let interface = "\n  - read + write, regular -> regular: ";
    changed.exits(1).prints_all(&["  write.calls ", interface]);
    let json = diff(&dir, &["--format=json", "a.json", "b.json"]).json();
    assert_eq!(json["outcome"], "changed");
    assert_eq!(json["schema"], 1);
    let comment = diff(&dir, &["--format=markdown", "a.json", "b.json"]);
    let row = "| write | 8 → 0 (-8) | 1.0 MiB → 0 B (-1.0 MiB) |  |";
    let interface = "**gone** read + write, regular -\\> regular: 1 transfer, 1.0 MiB";
    comment.exits(1).prints_all(&[row, interface]);
    let nothing = diff(&dir, &["--format=markdown", "a.json", "a.json"]);
    nothing.exits(0).prints_only("unchanged\n");
}

/// Serves the file `in` of its directory to one client after the other, in pieces, and prints its
/// port first.
const SERVER: &str = "
import random, socket, time
content = open('in', 'rb').read()
server = socket.create_server(('127.0.0.1', 0))
print(server.getsockname()[1], flush=True)
while True:
    client, _ = server.accept()
    sent = 0
    while sent < len(content):
        sent += client.send(content[sent:sent + random.randrange(1, 60000)])
        time.sleep(random.random() / 2000)
    client.close()
";

/// Receives from this port until the end, and writes what comes.
const CLIENT: &str = "
import select, socket, sys
server = socket.create_connection(('127.0.0.1', int(sys.argv[1])))
server.setblocking(False)
with open('out', 'wb', buffering=0) as out:
    while True:
        select.select([server], [], [], 5)
        piece = server.recv(100000)
        if not piece: break
        out.write(piece)
";

#[test]
fn downloads_differ_in_nothing_but_what_depends_on_when_bytes_arrive() {
    let dir = TestDir::with("in", vec![b'x'; 1 << 20]);
    let mut server = python(SERVER).dir(dir.path()).start();
    let port = server.hear();
    let client = python(CLIENT).arg(port);
    save(&dir, "a.json", &client);
    for _ in 0..5 {
        save(&dir, "b.json", &client);
        let same = diff(&dir, &["a.json", "b.json"]);
        same.exits(0)
            .prints_all(&["depends on when bytes arrive: ", "\nnothing changed: "]);
    }
    dir.write("in", vec![b'x'; 1 << 19]);
    drop(server);
    let mut server = python(SERVER).dir(dir.path()).start();
    save(&dir, "b.json", &python(CLIENT).arg(server.hear()));
    let changed = diff(&dir, &["a.json", "b.json"]);
    changed.exits(1).prints("recvfrom.bytes");
}

#[test]
fn a_command_is_run_and_compared_with_a_saved_report() {
    let dir = two_files();
    save(&dir, "a.json", &copy("--reflink=never"));
    let command = ["a.json", "--", "cp", "--reflink=never", "in", "out"];
    let same = diff(&dir, &command);
    same.exits(0).prints_only("").says("nothing changed: ");
    let changed = diff(&dir, &["a.json", "--", "sh", "-c", "echo hello; exit 3"]);
    changed.exits(1).prints_only("hello\n").says("  exit.code ");
}

#[test]
fn what_is_no_report_is_refused() {
    let dir = TestDir::with("log", "nothing");
    let no_report = "cannot read 'log': it is not a report of zctrace";
    for (words, said) in [
        (&["none.json", "log"][..], "cannot open 'none.json'"),
        (&["log", "log"], no_report),
        (&["-", "-"], "stdin can be read only once"),
        (&["log"], "nothing to compare with"),
    ] {
        diff(&dir, words).exits(125).says(said);
    }
}

/// Makes sure that each call that `workload sync` makes in each round has 4,999 calls more, among
/// these differences.
#[track_caller]
fn assert_4999_more(figures: &Value) {
    for call in ["openat", "newfstatat", "fsync", "close"] {
        let mut figures = figures.as_array().expect("a list").iter();
        let found = figures.find(|figure| figure["metric"] == format!("{call}.calls"));
        let found = found.unwrap_or_else(|| panic!("no {call} in {figures:?}"));
        let [before, now] = ["baseline", "now"].map(|side| found[side].as_u64().expect("is known"));
        assert_eq!(now - before, 4999, "{found}");
        assert_eq!(found["state"], "beyond", "{found}");
    }
}

/// Calls that move no data have no rows, but they are compared as well.
#[test]
fn calls_without_rows_are_compared() {
    let dir = TestDir::new();
    let [once, often] = ["1", "5000"].map(|rounds| workload("sync").arg(rounds));
    save(&dir, "once.json", &once);
    save(&dir, "often.json", &often);
    diff(&dir, &["often.json", "often.json"]).exits(0);
    let changed = diff(&dir, &["--format=json", "once.json", "often.json"]);
    assert_4999_more(&changed.exits(1).json()["figures"]);
    let table = diff(&dir, &["once.json", "often.json"]);
    let mut lines = table.text().lines();
    let line = lines.find(|line| line.trim().starts_with("fsync.calls "));
    assert!(
        line.is_some_and(|line| line.trim_end().ends_with("+4999")),
        "{table}"
    );
}
