//! Leaves the ring buffers out of the processes that this one forks.
//!
//! The kernel copies the page tables of a ring buffer for each fork, and frees them at the exec: half
//! a millisecond for the ring of events. A child that only calls exec has no use for them. aya does
//! not say where it maps them, so they are found by their name.

use std::{fs, io, ops::Range};

use rustix::mm::{Advice, madvise};

/// The name of mapped maps in `/proc/self/maps`.
const NAME: &str = "anon_inode:bpf-map";

/// Leaves the mapped maps of this process out of its forks. Such a fork must not unmap them: there
/// may be something else in their place.
pub fn leave_out_of_forks() -> io::Result<()> {
    for range in mapped_maps(&fs::read_to_string("/proc/self/maps")?) {
        let begin = std::ptr::with_exposed_provenance_mut(range.start);
        // SAFETY: this process uses its memory as before.
        unsafe { madvise(begin, range.len(), Advice::LinuxDontFork) }?;
    }
    Ok(())
}

/// Where the mapped maps are, by the content of `/proc/self/maps`.
fn mapped_maps(mappings: &str) -> impl Iterator<Item = Range<usize>> {
    let maps = mappings.lines().filter(|line| line.ends_with(NAME));
    maps.filter_map(|line| {
        let (begin, end) = line.split_once(' ')?.0.split_once('-')?;
        let address = |digits| usize::from_str_radix(digits, 16).ok();
        Some(address(begin)?..address(end)?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_mapped_maps_are_found() {
        let mappings = "\
            7f2e8c000000-7f2e8c021000 rw-p 00000000 00:00 0 \n\
            7f2e8c7ff000-7f2e8cfff000 r--s 00001000 00:0e 1057                       anon_inode:bpf-map\n\
            7ffd1c5e6000-7ffd1c607000 rw-p 00000000 00:00 0                          [stack]\n";
        let mut found = mapped_maps(mappings);
        assert_eq!(found.next(), Some(0x7f2e_8c7f_f000..0x7f2e_8cff_f000));
        assert_eq!(found.next(), None);
    }
}
