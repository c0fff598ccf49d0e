//! What is read from real logs. `ZC_UPDATE_GOLDEN=1` writes it anew, for review.

use std::{env, fmt::Write, fs};

use super::{logs, read};
use crate::trace::{Process, Row, Trace};

#[test]
fn golden() {
    let is_update = env::var_os("ZC_UPDATE_GOLDEN").is_some();
    let mut different = Vec::new();
    for log in logs() {
        let (trace, unparsed) = read(&log);
        let found = summary(&trace, &unparsed);
        let expected = log.with_extension("expected");
        if is_update {
            fs::write(&expected, &found).expect("can be written");
        }
        if fs::read_to_string(&expected).unwrap_or_default() != found {
            different.push(format!("{}\n{found}", log.display()));
        }
    }
    assert!(different.is_empty(), "set ZC_UPDATE_GOLDEN=1 to accept what is found now:\n{}", different.join("\n"));
}

fn summary(trace: &Trace, unparsed: &[String]) -> String {
    let mut text = String::new();
    let mut line = |line: String| writeln!(text, "{line}").expect("a string takes all");
    line(format!("command {:?}", trace.command));
    line(format!("started {}", optional(trace.started_at.is_some().then_some("known"))));
    line(format!("wall {}", optional(trace.wall_ns)));
    line(format!("exit {:?}", trace.exit));
    for (loss, count) in &trace.losses {
        line(format!("lost {} {count}", loss.name()));
    }
    for note in &trace.notes {
        line(format!("note {note}"));
    }
    for unparsed in unparsed {
        line(format!("unparsed {unparsed:?}"));
    }
    for process in &trace.processes {
        add_process(process, &mut line);
    }
    text
}

fn add_process(process: &Process, line: &mut impl FnMut(String)) {
    let Process { pid, ppid, comm, exe, command, state, .. } = process;
    line(String::new());
    line(format!("process {pid} of {} comm {} {state:?}", optional(*ppid), optional(comm.as_ref())));
    line(format!("  exe {} command {command:?}", optional(exe.as_ref())));
    for thread in &process.threads {
        line(format!("  thread {}", thread.tid));
        thread.rows.iter().for_each(|row| line(format!("    {}", describe(row))));
    }
}

fn describe(row: &Row) -> String {
    let Row { call, calls, errnos, errors, unfinished, bytes, requested_bytes, times, .. } = row;
    let mut text = format!("{} {} calls {calls}", call.name, call.abi.name());
    if *errors > 0 {
        write!(text, " errors {errors} {errnos:?}").expect("a string takes all");
    }
    if *unfinished > 0 {
        write!(text, " unfinished {unfinished}").expect("a string takes all");
    }
    write!(text, " bytes {} requested {}", optional(*bytes), optional(*requested_bytes)).expect("a string takes all");
    if let Some(times) = times {
        assert_eq!(times.histogram.count(), *calls, "every call was timed");
        write!(text, " ns {} {}..{}", times.total_ns, times.min_ns, times.max_ns).expect("a string takes all");
    }
    text
}

fn optional(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "?".to_owned(), |value| value.to_string())
}
