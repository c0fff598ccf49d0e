//! What tracing one program costs the others on the machine.

use std::{
    io::Read as _,
    process::{Child, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result};

use super::{
    copy_blocks, floor,
    measure::{quiet, start},
    zctrace,
};

/// How many blocks the other program copies. It makes two calls for each.
const BLOCKS: u32 = 1_000_000;

/// (e) The CPU time of a program that is not traced, while another one is: least of all rounds.
pub(super) fn measure(rounds: u32) -> Result<()> {
    let tracers = [
        ("nothing", None),
        ("two empty tp_btf programs", Some(floor("")?)),
        ("zctrace", Some(zctrace("")?)),
    ];
    let mut least = [Duration::MAX; 3];
    for _ in 0..rounds {
        for ((_, tracer), least) in tracers.iter().zip(&mut least) {
            let _tracing = tracer.as_deref().map(Tracing::start).transpose()?;
            *least = start(&copy_blocks(BLOCKS))?.cpu.min(*least);
        }
    }
    let added =
        |cpu: Duration| (cpu.as_secs_f64() - least[0].as_secs_f64()) * 1e9 / f64::from(2 * BLOCKS);
    println!("## A bystander: {}\n", copy_blocks(BLOCKS).join(" "));
    println!("| what runs beside it | CPU, s | added, ns a call | added / floor's |");
    println!("|---|--:|--:|--:|");
    for ((name, _), cpu) in tracers.iter().zip(least) {
        let ratio = added(cpu) / added(least[1]);
        println!(
            "| {name} | {:.3} | {:.1} | {ratio:.2} |",
            cpu.as_secs_f64(),
            added(cpu)
        );
    }
    println!();
    Ok(())
}

/// A tracer that is attached, with a command that waits for the end of its input.
struct Tracing(Child);

impl Tracing {
    fn start(tracer: &[String]) -> Result<Self> {
        let mut command = quiet(tracer);
        command.args(["sh", "-c", "echo; read line"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let child = command.spawn();
        let mut tracing = Self(child.with_context(|| format!("cannot start {}", tracer[0]))?);
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
