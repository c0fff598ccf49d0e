//! Many reports as one table: the figures of 200 runs over 20 commits, of which one brought an fsync
//! for each round of its loop. The questions are those of docs/how-to/ci.md.

use serde_json::{Value, json};
use zctrace::{Command, report::Report};

use crate::harness::{Finished, TestDir, program, zctrace};

const PAGE: &str = include_str!("../../docs/how-to/ci.md");
const COMMITS: usize = 20;
const RUNS_OF_COMMIT: usize = 10;
/// The commit that brought it.
const CULPRIT: usize = 12;

/// The last commit calls fsync no more.
const fn rounds_of(commit: usize) -> usize {
    match commit {
        0..CULPRIT => 1,
        19 => 0,
        _ => 3,
    }
}

/// How often each commit calls fsync, as the page asks, and in how many runs the calls do not add up.
const IN_DUCKDB: &str = "
import duckdb, json, sys
rows = duckdb.sql(sys.argv[1]).fetchall()
sums = duckdb.sql(\"\"\"
    SELECT count(*) FROM (
        SELECT run, sum(calls) FILTER (line = 'run') AS total, sum(calls) FILTER (line = 'call') AS calls
        FROM 'runs.ndjson' GROUP BY run HAVING total <> calls)
\"\"\").fetchall()[0][0]
print(json.dumps([rows, sums]))";

/// The same with jq.
const IN_JQ: &str = "
def calls(f): map(select(f).calls) | add;
group_by(.run) as $runs
| ($runs | map({ labels: .[0].labels, n: (calls(.line == \"call\" and .name == \"fsync\") // 0) })
  | group_by(.labels) | map([.[0].labels.commit, .[0].labels.name, (map(.n) | sort | .[length / 2])])) as $rows
| [$rows, ($runs | map(select(calls(.line == \"run\") != calls(.line == \"call\"))) | length)]";

fn run(rounds: usize) -> Report {
    let mut command = Command::new(match rounds {
        0 => "true",
        _ => env!("CARGO_BIN_EXE_workload"),
    });
    let report = command.args(["sync", &rounds.to_string()]).report();
    report.expect("is traced")
}

/// A directory with the reports of all runs.
fn series() -> TestDir {
    let dir = TestDir::new();
    for commit in 0..COMMITS {
        for number in 0..RUNS_OF_COMMIT {
            let mut report = run(rounds_of(commit));
            let labels = [
                ("commit", format!("c{commit:02}")),
                ("name", "sync".to_owned()),
            ];
            let labels = labels.map(|(name, value)| (name.to_owned(), value));
            report.labels.extend(labels);
            let text = serde_json::to_string(&report).expect("is data");
            dir.write(format!("{commit:02}-{number}.json"), text);
        }
    }
    dir
}

/// Shows all reports together.
fn all(dir: &TestDir, format: &str) -> Finished {
    let zctrace = zctrace().dir(dir.path());
    let script = "exec \"$@\" [0-9]*.json";
    let zctrace = zctrace.by_script(script);
    zctrace.options(&["report", "--format", format]).finish()
}

/// What `DuckDB` answers; if it is not here, jq.
fn ask(dir: &TestDir) -> Value {
    let (_, query) = PAGE.split_once("duckdb -c \"").expect("the query");
    let query = query.split('"').next().unwrap_or_default();
    let duckdb = program("python3").args(&["-c", IN_DUCKDB, query]);
    let answer = duckdb.dir(dir.path()).finish();
    if !answer.stderr.contains("No module named 'duckdb'") {
        return answer.exits(0).json();
    }
    eprintln!("DuckDB: NOT RUN, python3 has no module duckdb; jq instead");
    let jq = program("jq").args(&["-s", IN_JQ, "runs.ndjson"]);
    jq.dir(dir.path()).finish().exits(0).json()
}

#[test]
fn a_table_of_many_runs_names_the_commit_that_changed_a_count() {
    let dir = series();
    let lines = all(&dir, "ndjson");
    dir.write("runs.ndjson", lines.exits(0).text());
    let rows: Vec<Value> = (0..COMMITS)
        .map(|commit| json!([format!("c{commit:02}"), "sync", rounds_of(commit)]))
        .collect();
    // No run whose calls do not add up.
    assert_eq!(ask(&dir), json!([rows, 0]));
    let benchmarks = all(&dir, "bencher").exits(0).says_only("").json();
    let measures = &benchmarks["sync"];
    let fsyncs = json!({ "value": 1, "lower_value": 0, "upper_value": 3 });
    assert_eq!(measures["fsync.calls"], fsyncs);
    assert!(measures["time.wall"]["value"].as_u64() > Some(0));
    let refused = all(&dir, "table");
    refused.exits(125).says("--format ndjson or bencher");
}
