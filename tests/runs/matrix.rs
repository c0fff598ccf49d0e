//! Which kernel interface `std::io::copy` uses between which ends: traces a copy for every pair,
//! and makes a cell of each report.
//!
//! ```text
//! ends ──copier std-io-copy, traced──▶ Report ──reduce──▶ cell ──▶ Markdown
//! ```

use std::{
    fmt::Write as _,
    fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use zctrace::report::{Report, Transfer};

use crate::{
    Stdout, Tools,
    places::{LoopDevice, Place, Places, write_input},
};

/// How the runs are traced.
#[derive(Args)]
pub struct Options {
    /// The backend that traces them
    #[arg(long, default_value = "ebpf", value_parser = ["ebpf", "strace"])]
    backend: String,
}

/// Runs every pair and prints the tables.
pub fn run(options: &Options, tools: &Tools, places: &Places) -> Result<()> {
    let room = Room::new(places)?;
    let matrix = Matrix {
        tools,
        room: &room,
        backend: format!("--backend={}", options.backend),
    };
    let mut kernel = None;
    let mut text = String::new();

    let columns: Vec<Destination> = destinations();
    let heads = columns
        .iter()
        .map(|column| column.name)
        .collect::<Vec<_>>()
        .join(" | ");
    writeln!(
        text,
        "| from \\ to | {heads} |\n|---|{}",
        "---|".repeat(columns.len())
    )?;
    for source in SOURCES {
        let mut cells = Vec::new();
        for destination in &columns {
            let report = matrix
                .copy(source, destination, &[])
                .with_context(|| pair(source.name, destination.name))?;
            cells.push(cell_of(&report, destination.kind));
            kernel = kernel.or(report.kernel);
        }
        writeln!(text, "| {} | {} |", source.name, cells.join(" | "))?;
    }

    writeln!(
        text,
        "\nFrom a regular file to another on the same filesystem, through wrappers:\n\n| wrapped | API |\n|---|---|"
    )?;
    for wrapping in WRAPPINGS {
        let (source, destination) = (&SOURCES[0], &columns[0]);
        let report = matrix
            .copy(source, destination, wrapping.options)
            .with_context(|| wrapping.name.to_owned())?;
        writeln!(
            text,
            "| {} | {} |",
            wrapping.name,
            cell_of(&report, destination.kind)
        )?;
    }

    println!(
        "std::io::copy of Rust {}, kernel {}\n",
        env!("ZC_RUST_VERSION"),
        kernel.unwrap_or_else(|| "unknown".to_owned())
    );
    print!("{text}");
    Ok(())
}

fn pair(source: &str, destination: &str) -> String {
    format!("{source} to {destination}")
}

/// What all copies share.
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
        let feed = source
            .is_peer
            .then(|| Peer::feed(&copier, &from, self.room.input()))
            .transpose()?;
        let sink = destination
            .is_peer
            .then(|| Peer::sink(&copier, &to))
            .transpose()?;
        // A peer on TCP has printed its port.
        let from = feed.as_ref().map_or(from, |peer| peer.address().to_owned());
        let to = sink.as_ref().map_or(to, |peer| peer.address().to_owned());
        let mut command = vec![
            copier.display().to_string(),
            "std-io-copy".into(),
            "--from".into(),
            from,
            "--to".into(),
            to,
        ];
        command.extend(
            source
                .options
                .iter()
                .chain(destination.options)
                .chain(options)
                .map(|&option| option.to_owned()),
        );
        let report = self.tools.trace(
            &command,
            &[&self.backend, "--wait-all"],
            Stdout::Pipe,
            self.room.scratch(),
        )?;
        for peer in [feed, sink].into_iter().flatten() {
            peer.finish()?;
        }
        Ok(report)
    }
}

/// The interfaces by which the copier moved bytes to an end of this kind.
fn cell_of(report: &Report, destination: &str) -> String {
    let copier = report
        .processes
        .iter()
        .find(|process| process.comm.as_deref() == Some("copier"));
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
    let attempts: Vec<String> = transfer
        .attempts
        .iter()
        .map(|attempt| format!("`{}` {}", attempt.syscall, attempt.errno))
        .collect();
    let api = format!("`{}`", transfer.api.name());
    if attempts.is_empty() {
        api
    } else {
        format!("{api} after {}", attempts.join(", "))
    }
}

/// The size of the input: several times what a pipe holds, and not a multiple of a buffer.
const INPUT_BYTES: u64 = 200_123;
/// The free space that is needed on each filesystem.
const ROOM_BYTES: u64 = 16 << 20;

/// The files and devices at the ends of the copies.
pub struct Room {
    ext4: PathBuf,
    memory: PathBuf,
    disk: PathBuf,
    source_device: LoopDevice,
    destination_device: LoopDevice,
}

impl Room {
    /// Makes all sources and devices.
    pub fn new(places: &Places) -> Result<Self> {
        let [ext4, memory, disk] = [
            places.directory(Place::Ext4, ROOM_BYTES)?,
            places.directory(Place::Memory, ROOM_BYTES)?,
            places.directory(Place::Disk, ROOM_BYTES)?,
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
        let (source_device, destination_device) =
            (image("source.image")?, image("destination.image")?);
        Ok(Self {
            ext4,
            memory,
            disk,
            source_device,
            destination_device,
        })
    }

    /// The file that sockets are fed from.
    pub fn input(&self) -> PathBuf {
        self.ext4.join("in")
    }

    /// The directory for reports.
    pub fn scratch(&self) -> &Path {
        &self.disk
    }
}

/// A source of copies.
pub struct Source {
    /// Its name in the table.
    pub name: &'static str,
    /// The copier's argument for it.
    pub spec: fn(&Room) -> String,
    /// Options that it needs.
    pub options: &'static [&'static str],
    /// Whether another process has to send the bytes.
    pub is_peer: bool,
}

/// A destination of copies.
pub struct Destination {
    /// Its name in the table.
    pub name: &'static str,
    /// Its kind in reports.
    pub kind: &'static str,
    /// The copier's argument for it.
    pub spec: fn(&Room) -> String,
    /// Options that it needs.
    pub options: &'static [&'static str],
    /// Whether another process has to receive the bytes.
    pub is_peer: bool,
}

/// A way to wrap both ends.
pub struct Wrapping {
    /// Its name in the table.
    pub name: &'static str,
    /// The copier's options for it.
    pub options: &'static [&'static str],
}

const fn source(name: &'static str, spec: fn(&Room) -> String) -> Source {
    Source {
        name,
        spec,
        options: &[],
        is_peer: false,
    }
}

const fn destination(
    name: &'static str,
    kind: &'static str,
    spec: fn(&Room) -> String,
) -> Destination {
    Destination {
        name,
        kind,
        spec,
        options: &[],
        is_peer: false,
    }
}

/// Every source.
pub const SOURCES: &[Source] = &[
    source("regular file (ext4)", |room| text(&room.ext4.join("in"))),
    source("regular file (tmpfs)", |room| text(&room.memory.join("in"))),
    source("empty file", |room| text(&room.ext4.join("empty"))),
    source("procfs file", |_| "/proc/version".into()),
    source("block device", |room| text(room.source_device.path())),
    Source {
        options: &["--size", "200123"],
        ..source("char device", |_| "/dev/zero".into())
    },
    source("memfd", |room| format!("memfd:{}", text(&room.input()))),
    source("pipe", |room| format!("pipe:{}", text(&room.input()))),
    Source {
        is_peer: true,
        ..source("unix stream", |room| {
            format!("unix:{}", text(&room.disk.join("from.socket")))
        })
    },
    Source {
        is_peer: true,
        ..source("tcp", |_| "tcp:127.0.0.1:0".into())
    },
];

/// Every destination.
pub fn destinations() -> Vec<Destination> {
    let file = |room: &Room| text(&room.ext4.join("out"));
    vec![
        destination("regular file (ext4)", "regular", file),
        destination("regular file (tmpfs)", "regular", |room| {
            text(&room.memory.join("out"))
        }),
        Destination {
            options: &["--append"],
            ..destination("regular file, O_APPEND", "regular", |room| {
                text(&room.ext4.join("log"))
            })
        },
        destination("block device", "block", |room| {
            text(room.destination_device.path())
        }),
        destination("char device", "char", |_| "/dev/null".into()),
        destination("memfd", "memfd", |_| "memfd:".into()),
        destination("pipe", "pipe", |_| "pipe:/dev/null".into()),
        Destination {
            is_peer: true,
            ..destination("unix stream", "unix-stream", |room| {
                format!("unix:{}", text(&room.disk.join("to.socket")))
            })
        },
        Destination {
            is_peer: true,
            ..destination("tcp", "tcp", |_| "tcp:127.0.0.1:0".into())
        },
    ]
}

/// Every way to wrap.
pub const WRAPPINGS: &[Wrapping] = &[
    Wrapping {
        name: "`BufReader`",
        options: &["--wrap", "bufreader"],
    },
    Wrapping {
        name: "`BufWriter`",
        options: &["--wrap", "bufwriter"],
    },
    Wrapping {
        name: "`BufReader`, `BufWriter`",
        options: &["--wrap", "bufreader,bufwriter"],
    },
    Wrapping {
        name: "`Take`",
        options: &["--wrap", "take"],
    },
    Wrapping {
        name: "`&mut`",
        options: &["--wrap", "mut"],
    },
    Wrapping {
        name: "`dyn Read`, `dyn Write`",
        options: &["--wrap", "dyn"],
    },
];

fn text(path: &Path) -> String {
    path.display().to_string()
}

/// `copier feed` or `copier sink`. It is killed when the value is dropped.
pub struct Peer {
    process: Child,
    address: String,
}

impl Peer {
    /// A process that sends the bytes of a file.
    pub fn feed(copier: &Path, address: &str, file: PathBuf) -> Result<Self> {
        Self::start(
            Command::new(copier)
                .args(["feed", address, "--from"])
                .arg(file),
        )
    }

    /// A process that receives all bytes.
    pub fn sink(copier: &Path, address: &str) -> Result<Self> {
        Self::start(Command::new(copier).args(["sink", address]))
    }

    /// The address on which it listens, as an argument of the copier.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Waits for its successful end.
    pub fn finish(mut self) -> Result<()> {
        let status = self.process.wait()?;
        ensure!(
            status.success(),
            "the other side of {} failed ({status})",
            self.address
        );
        Ok(())
    }

    /// Returns once it listens.
    fn start(command: &mut Command) -> Result<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut peer = Self {
            process: command.spawn().context("cannot start the copier")?,
            address: String::new(),
        };
        let stdout = peer
            .process
            .stdout
            .take()
            .context("the copier has no output")?;
        let mut lines = BufReader::new(stdout);
        let mut line = String::new();
        lines.read_line(&mut line)?;
        let Some(address) = line.trim_end().strip_prefix("listening ") else {
            bail!("the copier does not listen: {line:?}")
        };
        address.clone_into(&mut peer.address);
        // The pipe must stay open, so that it can write its last line.
        std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
        Ok(peer)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // Both fail if it has ended already, which does not matter.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
