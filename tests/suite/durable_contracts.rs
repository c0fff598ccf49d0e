//! What programs of others sync: the table of docs/contracts.md, each row tried where the program is
//! installed.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use zctrace::expect::ExpectError;

use crate::{
    durable_truth::in_memory,
    harness::{each_backend, shell},
};

const PAGE: &str = include_str!("../../docs/contracts.md");

/// A row of the table.
struct Contract<'a> {
    /// The program and its setting.
    name: &'a str,
    /// The program that must be installed.
    needs: &'a str,
    /// A script that runs before, untraced.
    prepare: &'a str,
    /// The script that is traced, in a directory that has `data/f`.
    command: &'a str,
    /// What is expected of it.
    expectation: &'a str,
    /// Whether that holds; `None`: it is unknown.
    holds: Option<bool>,
}

/// Checks rows under each backend, and that the page has them.
#[track_caller]
fn check(contracts: &[Contract<'_>]) {
    for contract in contracts {
        let Contract {
            name, expectation, ..
        } = contract;
        let verdict = match contract.holds {
            Some(true) => "holds",
            Some(false) => "fails",
            None => "unknown",
        };
        let row = format!("| {name} | `{expectation}` | {verdict} |");
        assert!(PAGE.contains(&row), "the page has no {row}");
        if shell(&format!("command -v {}", contract.needs))
            .finish()
            .code
            != Some(0)
        {
            eprintln!("{name}: NOT RUN, {} is not installed", contract.needs);
            continue;
        }
        for zctrace in each_backend() {
            let directory = in_memory();
            fs::create_dir(directory.join("data")).expect("room");
            directory.write("data/f", "hello\n");
            let prepare = shell(contract.prepare).dir(directory.path());
            prepare.finish().exits(0);
            let zctrace = zctrace.option("--syncs").dir(directory.path());
            let run = zctrace.run(&shell(contract.command));
            run.finished.exits(0);
            let sums = &run.report.syncs.as_ref().expect("it was asked for").sums;
            println!("{row} {} | {} |", sums.count, sums.wasted);
            let found = run.report.expect(expectation);
            let is_found = match &found {
                Ok(()) => contract.holds == Some(true),
                Err(ExpectError::Fails(_)) => contract.holds == Some(false),
                Err(ExpectError::Inconclusive(_)) => contract.holds.is_none(),
                Err(_) => false,
            };
            assert!(is_found, "{}: {row}\n{found:?}", run.report.backend);
        }
    }
}

#[test]
fn sqlite_syncs_what_its_setting_promises() {
    for (journal, file, verdicts) in [
        ("delete", "data/a.db", [false, true, true, true]),
        ("wal", "data/a.db-wal", [false, false, true, true]),
    ] {
        let title = if journal == "wal" { "WAL" } else { "journal" };
        let settings = ["OFF", "NORMAL", "FULL", "EXTRA"];
        for (setting, holds) in settings.into_iter().zip(verdicts) {
            // The program ends at once: a close would write the log to the database.
            let begin = "import os, sqlite3\nc = sqlite3.connect('data/a.db')\n";
            let prepare = format!(
                "python3 -c \"{begin}c.execute('pragma journal_mode={journal}')
c.execute('create table t(a)')
c.close()\""
            );
            let command = format!(
                "python3 -c \"{begin}c.execute('pragma synchronous={setting}')
c.execute('insert into t values(1)')
c.commit()
os.path.exists('/zctrace/mark/commit')
os._exit(0)\""
            );
            check(&[Contract {
                name: &format!("SQLite, {title}, `{setting}`"),
                needs: "python3",
                prepare: &prepare,
                command: &command,
                expectation: &format!("durable(\"{file}\") at mark(\"commit\")"),
                holds: Some(holds),
            }]);
        }
    }
}

#[test]
fn git_and_editors_sync_as_the_page_says() {
    for setting in ["none", "all"] {
        let prepare = "cd data && git init -q && git add f";
        let commit = "git -c user.name=n -c user.email=e@x -c core.fsyncMethod=fsync";
        let commit = format!("cd data && {commit} -c core.fsync={setting} commit -qm m");
        check(&[Contract {
            name: &format!("git commit, `core.fsync={setting}`"),
            needs: "git",
            prepare,
            command: &commit,
            expectation: "durable(\"data/.git/objects/**\")",
            holds: Some(false),
        }]);
    }
    check(&[Contract {
        name: "git commit, `core.fsync=all`",
        needs: "git",
        prepare: "cd data && git init -q -b main && git add f",
        command: "cd data && git -c user.name=n -c user.email=e@x -c core.fsyncMethod=fsync -c core.fsync=all commit -qm m",
        expectation: "durable(\"data/.git/refs/**\")",
        holds: Some(false),
    }]);
    let keys =
        "sleep 1; printf x; sleep 1; printf '\\030'; sleep 1; printf y; sleep 1; printf '\\r'";
    let nano = format!("({keys}) | TERM=vt100 script -qec 'nano -I data/f' /dev/null >/dev/null");
    let replace =
        "python3 -c \"import os\nopen('data/t', 'w').write('x')\nos.replace('data/t', 'data/f')\"";
    for (name, needs, command, holds) in [
        (
            "vim",
            "vim",
            "vim -es -u NONE -i NONE -c 's/h/x/' -c wq data/f </dev/null",
            true,
        ),
        ("nano", "nano", &nano, true),
        ("`sed -i`", "sed", "sed -i s/h/x/ data/f", false),
        ("Python, `os.replace`", "python3", replace, false),
    ] {
        check(&[Contract {
            name,
            needs,
            prepare: "",
            command,
            expectation: "durable(\"data/f\")",
            holds: Some(holds),
        }]);
    }
}

/// Builds the program that saves by libraries of others. `None`: they could not be fetched or built.
fn saving() -> Option<PathBuf> {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/saving/Cargo.toml");
    let target = concat!(env!("CARGO_TARGET_TMPDIR"), "/saving");
    let mut cargo = Command::new("cargo");
    let cargo = cargo.args(["build", "--quiet", "--locked", "--manifest-path", manifest]);
    let built = cargo.args(["--target-dir", target]).status();
    if !built.is_ok_and(|status| status.success()) {
        eprintln!("libraries of others: NOT RUN, they could not be fetched and built");
        return None;
    }
    Some(Path::new(target).join("debug/saving"))
}

#[test]
fn libraries_sync_as_the_page_says() {
    let Some(saving) = saving() else {
        return;
    };
    for (name, library, file, holds) in [
        ("atomic-write-file", "atomic-write-file", "data/f", true),
        ("tempfile, `persist`", "tempfile", "data/f", false),
        ("redb", "redb", "data/db", true),
        ("sled, `flush`", "sled", "data/db/db", false),
        ("fjall, `SyncAll`", "fjall", "data/db/0.jnl", true),
    ] {
        let save = |value: &str| format!("{} {library} {value}", saving.display());
        check(&[Contract {
            name,
            needs: &saving.display().to_string(),
            prepare: &save("one"),
            // The first call shows that the file was there.
            command: &format!("cat {file} >/dev/null && {}", save("two")),
            expectation: &format!("durable(\"{file}\") at mark(\"commit\")"),
            holds: Some(holds),
        }]);
    }
}

#[test]
fn tools_of_systemd_sync_as_the_page_says() {
    let prepare = "mkdir -p data/etc && touch data/etc/passwd data/etc/group
echo 'f /etc/f 0644 - - - hello' >files.conf && echo 'u zc 900 zc' >users.conf";
    for (tool, words, file, holds) in [
        (
            "machine-id-setup",
            "--root=$PWD/data",
            "data/etc/machine-id",
            true,
        ),
        (
            "firstboot",
            "--root=$PWD/data --hostname=zc",
            "data/etc/hostname",
            true,
        ),
        (
            "sysusers",
            "--root=$PWD/data $PWD/users.conf",
            "data/etc/passwd",
            false,
        ),
        (
            "tmpfiles",
            "--root=$PWD/data --create $PWD/files.conf",
            "data/etc/f",
            false,
        ),
    ] {
        check(&[Contract {
            name: &format!("systemd-{tool}"),
            needs: &format!("systemd-{tool}"),
            prepare,
            command: &format!("systemd-{tool} {words} >/dev/null"),
            expectation: &format!("durable(\"{file}\")"),
            holds: Some(holds),
        }]);
    }
}

/// Gives a statement to `PostgreSQL`, whose cluster is in `data/pg`.
fn postgres(options: &str, statement: &str) -> String {
    format!(
        "echo '{statement}' | runuser -u postgres -- postgres --single -D $PWD/data/pg {options} postgres >/dev/null 2>&1"
    )
}

/// Makes the cluster, with a table.
pub fn postgres_cluster() -> String {
    format!(
        "chmod 755 . && mkdir data/pg && chown postgres data/pg &&
runuser -u postgres -- $(dirname $(readlink -f $(command -v postgres)))/initdb -N -D data/pg >/dev/null 2>&1 && {}",
        postgres("", "create table t(a int)")
    )
}

/// Adds a row to the table, with this setting of `fsync`.
pub fn postgres_insert(fsync: &str) -> String {
    postgres(&format!("-c fsync={fsync}"), "insert into t values (1)")
}

/// Makes a package of Python.
pub const WHEEL: &str = "python3 -c \"
import zipfile
z = zipfile.ZipFile('p-1-py3-none-any.whl', 'w')
info = 'p-1.dist-info/'
z.writestr('p.py', 'x=1')
z.writestr(info + 'METADATA', 'Metadata-Version: 2.1\\nName: p\\nVersion: 1\\n')
z.writestr(info + 'WHEEL', 'Wheel-Version: 1.0\\nGenerator: z\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')
z.writestr(info + 'RECORD', 'p.py,,\\n' + info + 'METADATA,,\\n' + info + 'WHEEL,,\\n' + info + 'RECORD,,\\n')
z.close()\"";
/// Installs it.
pub const PIP: &str = "pip install -q --no-index --no-cache-dir --no-compile --disable-pip-version-check --root-user-action=ignore --target data/lib ./p-1-py3-none-any.whl";

#[test]
fn servers_sync_before_they_answer_if_they_are_told_to() {
    let redis = |setting: &str, sets: u32| {
        format!(
            "redis-server --port 0 --unixsocket $PWD/s --dir data --appendonly yes --save '' --appendfsync {setting} >/dev/null &
until redis-cli -s s ping >/dev/null 2>&1; do sleep 0.02; done
for i in $(seq {sets}); do redis-cli -s s set k v >/dev/null; done
redis-cli -s s shutdown nosave
wait"
        )
    };
    for (setting, holds) in [("no", false), ("everysec", false), ("always", true)] {
        check(&[Contract {
            name: &format!("Redis, `appendfsync {setting}`"),
            needs: "redis-server",
            prepare: &redis(setting, 0),
            command: &redis(setting, 3),
            expectation: "durable(\"data/appendonlydir/**\") before write(unix)",
            holds: Some(holds),
        }]);
    }
    for (setting, holds) in [("off", false), ("on", true)] {
        check(&[Contract {
            name: &format!("PostgreSQL, `fsync={setting}`"),
            needs: "postgres",
            prepare: &postgres_cluster(),
            command: &postgres_insert(setting),
            expectation: "durable(\"data/pg/pg_wal/**\")",
            holds: Some(holds),
        }]);
    }
}

#[test]
fn package_managers_sync_as_the_page_says() {
    let package = "mkdir -p p/DEBIAN p/usr/share/p data/root/var/lib/dpkg data/root/usr/share/p
echo x >p/usr/share/p/f
printf 'Package: p\\nVersion: 1\\nArchitecture: all\\nMaintainer: m\\nDescription: d\\n' >p/DEBIAN/control
dpkg-deb -b p p.deb >/dev/null";
    let dpkg = "dpkg --root=data/root --force-not-root --no-force-unsafe-io --log=/dev/null -i p.deb >/dev/null";
    let npm = "mkdir package && echo '{\"name\":\"p\",\"version\":\"1.0.0\"}' >package/package.json && tar czf p.tgz package
echo '{\"name\":\"q\",\"version\":\"1.0.0\"}' >data/package.json";
    let install = "cd data && npm install --offline --no-audit --no-fund --cache ../cache ../p.tgz >/dev/null";
    let new = "cd data && cargo new -q --lib --vcs none p";
    let build = "cd data/p && cargo build -q --offline";
    for (name, needs, prepare, command, files) in [
        ("dpkg", "dpkg", package, dpkg, "data/root/usr/**"),
        ("pip", "pip", WHEEL, PIP, "data/lib/**"),
        ("npm", "npm", npm, install, "data/node_modules/**"),
        ("cargo build", "cargo", new, build, "data/p/target/**"),
    ] {
        check(&[Contract {
            name,
            needs,
            prepare,
            command,
            expectation: &format!("durable(\"{files}\")"),
            holds: Some(false),
        }]);
    }
}
