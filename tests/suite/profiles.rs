//! Profiles: what `--format seccomp` and `--format systemd` write allows its run under the kernel's own
//! filter, and `check --profile` agrees with the kernel about what is denied.

use serde_json::Value;
use zctrace::Sysno;

use crate::harness::{BACKENDS, Finished, Program, TestDir, c, program, python, shell, zctrace};

/// Programs that make the same calls in each run.
fn ten_programs() -> [Program; 10] {
    let line = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        program(words[0]).args(&words[1..])
    };
    [
        line("/usr/bin/ls -l /etc/apt"),
        line("/usr/bin/cat /etc/passwd"),
        line("/usr/bin/find /etc/apt -name sources.list"),
        line("/usr/bin/grep root /etc/passwd"),
        line("/usr/bin/wc -c /etc/passwd"),
        line("/usr/bin/sed -n 1p /etc/passwd"),
        line("/usr/bin/tar -c -f - -C /etc passwd"),
        line("/usr/bin/perl -e print(1+1)"),
        python("print(sum(range(9)))"),
        program("/usr/bin/dash").args(&["-c", "echo a b | wc -w; kill -0 $$"]),
    ]
}

/// The profile of a run, as `--format seccomp` writes it.
fn profile_of(dir: &TestDir, program: &Program) -> Value {
    let writing = zctrace().options(&["--format=seccomp", "-o", &dir.word("profile.json")]);
    writing.show(program).exits(0).never_says("may deny");
    serde_json::from_str(&dir.read("profile.json")).expect("a profile")
}

fn names(profile: &Value) -> Vec<&str> {
    let names = profile["syscalls"][0]["names"].as_array().expect("names");
    names
        .iter()
        .map(|name| name.as_str().expect("a name"))
        .collect()
}

/// The same profile without this call.
fn without(profile: &Value, call: &str) -> Value {
    let mut other = profile.clone();
    let names = other["syscalls"][0]["names"].as_array_mut();
    names.expect("names").retain(|name| name != call);
    other
}

/// Runs the program under a filter of the kernel that allows these calls.
fn under(profile: &Value, program: &Program) -> Finished {
    let number = |name: &&str| Some(name.parse::<Sysno>().ok()?.id().to_string());
    let numbers: Vec<String> = names(profile).iter().filter_map(number).collect();
    let launcher = c("allow-calls").args(&numbers).arg("--");
    launcher.args(program.words()).finish()
}

/// Holds the program against this profile. Its stdout is a pipe, as in the other runs: `cat` makes
/// other calls if it is `/dev/null`.
fn check(dir: &TestDir, profile: &Value, program: &Program) -> Finished {
    dir.write("profile.json", profile.to_string());
    let checking = zctrace().options(&[
        "check",
        "--show-output",
        "--profile",
        &dir.word("profile.json"),
    ]);
    checking.show(program)
}

#[test]
fn a_written_profile_allows_its_run_and_denies_what_the_kernel_denies() {
    let dir = TestDir::new();
    for (at, program) in ten_programs().iter().enumerate() {
        let free = program.finish();
        let profile = profile_of(&dir, program);
        let filtered = under(&profile, program);
        assert_eq!(filtered.stdout, free.stdout, "{:?}", program.words());
        filtered.exits(0);
        check(&dir, &profile, program).exits(0);
        // One that it made, and one that it may only make after a signal.
        let made = names(&profile);
        let made: Vec<&str> = made
            .into_iter()
            .filter(|name| !is_of_every_profile(name))
            .collect();
        let call = made[at * 7 % made.len()];
        let denying = without(&profile, call);
        let killed = under(&denying, program);
        // A child may have been killed instead.
        let is_killed = killed.code.is_none() || killed.stdout != free.stdout;
        assert!(is_killed, "{call} of {:?}: {killed}", program.words());
        let denied = check(&dir, &denying, program);
        denied
            .exits(1)
            .prints_all(&["it denies 1 of the ", &format!(" calls: {call}\n")]);
        let unneeded = without(&profile, "restart_syscall");
        assert_eq!(under(&unneeded, program).stdout, free.stdout);
        check(&dir, &unneeded, program).exits(0);
    }
}

/// Whether a call is in each profile, made or not.
fn is_of_every_profile(name: &str) -> bool {
    [
        "execve",
        "exit",
        "exit_group",
        "restart_syscall",
        "rt_sigreturn",
    ]
    .contains(&name)
}

/// Commands that write, in a directory with the file `in`.
const TEN_WRITERS: [&str; 10] = [
    "cp in out",
    "mkdir d; mv in d/x",
    "sed -i s/a/b/ in",
    "tar -c -f a.tar in; tar -x -f a.tar -C sub",
    "rm in",
    "ln -s in link; ln in hard",
    "gzip -k in",
    "touch sub/x; chmod 600 in",
    "dd if=in of=sub/y bs=1k status=none; truncate -s 9 sub/y",
    "t=$(mktemp sub/XXXXXX); cat in >$t; mv $t in",
];

/// Runs a command where everything is read-only but these directories and what the kernel shows, as
/// systemd's `ProtectSystem=strict` does.
fn protected(dir: &TestDir, writable: &[&str], script: &str) -> Finished {
    const PROTECT: &str = "
mount --make-rprivate /
for place in $WRITABLE; do mount --bind $place $place; done
awk '{ print $5 }' /proc/self/mountinfo | while read -r place; do
    case \" $WRITABLE /dev /proc /sys \" in *\" $place \"*) continue ;; esac
    case $place in /dev/*|/proc/*|/sys/*) continue ;; esac
    mount -o remount,bind,ro $place || echo \"$place stays writable\" >&2
done
cd $PLACE && exec sh -ec \"$SCRIPT\"";
    let unshare = program("unshare").args(&["-m", "sh", "-c", PROTECT]);
    let unshare = unshare.env("SCRIPT", script);
    unshare
        .env("WRITABLE", writable.join(" "))
        .env("PLACE", dir.path())
        .finish()
}

/// Fills the directory with what the commands need, and nothing else.
fn prepare(dir: &TestDir) {
    let remove = shell("rm -rf ./* && mkdir sub").dir(dir.path());
    remove.finish().exits(0);
    dir.write("in", "a\n".repeat(2000));
}

#[test]
fn a_unit_lets_a_command_write_where_a_mount_namespace_does() {
    let (dir, units) = (TestDir::new(), TestDir::new());
    let unit = units.word("a.service");
    for script in TEN_WRITERS {
        let command = shell(&format!("set -e; {script}"));
        let run = |options: &[&str]| {
            prepare(&dir);
            zctrace().dir(dir.path()).options(options).show(&command)
        };
        let writing = run(&["--paths", "--format=systemd", "-o", &unit]);
        writing.exits(0).never_says("may deny");
        let text = units.read("a.service");
        let lines = text.lines();
        let writable = lines.filter_map(|line| line.strip_prefix("ReadWritePaths="));
        let writable: Vec<&str> = writable.collect();
        prepare(&dir);
        protected(&dir, &writable, script).exits(0);
        prepare(&dir);
        let denied = protected(&dir, &[], script);
        assert_ne!(denied.code, Some(0), "{script}");
        denied.says("Read-only file system");
        let check = ["check", "--profile", &unit];
        run(&check).exits(0);
        let lines = text.lines();
        let others = lines.filter(|line| !line.starts_with("ReadWritePaths="));
        let others: Vec<&str> = others.collect();
        units.write("a.service", others.join("\n"));
        run(&check).exits(1).prints(" paths: ");
    }
}

#[test]
fn a_unit_names_the_sockets_that_a_command_makes() {
    let dir = TestDir::new();
    let unit = dir.word("a.service");
    let script = "import socket
for family in socket.AF_UNIX, socket.AF_INET, socket.AF_NETLINK: socket.socket(family, socket.SOCK_DGRAM)
socket.socketpair()";
    for backend in BACKENDS {
        let write = [backend, "--paths", "--format=systemd", "-o", &unit];
        zctrace().options(&write).show(&python(script)).exits(0);
        let text = dir.read("a.service");
        let line = "RestrictAddressFamilies=AF_INET AF_NETLINK AF_UNIX\n";
        assert!(text.contains(line), "{text}");
        let check = ["check", backend, "--profile", &unit];
        zctrace().options(&check).show(&python(script)).exits(0);
        dir.write("a.service", text.replace("AF_NETLINK ", ""));
        let denied = zctrace().options(&check).show(&python(script));
        denied.exits(1).prints_all(&[
            "families of sockets: AF_NETLINK",
            "AF_NETLINK: socket of python3",
        ]);
    }
}

/// Families of sockets with their numbers, and a type that each has.
const FAMILIES: [(&str, i32, &str); 4] = [
    ("AF_UNIX", libc::AF_UNIX, "SOCK_STREAM"),
    ("AF_INET", libc::AF_INET, "SOCK_DGRAM"),
    ("AF_NETLINK", libc::AF_NETLINK, "SOCK_RAW"),
    ("AF_PACKET", libc::AF_PACKET, "SOCK_RAW"),
];

/// Makes a socket of this family. Its status is the errno.
fn socket_of((family, _, kind): (&str, i32, &str)) -> Program {
    python(&format!(
        "import socket as s, sys
try: s.socket(s.{family}, s.{kind})
except OSError as error: sys.exit(error.errno)"
    ))
}

/// Runs the program under the filter of the kernel that systemd makes of the unit's families.
fn under_families(unit: &str, program: &Program) -> Finished {
    let mut lines = unit.lines();
    let listed = lines.find_map(|line| line.strip_prefix("RestrictAddressFamilies="));
    let listed = listed.expect("a line").split(' ');
    let number = |name| FAMILIES.iter().find(|(known, ..)| *known == name);
    let numbers = listed.map(|name| number(name).expect("a family").1.to_string());
    let launcher = c("allow-calls").arg("families");
    let launcher = launcher.args(&numbers.collect::<Vec<_>>()).arg("--");
    launcher.args(program.words()).finish()
}

#[test]
fn the_kernel_denies_the_families_that_a_check_of_the_unit_denies() {
    let dir = TestDir::new();
    let unit = dir.word("a.service");
    for allowed in FAMILIES {
        let writing = zctrace().options(&["--paths", "--format=systemd", "-o", &unit]);
        writing.show(&socket_of(allowed)).exits(0);
        let text = dir.read("a.service");
        for other in FAMILIES {
            let program = socket_of(other);
            let denied = allowed != other;
            let status = if denied { libc::EAFNOSUPPORT } else { 0 };
            under_families(&text, &program).exits(status);
            let checking = zctrace().options(&["check", "--profile", &unit]);
            let checked = checking.show(&program);
            checked.exits(i32::from(denied));
            if denied {
                checked.prints(&format!("families of sockets: {}\n", other.0));
            }
        }
    }
}
