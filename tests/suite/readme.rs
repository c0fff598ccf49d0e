//! What README.md and the pages for users show works as it is printed there. A new reader has nothing
//! else.

use std::env;

use zctrace::Report;

use crate::harness::{Finished, TestDir, binary, program};

const RECIPES: &str = include_str!("../../docs/how-to/recipes.md");
const CHECKS: &str = include_str!("../../docs/how-to/checks.md");
const TESTS: &str = include_str!("../../docs/how-to/tests.md");
const CI: &str = include_str!("../../docs/how-to/ci.md");

mod rust_test_of_the_readme {
    include!(concat!(env!("OUT_DIR"), "/readme.rs"));
}

mod rust_test_of_the_page_of_tests {
    include!(concat!(env!("OUT_DIR"), "/tests_page.rs"));
}

/// The pages that show what to type.
const PAGES: [&str; 8] = [
    include_str!("../../README.md"),
    include_str!("../../docs/tutorial.md"),
    CHECKS,
    include_str!("../../docs/durability.md"),
    include_str!("../../docs/how-to/compare.md"),
    include_str!("../../docs/how-to/servers.md"),
    include_str!("../../docs/how-to/containers.md"),
    include_str!("../../docs/how-to/strace-logs.md"),
];

/// The blocks of a page in this language; those without a language show a terminal.
fn blocks_of(page: &'static str, language: &str) -> impl Iterator<Item = &'static str> {
    let blocks = page.split("```").skip(1).step_by(2);
    blocks.filter_map(move |block| block.strip_prefix(language)?.strip_prefix('\n'))
}

/// Types this, where `zctrace`, our test programs and a file `in` are at hand.
fn type_in(dir: &TestDir, script: &str) -> Finished {
    dir.write("in", "bytes".repeat(200_000));
    let programs = binary().with_file_name("").display().to_string();
    let tests = env!("CARGO_BIN_EXE_copier").trim_end_matches("copier");
    let path = format!("{programs}:{tests}:{}", env::var("PATH").expect("a PATH"));
    let script = format!("sudo() {{ [ \"$1\" != -E ] || shift; \"$@\"; }}\n{script}");
    program("bash")
        .arg("-c")
        .arg(script)
        .env("PATH", path)
        .dir(dir.path())
        .finish()
}

#[test]
fn what_is_typed_into_terminals_works() {
    for block in PAGES.into_iter().flat_map(|page| blocks_of(page, "")) {
        let typed = block.lines().filter_map(|line| line.strip_prefix("$ "));
        let script = typed.collect::<Vec<_>>().join("\n");
        type_in(&TestDir::new(), &script).exits(i32::from(block.contains("FAILED")));
    }
}

#[test]
fn each_recipe_works() {
    let dir = TestDir::new();
    type_in(
        &dir,
        "zctrace --format json -o r.json true && cp r.json new.json && strace -o s.log true",
    )
    .exits(0);
    let cells = RECIPES
        .lines()
        .filter(|line| line.starts_with("| "))
        .flat_map(|line| line.split('`'));
    // That of `compare` takes seconds, and is shown in a terminal as well; `top` takes a terminal, and
    // -p a process that runs.
    let others = ["compare", "zctrace top", "-p "];
    let is_tried = |cell: &&str| !others.iter().any(|other| cell.contains(other));
    let recipes = cells
        .filter(|cell| cell.starts_with("zctrace "))
        .filter(is_tried);
    for recipe in recipes {
        let words = recipe
            .replace("\\|", "|")
            .replace("CMD", "true")
            .replace("NAME", "nobody");
        let code = type_in(&dir, &words).code;
        // What `diff` compares may differ.
        assert!(
            code == Some(0) || words.contains("diff") && code == Some(1),
            "{words}: {code:?}"
        );
    }
}

#[test]
fn the_files_of_toml_work() {
    let checks: Vec<&str> = blocks_of(CHECKS, "toml").collect();
    assert_eq!(checks.len(), 2);
    for checks in checks {
        type_in(&TestDir::with("zctrace.toml", checks), "zctrace check").exits(0);
    }
    let dependencies = blocks_of(TESTS, "toml").next().expect("the first one");
    // Those that the Rust test is compiled with here.
    let [needed, ours] = [dependencies, include_str!("../Cargo.toml")]
        .map(|text| text.parse::<toml::Table>().expect("TOML"));
    for name in needed["dev-dependencies"]
        .as_table()
        .expect("a table")
        .keys()
    {
        assert!(ours["dependencies"].get(name).is_some(), "{name}");
    }
}

#[test]
fn the_wrapper_for_nextest_keeps_a_report_of_each_test() {
    let wrapper = blocks_of(TESTS, "toml").last().expect("the last one");
    let wrapper: toml::Table = wrapper.parse().expect("TOML");
    let words = wrapper["scripts"]["wrapper"]["trace"]["command"].as_array();
    let words: Vec<&str> = words
        .into_iter()
        .flatten()
        .filter_map(|word| word.as_str())
        .collect();
    let [shell, option, script, name] = words.as_slice() else {
        panic!("{words:?}");
    };
    let dir = TestDir::new();
    // As nextest calls it.
    let test = "NEXTEST_TEST_NAME=copies::one";
    let call = |script: &str, test: &str| {
        let words = [shell, option, script, name].map(|word| shell_words::quote(word).into_owned());
        type_in(&dir, &format!("env {test} {} cp in out", words.join(" ")))
    };
    call(script, test).exits(0);
    let report = Report::from_json(&dir.read("reports/copies::one.json")).expect("a report");
    assert_eq!(report.command, ["cp", "in", "out"]);
    let page = TESTS.replace('\n', " ");
    let (_, check) = page
        .split_once("With `exec zctrace check")
        .expect("is there");
    let (check, _) = check.split_once('`').expect("its end");
    call(&format!("exec zctrace check{check}"), test).exits(0);
    let strict = check.replace("fsync.calls", "mmap.calls");
    call(&format!("exec zctrace check{strict}"), test).exits(1);
}

#[test]
fn the_steps_of_ci_work() {
    let check = "[[check]]\nname = \"writes nothing\"\ncommand = [\"true\"]\nexpect = [\"write.calls == 0\"]\n";
    let dir = TestDir::with("zctrace.toml", check);
    let yaml = blocks_of(CI, "yaml").flat_map(str::lines);
    let of_yaml = yaml.filter_map(|line| line.split_once("run: ").or(line.split_once("script: ")));
    let make = blocks_of(CHECKS, "make").flat_map(str::lines);
    let of_make = make.filter_map(|line| line.strip_prefix('\t'));
    let of_yaml = of_yaml
        .map(|(_, step)| step)
        .filter(|step| step.contains("./zctrace"));
    let steps: Vec<&str> = of_yaml.chain(of_make).collect();
    assert_eq!(steps.len(), 2, "{steps:?}");
    let steps = steps.join(" && ").replace("$$", "$");
    let start = "ln -s $(type -P zctrace) . && export GITHUB_STEP_SUMMARY=summary.md";
    let script = format!("{start} && {steps}");
    type_in(&dir, &script).exits(0);
    for written in ["summary.md", "junit.xml"] {
        assert!(dir.read(written).contains("writes nothing"), "{written}");
    }
}
