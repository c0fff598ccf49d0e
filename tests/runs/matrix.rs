//! Which kernel interface `std::io::copy` uses between which ends: every pair is run, traced, and reduced to one cell.
//!
//! ```text
//! ends ──copier std-io-copy, traced──▶ Report ──reduce──▶ cell ──▶ Markdown
//! ```

mod cell;
mod ends;
mod peer;

use std::fmt::Write as _;

use anyhow::{Context as _, Result};
use clap::Args;
use zctrace::report::Report;

use self::{
    ends::{Destination, Room, SOURCES, Source, WRAPPINGS, destinations},
    peer::Peer,
};
use crate::{
    places::Places,
    tools::{Stdout, Tools},
};

/// How the runs are traced.
#[derive(Args)]
pub struct Options {
    /// What traces them
    #[arg(long, default_value = "ebpf", value_parser = ["ebpf", "strace"])]
    backend: String,
}

/// Runs every pair and prints the tables.
pub fn run(options: &Options, tools: &Tools, places: &Places) -> Result<()> {
    let room = Room::new(places)?;
    let matrix = Matrix { tools, room: &room, backend: format!("--backend={}", options.backend) };
    let mut kernel = None;
    let mut text = String::new();

    let columns: Vec<Destination> = destinations();
    let heads = columns.iter().map(|column| column.name).collect::<Vec<_>>().join(" | ");
    writeln!(text, "| from \\ to | {heads} |\n|---|{}", "---|".repeat(columns.len()))?;
    for source in SOURCES {
        let mut cells = Vec::new();
        for destination in &columns {
            let report = matrix.copy(source, destination, &[]).with_context(|| pair(source.name, destination.name))?;
            cells.push(cell::of(&report, destination.kind));
            kernel = kernel.or(report.kernel);
        }
        writeln!(text, "| {} | {} |", source.name, cells.join(" | "))?;
    }

    writeln!(text, "\nFrom a regular file to another on the same filesystem, through wrappers:\n\n| wrapped | API |\n|---|---|")?;
    for wrapping in WRAPPINGS {
        let (source, destination) = (&SOURCES[0], &columns[0]);
        let report = matrix.copy(source, destination, wrapping.options).with_context(|| wrapping.name.to_owned())?;
        writeln!(text, "| {} | {} |", wrapping.name, cell::of(&report, destination.kind))?;
    }

    println!("std::io::copy of Rust {}, kernel {}\n", env!("ZC_RUST_VERSION"), kernel.unwrap_or_else(|| "unknown".to_owned()));
    print!("{text}");
    Ok(())
}

fn pair(source: &str, destination: &str) -> String {
    format!("{source} to {destination}")
}

/// What all cells share.
struct Matrix<'a> {
    tools: &'a Tools,
    room: &'a Room,
    backend: String,
}

impl Matrix<'_> {
    /// One traced copy.
    fn copy(&self, source: &Source, destination: &Destination, options: &[&str]) -> Result<Report> {
        let copier = self.tools.program("copier");
        let from = (source.spec)(self.room);
        let to = (destination.spec)(self.room);
        let feed = source.is_peer.then(|| Peer::feed(&copier, &from, self.room.input())).transpose()?;
        let sink = destination.is_peer.then(|| Peer::sink(&copier, &to)).transpose()?;
        // A peer on TCP tells which port it has.
        let from = feed.as_ref().map_or(from, |peer| peer.address().to_owned());
        let to = sink.as_ref().map_or(to, |peer| peer.address().to_owned());
        let mut command = vec![copier.display().to_string(), "std-io-copy".into(), "--from".into(), from, "--to".into(), to];
        command.extend(source.options.iter().chain(destination.options).chain(options).map(|&option| option.to_owned()));
        let report = self.tools.trace(&command, &[&self.backend, "--wait-all"], Stdout::Pipe, self.room.scratch())?;
        for peer in [feed, sink].into_iter().flatten() {
            peer.finish()?;
        }
        Ok(report)
    }
}
