//! What zctrace writes as root does not go where another user wants it, whatever the kernel's
//! `protected_symlinks` and `protected_fifos` are.

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, lchown, symlink},
    path::PathBuf,
};

use crate::harness::{TestDir, Zctrace, fifo, program, set_mode, shell, zctrace};

const NOBODY: u32 = 65534;

/// A directory in which everybody may put something, and beside it `kept`, which nobody may change.
struct Shared(TestDir);

impl Shared {
    fn new() -> Self {
        let dir = TestDir::with("kept", "kept");
        fs::create_dir(dir.join("shared")).expect("it is ours");
        set_mode(&dir.join("shared"), 0o1777);
        Self(dir)
    }

    /// A link in it to a place beside it.
    fn link(&self, name: &str, target: &str, owner: u32) -> PathBuf {
        let link = self.0.join("shared").join(name);
        symlink(self.0.join(target), &link).expect("it is ours");
        lchown(&link, Some(owner), Some(owner)).expect("we are root");
        link
    }

    /// Makes sure that a run is refused for what another user has put there.
    #[track_caller]
    fn refuses(&self, zctrace: Zctrace, words: &[&str], status: i32) {
        let finished = zctrace.dir(self.0.path()).finish_with(words);
        finished.exits(status).says("that another user owns");
        assert_eq!(self.0.read("kept"), "kept");
    }
}

#[test]
fn links_of_other_users_in_a_directory_for_everybody_are_refused() {
    let shared = Shared::new();
    shared.link("file", "kept", NOBODY);
    shared.link("new", "made", NOBODY);
    fs::create_dir(shared.0.join("folder")).expect("it is ours");
    shared.link("folder", "folder", NOBODY);
    shared.link("true.json", "kept", NOBODY);
    for path in ["shared/file", "shared/new", "shared/folder/r.json"] {
        let output = |option: &str| zctrace().option(format!("{option}={path}"));
        shared.refuses(output("--output"), &["true"], 125);
        shared.refuses(output("--output"), &["--interval=1s", "true"], 125);
        shared.refuses(output("--html"), &["true"], 125);
        let export = ["compare", "-r", "1", "--export", "json", path, "true"];
        shared.refuses(zctrace(), &export, 125);
        let check = zctrace().options(&["check", "--expect=exit.code == 0"]);
        shared.refuses(
            check.clone().option(format!("--output={path}")),
            &["--", "true"],
            2,
        );
        shared.refuses(check.clone(), &["--export", "junit", path, "--", "true"], 2);
        let summary = zctrace()
            .env("GITHUB_STEP_SUMMARY", path)
            .options(&["check"]);
        let words = [
            "--expect=exit.code == 0",
            "--export",
            "markdown",
            path,
            "--",
            "true",
        ];
        shared.refuses(summary, &words, 2);
    }
    let reports = [
        "check",
        "--expect=exit.code == 0",
        "--reports=shared",
        "--",
        "true",
    ];
    shared.refuses(zctrace(), &reports, 2);
    shared.0.assert_has_only(&["folder", "kept", "shared"]);
    assert!(
        fs::read_dir(shared.0.join("folder"))
            .expect("it is ours")
            .next()
            .is_none()
    );
}

#[test]
fn other_links_are_followed_as_the_kernel_follows_them() {
    let shared = Shared::new();
    let to = |path: &str| {
        zctrace()
            .json_to(shared.0.join(path))
            .show(&program("true"))
    };
    // A link of our own.
    let own = shared.link("own", "made", 0);
    to("shared/own").successful();
    assert!(own.is_symlink() && shared.0.read("made").ends_with("}\n"));
    // A link of the owner of the directory.
    let theirs = shared.link("theirs", "other", NOBODY);
    lchown(shared.0.join("shared"), Some(NOBODY), None).expect("we are root");
    to("shared/theirs").successful();
    assert!(theirs.is_symlink() && shared.0.read("other").ends_with("}\n"));
    // In a directory of one user.
    lchown(shared.0.join("shared"), Some(0), None).expect("we are root");
    set_mode(&shared.0.join("shared"), 0o755);
    to("shared/theirs").successful();
    // A circle.
    symlink("circle", shared.0.join("circle")).expect("it is ours");
    to("circle").exits(125).says("symbolic links");
}

#[test]
fn a_fifo_of_another_user_in_a_directory_for_everybody_is_refused() {
    let shared = Shared::new();
    let fifo = fifo(shared.0.join("shared/fifo"));
    lchown(&fifo, Some(NOBODY), None).expect("we are root");
    shared.refuses(zctrace().option("--output=shared/fifo"), &["true"], 125);
}

#[test]
fn a_file_is_replaced_without_its_set_uid_bit() {
    let dir = TestDir::new();
    let path = dir.write_with_mode("report", "", 0o7755);
    lchown(&path, Some(NOBODY), None).expect("we are root");
    set_mode(&path, 0o7755);
    let zctrace = zctrace()
        .json_to(&path)
        .by_script(r#"umask 022; exec "$@""#);
    zctrace.show(&program("true")).successful();
    let found = fs::metadata(&path).expect("it is there");
    assert_eq!(
        (found.uid(), found.permissions().mode() & 0o7777),
        (0, 0o755)
    );
}

#[test]
fn spans_go_to_one_file_whatever_takes_its_name() {
    let dir = TestDir::with("kept", "kept");
    let script = "until [ -s spans ]; do sleep 0.1; done; ln spans first; ln -sf kept spans; \
                  read=$(wc -l <first); until [ $(wc -l <first) -gt $read ]; do sleep 0.1; done";
    let zctrace = zctrace().options(&["--interval=100ms", "--format=ndjson", "-o", "spans"]);
    zctrace.dir(dir.path()).show(&shell(script)).exits(0);
    assert_eq!(dir.read("kept"), "kept");
}

#[test]
fn a_baseline_is_not_written_through_a_link() {
    let dir = TestDir::with("kept", "kept");
    fs::create_dir(dir.join("folder")).expect("it is ours");
    symlink("kept", dir.join("link.json")).expect("it is ours");
    symlink("folder", dir.join("base")).expect("it is ours");
    for path in ["link.json", "base/new.json"] {
        dir.write(
            "zctrace.toml",
            format!("[[check]]\nname = \"a\"\ncommand = [\"true\"]\nbaseline = \"{path}\"\n"),
        );
        let baseline = format!("--baseline={path}");
        for words in [
            &["check", "--update"][..],
            &["check", "--update", &baseline, "--", "true"],
        ] {
            let finished = zctrace().dir(dir.path()).finish_with(words);
            finished.exits(2).says("its path has a symbolic link");
        }
    }
    assert_eq!(dir.read("kept"), "kept");
    dir.assert_has_only(&["base", "folder", "kept", "link.json", "zctrace.toml"]);
    assert!(
        fs::read_dir(dir.join("folder"))
            .expect("it is ours")
            .next()
            .is_none()
    );
}
