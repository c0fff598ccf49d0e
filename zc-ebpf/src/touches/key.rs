//! The key of what a call touches.

use zc_ebpf::{
    ADDRESS_BYTES, FACTOR, SYNC_TEXT_BYTES,
    opaque::{if_set, opaque},
    repeat::repeat,
};

use super::{
    send::{TouchScratch, state, taken_scratch},
    specs::spec_of,
};
use crate::{
    kernel::entries::field,
    kernel::fields::{self, KernelPtr, offset_of_field},
};

/// The factor of the second hash: an odd number whose bits are mixed, like those of [`FACTOR`].
const OTHER_FACTOR: u64 = 0xc2b2_ae3d_27d4_eb4f;

/// Adds a number to the hashes.
#[inline(always)]
fn add_to_hash(hash: &mut [u64; 2], number: u64) {
    let [one, other] = hash;
    *one = (one.rotate_left(29) ^ number).wrapping_mul(FACTOR);
    *other = (other.rotate_left(31) ^ number).wrapping_mul(OTHER_FACTOR);
}

/// Makes the key of the call in the scratch. A global function, so that the verifier checks it once.
/// The result means nothing.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn make_key() -> u32 {
    let Some(scratch) = taken_scratch() else {
        return 0;
    };
    let spec = spec_of(scratch.call.key.slot);
    let mut hash = [FACTOR, OTHER_FACTOR];
    add_to_hash(&mut hash, field!(state(), generation).load());
    // The parts and their lengths go in first, so that one part is not taken for another.
    let call = &scratch.call;
    add_to_hash(
        &mut hash,
        u64::from(call.parts) | u64::from(call.mode) << 32,
    );
    for index in 0..6_u8 {
        let is_word = u64::from(spec.words) >> index & 1;
        add_to_hash(&mut hash, if_set(is_word, call.arguments.get(index), 0));
    }
    scratch.hash = hash;
    fold_address();
    for index in 0..4 {
        fold_file(index);
    }
    fold_text(0);
    fold_text(1);
    scratch.call.key.hash = scratch.hash;
    0
}

/// Adds the address of a socket.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn fold_address() -> u32 {
    let Some(scratch) = taken_scratch().filter(|scratch| scratch.call.address_length != 0) else {
        return 0;
    };
    let mut hash = scratch.hash;
    add_to_hash(&mut hash, scratch.call.address_length.into());
    for index in 0..ADDRESS_BYTES / 8 {
        add_to_hash(&mut hash, word_at(&scratch.call.address, index));
    }
    scratch.hash = hash;
    0
}

/// A word of bytes that are aligned.
#[inline(always)]
#[expect(clippy::cast_ptr_alignment, reason = "the callers' bytes are aligned")]
fn word_at(bytes: &[u8], index: usize) -> u64 {
    // SAFETY: the callers' index is within the bytes.
    unsafe { bytes.as_ptr().cast::<u64>().add(index).read() }
}

/// Adds the identity of the file with this number in the scratch, and the name by which it was opened.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn fold_file(index: u32) -> u32 {
    let Some(scratch) = taken_scratch() else {
        return 0;
    };
    let [first, second, third, fourth] = scratch.files;
    let file = match index {
        0 => first,
        1 => second,
        2 => third,
        _ => fourth,
    } as KernelPtr;
    if file.is_null() {
        return 0;
    }
    let dentry = fields::probe_pointer(file, offset_of_field!(file_dentry));
    let inode = fields::probe_pointer(dentry, offset_of_field!(dentry_inode));
    let generation: u32 = fields::probe_or_zero(inode, offset_of_field!(inode_generation));
    let hash = &mut scratch.hash;
    add_to_hash(hash, u64::from(index) << 32 | u64::from(generation));
    add_to_hash(hash, dentry as u64);
    add_to_hash(hash, inode as u64);
    add_to_hash(
        hash,
        fields::probe_or_zero(inode, offset_of_field!(inode_number)),
    );
    add_to_hash(
        hash,
        fields::probe_or_zero(dentry, offset_of_field!(dentry_parent)),
    );
    add_to_hash(
        hash,
        fields::probe_or_zero(file, offset_of_field!(file_mount)),
    );
    0
}

/// Adds the path (0) or the second path (1).
#[inline(always)]
fn fold_text(index: u32) {
    let Some(scratch) = taken_scratch().filter(|scratch| scratch.call.parts >> index & 1 != 0)
    else {
        return;
    };
    let length = text_length(scratch, index);
    add_to_hash(&mut scratch.hash, length.into());
    repeat(length.div_ceil(8), fold_word, &mut WhichText(index.into()));
}

#[inline(always)]
fn text_length(scratch: &TouchScratch, index: u32) -> u32 {
    if index == 0 {
        scratch.path.length
    } else {
        scratch.second.length
    }
}

/// The number of the text.
struct WhichText(u64);

/// Adds a word of a text. Returns 1 to end the loop.
extern "C" fn fold_word(round: u64, which: &mut WhichText) -> i64 {
    let Some(scratch) = taken_scratch() else {
        return 1;
    };
    let round = opaque(round);
    if round >= SYNC_TEXT_BYTES as u64 / 8 {
        return 1;
    }
    let (text, length) = if which.0 == 0 {
        (&scratch.path.bytes, scratch.path.length)
    } else {
        (&scratch.second.bytes, scratch.second.length)
    };
    let found = word_at(text, round as usize);
    // The bytes behind the text are arbitrary. The first byte is the lowest.
    let behind = (round * 8 + 8).saturating_sub(length.into()) & 7;
    let found = found << (behind * 8) >> (behind * 8);
    add_to_hash(&mut scratch.hash, found);
    0
}
