//! Reads what unwinding needs of a program or library: where its parts are in memory, and its
//! unwind tables.

use std::{fs::File, io, sync::Arc};

use object::{
    Object as _, ObjectSection as _, ObjectSegment as _, ReadCache, SegmentFlags,
    elf::{EM_AARCH64, EM_X86_64, PF_X},
    read::elf::{ElfFile64, FileHeader as _},
};

use crate::file::{MappedFile, Unusable};

/// The most bytes of an unwind table. Those of the largest programs have some tens of MiB.
const MAX_TABLE_BYTES: u64 = 256 << 20;

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
    /// The unwind table for debuggers. A static program has both if its C library was compiled
    /// without the other, as musl is.
    pub debug_frame: Option<Section>,
    /// Whether all its functions have frame pointers: those of Go's compiler have, on both
    /// architectures (golang/go `src/cmd/compile/abi-internal.md`, since 1.7 and 1.12).
    pub has_frame_pointers: bool,
    /// The address of the section `.text`, which addresses in the tables may be relative to.
    pub text: u64,
    /// The address of the section `.got`, likewise.
    pub got: u64,
    /// The build ID.
    pub build_id: Option<Vec<u8>>,
}

impl Module {
    /// Reads a file, if it is still the one that was mapped.
    pub fn read(file: &MappedFile) -> Result<Arc<Self>, Unusable> {
        let opened = file.open(None)?;
        let module = Self::parse(opened).map_err(|_| Unusable::Gone)?;
        let is_for_this_machine = module.machine
            == if cfg!(target_arch = "aarch64") {
                EM_AARCH64
            } else {
                EM_X86_64
            };
        if is_for_this_machine {
            Ok(Arc::new(module))
        } else {
            Err(Unusable::Gone)
        }
    }

    fn parse(file: File) -> io::Result<Self> {
        let cache = ReadCache::new(file);
        let elf = ElfFile64::<object::Endianness, _>::parse(&cache).map_err(io::Error::other)?;
        let mut module = Self {
            machine: elf.elf_header().e_machine(elf.endian()),
            addresses: (u64::MAX, 0),
            ..Self::default()
        };
        for segment in elf.segments() {
            let (offset, bytes) = segment.file_range();
            let (start, end) = &mut module.addresses;
            (*start, *end) = (
                (*start).min(segment.address()),
                (*end).max(segment.address().saturating_add(segment.size())),
            );
            if matches!(segment.flags(), SegmentFlags::Elf { p_flags } if p_flags & PF_X != 0) {
                module.segments.push(Segment {
                    offset,
                    address: segment.address(),
                    bytes,
                });
            }
        }
        let section = |name: &str| {
            let section = elf.section_by_name(name)?;
            // A file may be sparse, and state any size.
            let range = section.compressed_file_range().ok()?;
            if range.compressed_size.max(range.uncompressed_size) > MAX_TABLE_BYTES {
                return None;
            }
            let bytes = section.uncompressed_data().ok()?.into_owned();
            (!bytes.is_empty()).then_some(Section {
                bytes,
                address: section.address(),
            })
        };
        let address = |name: &str| {
            elf.section_by_name(name)
                .map_or(0, |section| section.address())
        };
        module.eh_frame = section(".eh_frame");
        module.eh_frame_hdr = section(".eh_frame_hdr");
        module.debug_frame = section(".debug_frame");
        module.has_frame_pointers = elf.section_by_name(".gopclntab").is_some();
        module.build_id = elf.build_id().ok().flatten().map(<[u8]>::to_vec);
        (module.text, module.got, module.entry) = (address(".text"), address(".got"), elf.entry());
        Ok(module)
    }

    /// What has to be added to an address of the file to get an address in memory, if the bytes of
    /// the file from `offset` on are mapped at `start`. `None` if there is no code in that part of
    /// the file.
    pub fn bias(&self, start: u64, offset: u64) -> Option<u64> {
        let page = u64::try_from(rustix::param::page_size()).ok()?;
        let holds = |segment: &&Segment| {
            (segment.offset & !(page - 1)..segment.offset.saturating_add(segment.bytes))
                .contains(&offset)
        };
        let segment = self.segments.iter().find(holds)?;
        Some(
            start
                .wrapping_sub(offset)
                .wrapping_add(segment.offset)
                .wrapping_sub(segment.address),
        )
    }

    /// Whether the file begins to run with the function at this address. It is written in
    /// assembler, often without an unwind table, and short (`_start` in `sysdeps/x86_64/start.S`,
    /// `_dl_start_user` in `sysdeps/x86_64/dl-machine.h` of glibc).
    pub fn begins_at(&self, address: u64) -> bool {
        const MAX_BYTES: u64 = 64;
        self.entry != 0
            && address
                .checked_sub(self.entry)
                .is_some_and(|bytes| bytes < MAX_BYTES)
    }

    /// Where the file begins and ends in memory, with this bias.
    pub fn range(&self, bias: u64) -> (u64, u64) {
        let (start, end) = self.addresses;
        (start.wrapping_add(bias), end.wrapping_add(bias))
    }
}
