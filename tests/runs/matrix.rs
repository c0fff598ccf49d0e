//! Which kernel interface `std::io::copy` uses between which ends: traces a copy for every pair,
//! and makes a cell of each report.
//!
//! ```text
//! ends ──copier std-io-copy, traced──▶ Report ──reduce──▶ cell ──▶ Markdown
//! ```

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::Stdio,
};

use anyhow::{Context as _, Result};
use clap::Args;
use zc_tests::{Peer, program_beside};
use zctrace::report::{Report, Transfer};

use crate::{
    places::{LoopDevice, Places, RunPlace, write_input},
    trace,
};

/// How the runs are traced.
#[derive(Args)]
pub struct MatrixOptions {
    /// The backend that traces them
    #[arg(long, default_value = "ebpf", value_parser = ["ebpf", "strace"])]
    backend: String,
}

/// Runs every pair and prints the tables.
pub fn run(options: &MatrixOptions, places: &Places) -> Result<()> {
    let room = Room::new(places)?;
    let backend = format!("--backend={}", options.backend);
    let copy = |source: &MatrixEnd, destination: &MatrixEnd, options: &str| {
        copy(&room, source, destination, &[options, &backend])
            .with_context(|| format!("{} to {}", source.name, destination.name))
    };
    let mut kernel = None;
    let mut text = String::new();
    let heads: Vec<&str> = DESTINATIONS.iter().map(|column| column.name).collect();
    writeln!(text, "| from \\ to | {} |", heads.join(" | "))?;
    writeln!(text, "|---|{}", "---|".repeat(heads.len()))?;
    for source in &SOURCES {
        let mut cells = Vec::new();
        for destination in &DESTINATIONS {
            let report = copy(source, destination, "")?;
            cells.push(cell_of(&report, destination.kind));
            kernel = kernel.or(report.kernel);
        }
        writeln!(text, "| {} | {} |", source.name, cells.join(" | "))?;
    }
    let wrapped = "From a regular file to another on the same filesystem, through wrappers:";
    writeln!(text, "\n{wrapped}\n\n| wrapped | API |\n|---|---|")?;
    for (name, wrap) in WRAPPINGS {
        let destination = &DESTINATIONS[0];
        let report = copy(&SOURCES[0], destination, &format!("--wrap={wrap}"))?;
        writeln!(text, "| {name} | {} |", cell_of(&report, destination.kind))?;
    }
    let kernel = kernel.unwrap_or_else(|| "unknown".to_owned());
    let rust = env!("ZC_RUST_VERSION");
    print!("std::io::copy of Rust {rust}, kernel {kernel}\n\n{text}");
    Ok(())
}

/// One traced copy, with an option for the copier, and one for zctrace.
fn copy(
    room: &Room,
    source: &MatrixEnd,
    destination: &MatrixEnd,
    [option, backend]: &[&str; 2],
) -> Result<Report> {
    let (from, to) = (room.spec(source), room.spec(destination));
    let input = room.input();
    let peer = |spec: &str, arguments: &[&str]| {
        let is_socket = spec.starts_with("unix:") || spec.starts_with("tcp:");
        let peer = is_socket.then(|| Peer::start(arguments));
        peer.transpose()
    };
    let feed = peer(&from, &["feed", &from, "--from", &input])?;
    let sink = peer(&to, &["sink", &to])?;
    // A peer on TCP has printed its port.
    let from = feed.as_ref().map_or(&from, |peer| &peer.address);
    let to = sink.as_ref().map_or(&to, |peer| &peer.address);
    let mut command = vec![text(&program_beside("copier"))];
    command.extend(["std-io-copy", "--from", from, "--to", to].map(str::to_owned));
    let options = [source.option, destination.option, option];
    command.extend(
        options
            .iter()
            .filter(|option| !option.is_empty())
            .map(ToString::to_string),
    );
    let report = trace(
        &command,
        &["--format=json", backend, "--wait-all"],
        Stdio::piped(),
        &room.disk,
    )?;
    for peer in [feed, sink].into_iter().flatten() {
        peer.finish()?;
    }
    Ok(Report::from_json(&report)?)
}

/// The interfaces by which the copier moved bytes to an end of this kind.
fn cell_of(report: &Report, destination: &str) -> String {
    let mut processes = report.processes.iter();
    let copier = processes.find(|process| process.comm.as_deref() == Some("copier"));
    let transfers = copier
        .into_iter()
        .flat_map(|process| report.transfers_of(process));
    let mut cells: Vec<String> = transfers
        .filter(|transfer| transfer.to.kind.as_deref() == Some(destination))
        .map(describe)
        .collect();
    cells.dedup();
    if cells.is_empty() {
        "nothing".to_owned()
    } else {
        cells.join(", ")
    }
}

fn describe(transfer: &Transfer) -> String {
    let attempts = transfer.attempts.iter();
    let attempts: Vec<String> = attempts
        .map(|attempt| format!("`{}` {}", attempt.syscall, attempt.errno))
        .collect();
    let api = transfer.api.name();
    if attempts.is_empty() {
        format!("`{api}`")
    } else {
        format!("`{api}` after {}", attempts.join(", "))
    }
}

/// The size of the input: several times what a pipe holds, and not a multiple of a buffer.
const INPUT_BYTES: u64 = 200_123;
/// The free space that is needed on each filesystem.
const ROOM_BYTES: u64 = 16 << 20;

/// The files and devices at the ends of the copies.
struct Room {
    /// The names of places in the specs of ends, and where these are.
    places: [(&'static str, String); 5],
    disk: PathBuf,
    _devices: [LoopDevice; 2],
}

impl Room {
    /// Makes all sources and devices.
    fn new(places: &Places) -> Result<Self> {
        let [ext4, memory, disk] = [
            places.directory(RunPlace::Ext4, ROOM_BYTES)?,
            places.directory(RunPlace::Memory, ROOM_BYTES)?,
            places.directory(RunPlace::Disk, ROOM_BYTES)?,
        ];
        for directory in [&ext4, &memory] {
            write_input(&directory.join("in"), INPUT_BYTES)?;
        }
        fs::write(ext4.join("empty"), b"")?;
        let image = |name: &str| -> Result<LoopDevice> {
            let path = disk.join(name);
            // A device consists of whole sectors.
            write_input(&path, INPUT_BYTES.next_multiple_of(4096))?;
            LoopDevice::over(&path)
        };
        let (source, destination) = (image("source.image")?, image("destination.image")?);
        let places = [
            ("{ext4}", text(&ext4)),
            ("{memory}", text(&memory)),
            ("{disk}", text(&disk)),
            ("{source}", text(source.path())),
            ("{destination}", text(destination.path())),
        ];
        Ok(Self {
            places,
            disk,
            _devices: [source, destination],
        })
    }

    /// The copier's argument for an end.
    fn spec(&self, end: &MatrixEnd) -> String {
        let places = self.places.iter();
        places.fold(end.spec.to_owned(), |spec, (name, place)| {
            spec.replace(name, place)
        })
    }

    /// The file that sockets are fed from.
    fn input(&self) -> String {
        self.spec(&SOURCES[0])
    }
}

/// A source or destination of copies.
struct MatrixEnd {
    /// Its name in the table.
    name: &'static str,
    /// Its kind in reports.
    kind: &'static str,
    /// The copier's argument for it, with names of places.
    spec: &'static str,
    /// An option that it needs.
    option: &'static str,
}

impl MatrixEnd {
    const fn new(name: &'static str, kind: &'static str, spec: &'static str) -> Self {
        Self {
            name,
            kind,
            spec,
            option: "",
        }
    }

    const fn with(self, option: &'static str) -> Self {
        Self { option, ..self }
    }
}

/// Every source. Their kinds are not needed.
const SOURCES: [MatrixEnd; 10] = [
    MatrixEnd::new("regular file (ext4)", "", "{ext4}/in"),
    MatrixEnd::new("regular file (tmpfs)", "", "{memory}/in"),
    MatrixEnd::new("empty file", "", "{ext4}/empty"),
    MatrixEnd::new("procfs file", "", "/proc/version"),
    MatrixEnd::new("block device", "", "{source}"),
    MatrixEnd::new("char device", "", "/dev/zero").with("--size=200123"),
    MatrixEnd::new("memfd", "", "memfd:{ext4}/in"),
    MatrixEnd::new("pipe", "", "pipe:{ext4}/in"),
    MatrixEnd::new("unix stream", "", "unix:{disk}/from.socket"),
    MatrixEnd::new("tcp", "", "tcp:127.0.0.1:0"),
];

/// Every destination.
const DESTINATIONS: [MatrixEnd; 9] = [
    MatrixEnd::new("regular file (ext4)", "regular", "{ext4}/out"),
    MatrixEnd::new("regular file (tmpfs)", "regular", "{memory}/out"),
    MatrixEnd::new("regular file, O_APPEND", "regular", "{ext4}/log").with("--append"),
    MatrixEnd::new("block device", "block", "{destination}"),
    MatrixEnd::new("char device", "char", "/dev/null"),
    MatrixEnd::new("memfd", "memfd", "memfd:"),
    MatrixEnd::new("pipe", "pipe", "pipe:/dev/null"),
    MatrixEnd::new("unix stream", "unix-stream", "unix:{disk}/to.socket"),
    MatrixEnd::new("tcp", "tcp", "tcp:127.0.0.1:0"),
];

/// Every way to wrap both ends, with the copier's name for it.
const WRAPPINGS: [(&str, &str); 6] = [
    ("`BufReader`", "bufreader"),
    ("`BufWriter`", "bufwriter"),
    ("`BufReader`, `BufWriter`", "bufreader,bufwriter"),
    ("`Take`", "take"),
    ("`&mut`", "mut"),
    ("`dyn Read`, `dyn Write`", "dyn"),
];

fn text(path: &Path) -> String {
    path.display().to_string()
}
