//! What tracing one program costs the others on the machine.

use std::{
    io::Read as _,
    process::{Child, Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result};

use super::{copy_blocks, floor, measure::start, zctrace};

/// How many blocks the other program copies. It makes two calls for each.
const BLOCKS: u32 = 1_000_000;

/// (e) The CPU time of a program that is not traced, while another one is.
pub(super) fn measure(rounds: u32) -> Result<()> {
    let tracers = [
        ("nothing", None),
        ("two empty tp_btf programs", Some(floor(&[])?)),
        ("zctrace", Some(zctrace()?)),
    ];
    let mut least = [Duration::MAX; 3];
    for _ in 0..rounds {
        for ((_, tracer), least) in tracers.iter().zip(&mut least) {
            let _tracing = tracer.as_deref().map(Tracing::start).transpose()?;
            *least = start(&copy_blocks(BLOCKS))?.cpu.min(*least);
        }
    }
    println!(
        "## A bystander: {}, least of {rounds} rounds\n",
        copy_blocks(BLOCKS).join(" ")
    );
    println!("{}", table(tracers.map(|(name, _)| name), least));
    Ok(())
}

/// What is added to a call of the program that is not traced. The first row is that program alone,
/// the second one the floor.
fn table(names: [&str; 3], cpu: [Duration; 3]) -> String {
    let added_ns =
        cpu.map(|each| (each.as_secs_f64() - cpu[0].as_secs_f64()) * 1e9 / f64::from(2 * BLOCKS));
    let rows = names
        .iter()
        .zip(cpu)
        .zip(added_ns)
        .map(|((name, cpu), ns)| {
            let [cpu, ratio] = [cpu.as_secs_f64(), ns / added_ns[1]];
            format!("| {name} | {cpu:.3} | {ns:.1} | {ratio:.2} |")
        });
    let head = [
        "| what runs beside it | CPU, s | added, ns a call | added / floor's |",
        "|---|--:|--:|--:|",
    ]
    .map(str::to_owned);
    head.into_iter()
        .chain(rows)
        .map(|line| line + "\n")
        .collect()
}

/// A tracer that is attached, with a command that waits for the end of its input.
struct Tracing(Child);

impl Tracing {
    fn start(tracer: &[String]) -> Result<Self> {
        let mut command = Command::new(&tracer[0]);
        command
            .args(&tracer[1..])
            .args(["sh", "-c", "echo; read line"]);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut tracing = Self(
            command
                .spawn()
                .with_context(|| format!("cannot start {}", tracer[0]))?,
        );
        // Tracers attach before they start their command.
        let output = tracing.0.stdout.as_mut().context("its output is a pipe")?;
        output
            .read_exact(&mut [0])
            .context("the tracer does not start its command")?;
        Ok(tracing)
    }
}

impl Drop for Tracing {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_what_is_added_to_a_call_and_its_ratio_to_the_floor() {
        let table = table(
            ["nothing", "floor", "zctrace"],
            [200, 280, 300].map(Duration::from_millis),
        );
        assert!(
            table.ends_with(
                "| nothing | 0.200 | 0.0 | 0.00 |\n| floor | 0.280 | 40.0 | 1.00 |\n| zctrace | 0.300 | 50.0 | 1.25 |\n"
            ),
            "{table}"
        );
    }
}
