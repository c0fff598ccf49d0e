//! The steps of `action.yml` and of docs/how-to/ci.md, as a runner starts them. In the place of `curl` is a
//! script that writes down what it is asked, and answers from a file: no request leaves the machine.

use std::path::Path;

use serde_json::{Value, json};

use crate::harness::{Finished, TestDir, binary, program, set_mode};

const ACTION: &str = include_str!("../../action.yml");
const PAGE: &str = include_str!("../../docs/how-to/ci.md");

/// Serves files of the directory `served`, and answers all else from the file `answer`.
const CURL: &str = r#"#!/bin/sh
data= target= method=GET
while [ $# -gt 0 ]; do
    case $1 in
    --data) data=$(cat "${2#@}"); shift ;;
    -o) target=$2; shift ;;
    -X) method=$2; shift ;;
    --config) grep -q secret "$2" || exit 1; shift ;;
    -H | --retry) shift ;;
    http*) url=$1 ;;
    esac
    shift
done
echo "$method $url" >>"$TEST_DIR/asked"
[ -z "$data" ] || printf '%s' "$data" >"$TEST_DIR/sent"
if [ -n "$target" ]; then cp "$TEST_DIR/served/$(basename "$url")" "$target"; exit; fi
! grep -qs "$method" "$TEST_DIR/forbidden" || exit 22
case $method in GET) cat "$TEST_DIR/answer" ;; esac
"#;

/// What is checked before the change and after it.
const CHECKS: &str = r#"
[[check]]
name = "a `copy`"
command = ["cp", "in", "out"]
files = [{ path = "in", size = "1MiB" }]
expect = ["exit.code == 0"]
[[check]]
name = "a 'copy'"
command = ["true"]
expect = ["write.calls == 0"]
"#;

/// A job of a CI.
struct CiJob(TestDir);

impl CiJob {
    /// On a machine with these checks.
    fn new() -> Self {
        let dir = TestDir::with("zctrace.toml", CHECKS);
        dir.write("curl", CURL);
        set_mode(&dir.join("curl"), 0o755);
        dir.write("answer", "[]");
        dir.write("event.json", r#"{ "pull_request": { "number": 7 } }"#);
        Self(dir)
    }

    /// Runs a line as a step, with the variables of GitHub's runner and these.
    fn run(&self, line: &str, variables: &[(&str, &str)]) -> Finished {
        let dir = self.0.path();
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let path = std::env::var("PATH").expect("a PATH");
        let file = |name: &str| dir.join(name).display().to_string();
        let of_runner = [
            ("PATH", format!("{}:{path}", dir.display())),
            ("TEST_DIR", dir.display().to_string()),
            ("RUNNER_TEMP", file("temp")),
            ("GITHUB_ACTION_PATH", root.display().to_string()),
            ("GITHUB_ACTIONS", "true".to_owned()),
            ("GITHUB_API_URL", "https://api.example".to_owned()),
            ("GITHUB_SERVER_URL", "https://example".to_owned()),
            ("GITHUB_REPOSITORY", "owner/name".to_owned()),
            ("GITHUB_EVENT_NAME", "pull_request".to_owned()),
            ("GITHUB_EVENT_PATH", file("event.json")),
            ("GITHUB_STEP_SUMMARY", file("summary.md")),
            ("GITHUB_OUTPUT", file("output")),
            ("GITHUB_PATH", file("path")),
            ("GITHUB_SHA", "1a2b".to_owned()),
            ("BINARY", binary().display().to_string()),
            ("NAME", "syscalls".to_owned()),
            ("TOKEN", "secret".to_owned()),
        ];
        let of_runner = of_runner
            .iter()
            .map(|(name, value)| (*name, value.as_str()));
        let all = of_runner.chain(variables.iter().copied());
        let step = all.fold(program("sh"), |step, (name, value)| step.env(name, value));
        step.args(&["-c", line]).dir(dir).finish()
    }

    /// Runs a step of the action.
    fn step(&self, name: &str, variables: &[(&str, &str)]) -> Finished {
        let (_, step) = ACTION.split_once(&format!("- name: {name}\n")).expect(name);
        let (_, line) = step.split_once("run: ").expect("runs something");
        let line = line.lines().next().unwrap_or_default();
        let finished = self.run(line, variables);
        let code = i32::from(name == "Result");
        finished.exits(code);
        finished
    }

    /// Checks the default branch, then changes what is checked.
    fn after_a_push() -> Self {
        let job = Self::new();
        job.step("Get zctrace", &[]);
        job.step("Check", &[("GITHUB_EVENT_NAME", "push")]);
        job
    }

    fn change(&self) {
        let changed = CHECKS.replace(r#"["cp", "in""#, r#"["cp", "--reflink=never", "in""#);
        self.0.write("zctrace.toml", changed);
    }

    /// The requests since the last call, and the comment that was sent.
    fn asked(&self) -> (String, String) {
        let asked = self.0.read("asked");
        self.0.write("asked", "");
        let sent: Value = serde_json::from_str(&self.0.read("sent")).unwrap_or_default();
        (asked, sent["body"].as_str().unwrap_or_default().to_owned())
    }
}

#[test]
fn what_is_checked_runs_as_the_user_of_the_job() {
    const AS_NOBODY: &str = "#!/bin/sh\nexec /usr/bin/id \"$@\" nobody\n";
    const SUDO: &str =
        "#!/bin/sh\nwhile case $1 in -*) ;; *) false ;; esac; do shift; done\nexec \"$@\"\n";
    let job = CiJob::new();
    for (name, script) in [("id", AS_NOBODY), ("sudo", SUDO)] {
        job.0.write(name, script);
        set_mode(&job.0.join(name), 0o755);
    }
    // The command makes a file in its folder, and cannot read that of root.
    let checks = "[[check]]\nname = 'own'\ncommand = 'touch new && ! test -r /etc/shadow'\nexpect = ['exit.code == 0']\n\
        [[check]]\nname = 'root'\nuser = 'root'\ncommand = 'test -r /etc/shadow'\nexpect = ['exit.code == 0']\n";
    job.0.write("zctrace.toml", checks);
    job.step("Get zctrace", &[]);
    job.step("Check", &[]);
    let output = job.0.read("output");
    assert!(
        output.contains("status=0\n"),
        "{output}{}",
        job.0.read("summary.md")
    );
}

#[test]
fn the_change_is_commented_once_and_the_comment_is_replaced() {
    let job = CiJob::after_a_push();
    job.change();
    job.step("Check", &[]).prints("2 checks: 2 passed");
    assert!(job.0.read("output").contains("status=0\nreports="));
    assert!(job.0.read("summary.md").contains("2 checks: 2 passed"));
    assert!(job.0.read("temp/zctrace/junit.xml").contains("<testcase"));
    job.step("Comment the change", &[]);
    let comments = "https://api.example/repos/owner/name/issues";
    let (asked, comment) = job.asked();
    let list = format!("GET {comments}/7/comments?per_page=100&page=1\n");
    assert_eq!(asked, format!("{list}POST {comments}/7/comments\n"));
    let beginning =
        "<!-- zctrace: syscalls -->\n### System calls: syscalls\n\n**`a copy`**\n\n`cp in out` → ";
    assert!(comment.starts_with(beginning), "{comment}");
    assert!(comment.contains("| write | 0 → 8 (+8) |"), "{comment}");
    assert!(comment.ends_with("\n1 unchanged\n"), "{comment}");
    let (_, shown) = comment.split_once('\n').expect("lines");
    assert!(job.0.read("summary.md").ends_with(shown));
    // Others write, too.
    let others = vec![json!({ "id": 1, "body": "fine" }); 3];
    let copied = json!({
        "id": 2, "body": comment, "user": { "type": "User" }, "author_association": "CONTRIBUTOR",
    });
    let ours = json!({ "id": 42, "body": comment, "user": { "type": "Bot" } });
    let all = [others, vec![copied, ours]].concat();
    job.0.write("answer", Value::from(all).to_string());
    job.0.write("zctrace.toml", CHECKS);
    job.step("Check", &[]);
    job.step("Comment the change", &[]);
    let (asked, comment) = job.asked();
    assert_eq!(asked, format!("{list}PATCH {comments}/comments/42\n"));
    assert!(comment.ends_with("\n\nunchanged\n"), "{comment}");
}

#[test]
fn each_job_of_a_matrix_has_a_name_of_its_own() {
    let outputs = |matrix| {
        let job = CiJob::new();
        job.step("Get zctrace", &[("MATRIX", matrix)]);
        let output = job.0.read("output");
        let (_, names) = output.split_once("name=").expect("a name");
        names.to_owned()
    };
    // The expression in action.yml is empty outside of a matrix.
    assert!(ACTION.contains("MATRIX: ${{ join(matrix.*, ', ') }}"));
    assert_eq!(outputs(""), "syscalls\nslug=zctrace-syscalls\n");
    assert_eq!(
        outputs("ubuntu-24.04, g++"),
        "syscalls (ubuntu-24.04, g++)\nslug=zctrace-syscalls-ubuntu-24.04--g--\n"
    );
    // What would clash, or mix up the reports of two jobs, has the job's name.
    for part in ["name", "key", "restore-keys", "NAME"] {
        let own = ["slug", "name"].map(|output| format!("{{{{ steps.get.outputs.{output} }}}}"));
        let line = ACTION
            .lines()
            .rfind(|line| line.trim().starts_with(&format!("{part}: ")));
        let line = line.expect(part);
        assert!(own.iter().any(|own| line.contains(own)), "{line}");
    }
}

#[test]
fn the_name_of_a_check_stays_code_in_a_comment() {
    let job = CiJob::after_a_push();
    let hostile = CHECKS.replace("a 'copy'", r"a\r\r# `@octocat`\u001b");
    job.0.write("zctrace.toml", hostile.replace('\'', "\""));
    job.step("Check", &[]);
    job.step("Comment the change", &[]);
    let comment = job.asked().1;
    assert!(comment.contains("**`a# @octocat`**: new"), "{comment}");
    assert!(!comment.contains('\r'), "{comment}");
}

#[test]
fn a_check_that_fails_is_annotated_and_its_status_is_the_result() {
    let job = CiJob::after_a_push();
    let failing = CHECKS.replace("write.calls == 0", "write.calls == 1");
    job.0.write("zctrace.toml", failing);
    let checked = job.step("Check", &[("CHECKS", "zctrace.toml a?'*")]);
    checked.prints("::error file=").prints("1 check: 1 failed");
    assert!(job.0.read("output").ends_with("/head\nsaved=false\n"));
    job.step("Result", &[("STATUS", "1")]);
    // A check that was not run, or gave no result.
    job.step("Comment the change", &[]);
    let comment = job.asked().1;
    assert!(
        comment.contains("**`a copy`**: no report of this run"),
        "{comment}"
    );
}

#[test]
fn what_cannot_be_commented_is_a_warning() {
    let job = CiJob::new();
    job.step("Get zctrace", &[]);
    job.step("Check", &[]);
    let comment = |variables: &[(&str, &str)]| job.step("Comment the change", variables);
    comment(&[]).prints("::warning title=zctrace::there are no reports to compare with yet");
    comment(&[("BASE", "before")]).prints("in the directory 'before'");
    job.step("Check", &[("GITHUB_EVENT_NAME", "push")]);
    for (forbidden, tried) in [("GET", 1), ("POST", 3)] {
        job.0.write("forbidden", forbidden);
        comment(&[]).prints("::warning title=zctrace::the comment cannot be written");
        assert_eq!(job.0.read("asked").lines().count(), tried);
    }
    job.0.write("event.json", "{}");
    comment(&[]).prints("::warning title=zctrace::this is no pull request");
}

#[test]
fn an_earlier_use_in_the_same_job_leaves_nothing_but_the_program() {
    let job = CiJob::after_a_push();
    job.step("Get zctrace", &[]);
    assert!(job.0.read("path").ends_with("temp/zctrace/bin\n"));
    job.step("Check", &[]);
    let comment = job.step("Comment the change", &[]);
    comment.prints("there are no reports to compare with yet");
}

#[test]
fn a_run_that_checked_nothing_says_why_and_replaces_no_reports() {
    let job = CiJob::after_a_push();
    assert!(job.0.read("output").ends_with("saved=true\n"));
    assert!(ACTION.contains("steps.check.outputs.saved == 'true'"));
    job.0.write("zctrace.toml", "oops");
    let checked = job.step("Check", &[("GITHUB_EVENT_NAME", "push")]);
    checked.prints("::error title=zctrace::could not check anything: zctrace: ");
    assert!(job.0.read("output").ends_with("saved=false\n"));
    let summary = job.0.read("summary.md");
    assert!(summary.contains("\nzctrace could not check anything: `zctrace: "));
    assert!(job.0.join("temp/zctrace/base/a-%27copy%27.json").exists());
    let comment = job.step("Comment the change", &[]);
    comment.prints("::warning title=zctrace::this run has no reports");
    assert!(!job.0.join("asked").exists());
}

#[test]
fn a_report_that_cannot_be_read_costs_only_its_own_comparison() {
    let job = CiJob::after_a_push();
    job.change();
    job.step("Check", &[]);
    for name in ["a-%27copy%27", "old"] {
        job.0
            .write(format!("temp/zctrace/base/{name}.json"), "oops");
    }
    job.step("Comment the change", &[]);
    let comment = job.asked().1;
    for part in [
        "**`a 'copy'`**: the earlier report cannot be compared\n",
        "**`old.json`**: no report of this run\n",
        "| write | 0 → 8 (+8) |",
    ] {
        assert!(comment.contains(part), "{comment}");
    }
}

#[test]
fn a_change_that_is_too_long_for_a_comment_is_in_the_summary() {
    let job = CiJob::after_a_push();
    let name = "long".repeat(16_000);
    job.0
        .write("zctrace.toml", CHECKS.replace("a 'copy'", &name));
    job.step("Check", &[]);
    job.step("Comment the change", &[]);
    let comment = job.asked().1;
    assert!(comment.contains("the summary or the log"), "{comment}");
    let new = format!("**`{name}`**: new");
    assert!(job.0.read("summary.md").contains(&new));
}

#[test]
fn a_release_is_used_only_if_its_checksum_is_right() {
    let job = CiJob::new();
    let name = format!(
        "zctrace-{}-{}-unknown-linux-musl",
        env!("CARGO_PKG_VERSION"),
        std::env::consts::ARCH
    );
    let pack = format!(
        "mkdir -p served {name}; printf '#!/bin/sh\\necho it is {name}' >{name}/zctrace; \
         tar -czf served/{name}.tar.gz {name}; cd served; sha256sum *.gz >{name}.sha256; \
         echo 0000 other.deb >>{name}.sha256"
    );
    job.run(&pack, &[]).exits(0);
    let downloaded = [("BINARY", ""), ("REPOSITORY", "them/zctrace")];
    job.step("Get zctrace", &downloaded)
        .prints(&format!("it is {name}\n"));
    let address = format!(
        "GET https://example/them/zctrace/releases/download/v{}/{name}.tar.gz\n",
        env!("CARGO_PKG_VERSION")
    );
    assert!(job.0.read("asked").starts_with(&address));
    job.run(&format!("echo >>served/{name}.tar.gz"), &[])
        .exits(0);
    let get = "sh \"$GITHUB_ACTION_PATH/.github/action/get.sh\"";
    job.run(get, &downloaded).exits(1).never_prints("it is");
}

/// The lines of a block of docs/how-to/ci.md that start our scripts, as they are typed there.
fn lines_of_page(title: &str) -> Vec<&'static str> {
    let (_, section) = PAGE.split_once(&format!("\n## {title}\n")).expect(title);
    let section = section.split("\n## ").next().unwrap_or_default();
    let lines = section
        .lines()
        .filter(|line| line.contains("/action/.github/action/"));
    lines
        .map(|line| {
            line.trim_start_matches([' ', '-'])
                .trim_start_matches("run: ")
        })
        .collect()
}

#[test]
fn the_snippets_of_other_systems_work() {
    let gitlab: &[(&str, &str)] = &[
        ("GITHUB_API_URL", ""),
        ("GITHUB_ACTIONS", ""),
        ("GITHUB_OUTPUT", ""),
        ("GITHUB_STEP_SUMMARY", ""),
        ("GITHUB_EVENT_NAME", ""),
        ("GITHUB_ACTION_PATH", ""),
        ("CI_API_V4_URL", "https://gitlab.example/api/v4"),
        ("CI_PROJECT_ID", "5"),
        ("CI_MERGE_REQUEST_IID", "7"),
        ("CI_DEFAULT_BRANCH", "main"),
        ("ZCTRACE_TOKEN", "secret"),
    ];
    let notes = "https://gitlab.example/api/v4/projects/5/merge_requests/7/notes";
    let forgejo = "https://api.example/repos/owner/name/issues/7/comments";
    let strangers = Value::from(vec![json!({ "id": 1, "body": "fine" }); 100]).to_string();
    let gitlab = ("GitLab", gitlab, Some(("CI_COMMIT_BRANCH", "main")), notes);
    let forgejo = (
        "Forgejo",
        &[][..],
        Some(("GITHUB_EVENT_NAME", "push")),
        forgejo,
    );
    for (title, variables, push, comments) in [gitlab, forgejo] {
        let job = CiJob::new();
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        job.run(
            &format!("mkdir temp; ln -s '{}' temp/action", root.display()),
            &[],
        )
        .exits(0);
        // All of them each time.
        job.0.write("answer", &strangers);
        for is_push in [true, false] {
            let mut variables = variables.to_vec();
            variables.extend(push.filter(|_| is_push));
            let lines = lines_of_page(title);
            assert_eq!(lines.len(), 3, "{lines:?}");
            for line in lines {
                let finished = job.run(line, &variables);
                finished.exits(0);
                let has_log = title == "GitLab" && !is_push && line.contains("comment.sh");
                assert_eq!(finished.text().contains("| write | 0 → 8"), has_log);
            }
            job.change();
        }
        let (asked, comment) = job.asked();
        assert!(asked.ends_with(&format!("POST {comments}\n")), "{asked}");
        assert!(comment.contains("| write | 0 → 8 (+8) |"), "{comment}");
    }
}
