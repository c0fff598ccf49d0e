//! The ends between which is copied, each as the copier names it.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::Result;

use crate::{
    device::LoopDevice,
    places::{Place, Places, write_input},
};

/// Bytes of what is copied: several times what a pipe holds, and no multiple of a buffer.
const INPUT_BYTES: u64 = 200_123;
/// Room on each filesystem.
const ROOM_BYTES: u64 = 16 << 20;

/// Where the ends lie.
pub struct Room {
    ext4: PathBuf,
    memory: PathBuf,
    disk: PathBuf,
    source_device: LoopDevice,
    destination_device: LoopDevice,
}

impl Room {
    /// Makes all files that are copied from.
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
        let (source_device, destination_device) = (image("source.image")?, image("destination.image")?);
        Ok(Self { ext4, memory, disk, source_device, destination_device })
    }

    /// What sockets are fed with.
    pub fn input(&self) -> PathBuf {
        self.ext4.join("in")
    }

    /// Where reports go.
    pub fn scratch(&self) -> &Path {
        &self.disk
    }
}

/// Where bytes come from.
pub struct Source {
    /// Its name in the table.
    pub name: &'static str,
    /// The copier's name for it.
    pub spec: fn(&Room) -> String,
    /// Options that it needs.
    pub options: &'static [&'static str],
    /// Whether somebody else has to give the bytes.
    pub is_peer: bool,
}

/// Where bytes go.
pub struct Destination {
    /// Its name in the table.
    pub name: &'static str,
    /// What zctrace calls its kind.
    pub kind: &'static str,
    /// The copier's name for it.
    pub spec: fn(&Room) -> String,
    /// Options that it needs.
    pub options: &'static [&'static str],
    /// Whether somebody else has to take the bytes.
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
    Source { name, spec, options: &[], is_peer: false }
}

const fn destination(name: &'static str, kind: &'static str, spec: fn(&Room) -> String) -> Destination {
    Destination { name, kind, spec, options: &[], is_peer: false }
}

/// Every source.
pub const SOURCES: &[Source] = &[
    source("regular file (ext4)", |room| text(&room.ext4.join("in"))),
    source("regular file (tmpfs)", |room| text(&room.memory.join("in"))),
    source("empty file", |room| text(&room.ext4.join("empty"))),
    source("procfs file", |_| "/proc/version".into()),
    source("block device", |room| text(room.source_device.path())),
    Source { options: &["--size", "200123"], ..source("char device", |_| "/dev/zero".into()) },
    source("memfd", |room| format!("memfd:{}", text(&room.input()))),
    source("pipe", |room| format!("pipe:{}", text(&room.input()))),
    Source { is_peer: true, ..source("unix stream", |room| format!("unix:{}", text(&room.disk.join("from.socket")))) },
    Source { is_peer: true, ..source("tcp", |_| "tcp:127.0.0.1:0".into()) },
];

/// Every destination.
pub fn destinations() -> Vec<Destination> {
    let file = |room: &Room| text(&room.ext4.join("out"));
    vec![
        destination("regular file (ext4)", "regular", file),
        destination("regular file (tmpfs)", "regular", |room| text(&room.memory.join("out"))),
        Destination {
            options: &["--append"],
            ..destination("regular file, O_APPEND", "regular", |room| text(&room.ext4.join("log")))
        },
        destination("block device", "block", |room| text(room.destination_device.path())),
        destination("char device", "char", |_| "/dev/null".into()),
        destination("memfd", "memfd", |_| "memfd:".into()),
        destination("pipe", "pipe", |_| "pipe:/dev/null".into()),
        Destination {
            is_peer: true,
            ..destination("unix stream", "unix-stream", |room| format!("unix:{}", text(&room.disk.join("to.socket"))))
        },
        Destination { is_peer: true, ..destination("tcp", "tcp", |_| "tcp:127.0.0.1:0".into()) },
    ]
}

/// Every way to wrap.
pub const WRAPPINGS: &[Wrapping] = &[
    Wrapping { name: "`BufReader`", options: &["--wrap", "bufreader"] },
    Wrapping { name: "`BufWriter`", options: &["--wrap", "bufwriter"] },
    Wrapping { name: "`BufReader`, `BufWriter`", options: &["--wrap", "bufreader,bufwriter"] },
    Wrapping { name: "`Take`", options: &["--wrap", "take"] },
    Wrapping { name: "`&mut`", options: &["--wrap", "mut"] },
    Wrapping { name: "`dyn Read`, `dyn Write`", options: &["--wrap", "dyn"] },
];

fn text(path: &Path) -> String {
    path.display().to_string()
}
