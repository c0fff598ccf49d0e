//! Reads what unwinding needs of a program or library: where its parts are in memory, and its unwind tables.

use std::{
    fs::File,
    io::{self, Read as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    sync::Arc,
};

use object::{
    Object as _, ObjectSection as _, ObjectSegment as _, ReadCache, SegmentFlags,
    elf::{EM_AARCH64, EM_X86_64, PF_X},
    read::elf::{ElfFile64, FileHeader as _},
};

use rustix::fs::OFlags;

use crate::spaces::CodeFile;

/// As a flag for `open`.
const NONBLOCK: i32 = OFlags::NONBLOCK.bits().cast_signed();

/// The most bytes of an unwind table. Those of the largest programs have some tens of MiB.
const MOST_TABLE_BYTES: u64 = 256 << 20;

/// A section of a file, as it is in the file.
#[derive(Debug, Clone, Default)]
pub struct Section {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Its address, as the file states it.
    pub address: u64,
}

/// A part of a file that is mapped to be executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Segment {
    offset: u64,
    address: u64,
    bytes: u64,
}

/// What is known of a program or library.
#[derive(Debug, Clone, Default)]
pub struct Module {
    /// The parts with code.
    segments: Vec<Segment>,
    /// Where the addresses of the file begin and end.
    addresses: (u64, u64),
    /// Where it begins to run; 0 if it does not.
    entry: u64,
    /// The machine that its code is for (`e_machine`).
    machine: u16,
    /// The unwind table.
    pub eh_frame: Option<Section>,
    /// The index of that table.
    pub eh_frame_hdr: Option<Section>,
    /// The unwind table for debuggers, if there is no other.
    pub debug_frame: Option<Section>,
    /// Whether all its functions have frame pointers: those of Go's compiler have, on both architectures (golang/go
    /// `src/cmd/compile/abi-internal.md`, since 1.7 and 1.12).
    pub has_frame_pointers: bool,
    /// The address of the section `.text`, which addresses in the tables may be relative to.
    pub text: u64,
    /// The address of the section `.got`, likewise.
    pub got: u64,
}

/// Why a file cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unusable {
    /// It is gone, cannot be read, or is no program for this machine.
    Gone,
    /// At its path there is another file now.
    Replaced,
}

impl Module {
    /// Reads a file, if it is still the one that was mapped.
    pub fn read(file: &CodeFile) -> Result<Arc<Self>, Unusable> {
        let opened = file.open()?;
        let module = Self::parse(opened).map_err(|_| Unusable::Gone)?;
        let is_for_this_machine = module.machine == if cfg!(target_arch = "aarch64") { EM_AARCH64 } else { EM_X86_64 };
        if is_for_this_machine { Ok(Arc::new(module)) } else { Err(Unusable::Gone) }
    }

    fn parse(file: File) -> io::Result<Self> {
        let cache = ReadCache::new(file);
        let elf = ElfFile64::<object::Endianness, _>::parse(&cache).map_err(io::Error::other)?;
        let mut module = Self { machine: elf.elf_header().e_machine(elf.endian()), addresses: (u64::MAX, 0), ..Self::default() };
        for segment in elf.segments() {
            let (offset, bytes) = segment.file_range();
            let (start, end) = &mut module.addresses;
            (*start, *end) = ((*start).min(segment.address()), (*end).max(segment.address().saturating_add(segment.size())));
            if matches!(segment.flags(), SegmentFlags::Elf { p_flags } if p_flags & PF_X != 0) {
                module.segments.push(Segment { offset, address: segment.address(), bytes });
            }
        }
        let section = |name: &str| {
            let section = elf.section_by_name(name)?;
            // A file may be sparse, and state any size.
            let range = section.compressed_file_range().ok()?;
            if range.compressed_size.max(range.uncompressed_size) > MOST_TABLE_BYTES {
                return None;
            }
            let bytes = section.uncompressed_data().ok()?.into_owned();
            (!bytes.is_empty()).then_some(Section { bytes, address: section.address() })
        };
        let address = |name: &str| elf.section_by_name(name).map_or(0, |section| section.address());
        module.eh_frame = section(".eh_frame");
        module.eh_frame_hdr = section(".eh_frame_hdr");
        module.debug_frame = module.eh_frame.is_none().then(|| section(".debug_frame")).flatten();
        module.has_frame_pointers = elf.section_by_name(".gopclntab").is_some();
        (module.text, module.got, module.entry) = (address(".text"), address(".got"), elf.entry());
        Ok(module)
    }

    /// What has to be added to an address of the file to get an address in memory, if the bytes of the file from `offset` on are mapped at
    /// `start`. `None` if there is no code in that part of the file.
    pub fn bias(&self, start: u64, offset: u64) -> Option<u64> {
        let page = u64::try_from(rustix::param::page_size()).ok()?;
        let holds =
            |segment: &&Segment| (segment.offset & !(page - 1)..segment.offset.saturating_add(segment.bytes)).contains(&offset);
        let segment = self.segments.iter().find(holds)?;
        Some(start.wrapping_sub(offset).wrapping_add(segment.offset).wrapping_sub(segment.address))
    }

    /// The address of the byte of the file at this offset. `None` if there is no code.
    pub fn address_at(&self, offset: u64) -> Option<u64> {
        let within = |segment: &Segment| offset.checked_sub(segment.offset).filter(|place| *place < segment.bytes);
        self.segments.iter().find_map(|segment| Some(segment.address.wrapping_add(within(segment)?)))
    }

    /// Whether each part with code begins at a page of the file. That is so for programs that GNU ld linked, and not for those of lld.
    pub fn begins_at_pages(&self) -> bool {
        let page = u64::try_from(rustix::param::page_size()).unwrap_or(4096);
        self.segments.iter().all(|segment| segment.offset.is_multiple_of(page))
    }

    /// Whether the file begins to run with the function at this address. It is written in assembler, often without an unwind table, and
    /// short (`_start` in `sysdeps/x86_64/start.S`, `_dl_start_user` in `sysdeps/x86_64/dl-machine.h` of glibc).
    pub fn begins_at(&self, address: u64) -> bool {
        const MOST_BYTES: u64 = 64;
        self.entry != 0 && address.checked_sub(self.entry).is_some_and(|bytes| bytes < MOST_BYTES)
    }

    /// Where the file begins and ends in memory, with this bias.
    pub fn range(&self, bias: u64) -> (u64, u64) {
        let (start, end) = self.addresses;
        (start.wrapping_add(bias), end.wrapping_add(bias))
    }
}

impl CodeFile {
    /// Opens the file, if it is still the one that was mapped.
    fn open(&self) -> Result<File, Unusable> {
        // Opening a pipe or a device could wait or have effects.
        let metadata = std::fs::metadata(&self.path).map_err(|_| Unusable::Gone)?;
        if !metadata.is_file() {
            return Err(Unusable::Gone);
        }
        // Nor may it wait if it has become a pipe since.
        let mut options = File::options();
        let mut opened = options.read(true).custom_flags(NONBLOCK).open(&self.path).map_err(|_| Unusable::Gone)?;
        let metadata = opened.metadata().map_err(|_| Unusable::Gone)?;
        if !self.is(metadata.dev(), metadata.ino()) {
            return Err(Unusable::Replaced);
        }
        let mut magic = [0; 4];
        match opened.read_exact(&mut magic) {
            Ok(()) if magic == *b"\x7fELF" => Ok(opened),
            _ => Err(Unusable::Gone),
        }
    }

    /// Whether the path still leads to the file that was mapped.
    pub fn is_there(&self) -> bool {
        self.open().is_ok()
    }

    /// Whether a file with this device and inode is the one that was mapped. For files of btrfs and overlay, the device that `stat` shows is
    /// not that of the filesystem, so it is not compared.
    fn is(&self, device: u64, inode: u64) -> bool {
        let has_own_devices = matches!(self.filesystem.as_deref(), Some("btrfs" | "overlay"));
        inode == self.inode && (device == self.device || has_own_devices)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> CodeFile {
        let path = std::env::current_exe().expect("this test is a program");
        let metadata = path.metadata().expect("it is there");
        CodeFile {
            path: path.to_str().expect("it has a plain name").into(),
            device: metadata.dev(),
            inode: metadata.ino(),
            filesystem: None,
        }
    }

    #[test]
    fn this_program_has_code_and_an_unwind_table() {
        let module = Module::read(&own()).expect("it is a program");
        assert!(module.eh_frame.is_some() && module.eh_frame_hdr.is_some() && module.debug_frame.is_none());
        let segment = module.segments[0];
        let bias = module.bias(0x5000_0000_0000, segment.offset & !0xfff).expect("there is code");
        let (start, end) = module.range(bias);
        assert!(start <= 0x5000_0000_0000 && end > 0x5000_0000_0000 + segment.bytes, "{start:x} {end:x}");
        assert_eq!(module.bias(0, 1 << 40), None);
    }

    #[test]
    fn a_file_that_was_replaced_is_not_used() {
        let other = CodeFile { inode: own().inode + 1, ..own() };
        assert_eq!(Module::read(&other).err(), Some(Unusable::Replaced));
        assert_eq!(Module::read(&CodeFile { device: own().device + 1, ..own() }).err(), Some(Unusable::Replaced));
        let on_btrfs = CodeFile { device: own().device + 1, filesystem: Some("btrfs".into()), ..own() };
        assert!(Module::read(&on_btrfs).is_ok(), "stat shows another device there");
    }

    #[test]
    fn a_file_that_is_gone_or_no_program_is_not_used() {
        for path in ["/nowhere/at/all", "/etc/passwd", "/dev/null", "/proc"] {
            let metadata = std::fs::metadata(path).ok();
            let (device, inode) = metadata.map_or((0, 0), |metadata| (metadata.dev(), metadata.ino()));
            let file = CodeFile { path: path.into(), device, inode, filesystem: None };
            assert_eq!(Module::read(&file).err(), Some(Unusable::Gone), "{path}");
        }
    }
}
