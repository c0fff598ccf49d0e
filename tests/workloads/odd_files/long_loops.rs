//! Copies in so many small pieces that the kernel side no longer looks at every byte, with
//! something else in between.

use std::{
    fs::File,
    io::{IoSlice, Read as _, Write as _},
    process::Command,
};

use anyhow::{Result, ensure};
use io_uring::IoUring;

use crate::evidence::fill_with_random;

/// The size of a read.
const PIECE: usize = 500;

/// How many pieces are copied before anything else happens.
const UNDISTURBED: usize = 2000;

/// From then on, something else happens at every piece whose number is a multiple of this.
const EVERY: usize = 25;

/// Copies `in` to `out` piece by piece. `disturb` gets the number of the disturbance, the piece and
/// the files, and returns how much of the piece it has written itself.
fn copy(
    mut disturb: impl FnMut(usize, &mut [u8], &mut File, &mut File) -> Result<usize>,
) -> Result<()> {
    let (mut from, mut to) = (File::open("in")?, File::create("out")?);
    let mut buffer = vec![0; PIECE];
    for number in 0.. {
        let read = from.read(&mut buffer[..])?;
        if read == 0 {
            break;
        }
        let mut written = 0;
        if number >= UNDISTURBED && number % EVERY == 0 {
            written = disturb(
                (number - UNDISTURBED) / EVERY,
                &mut buffer[..read],
                &mut from,
                &mut to,
            )?;
        }
        to.write_all(&buffer[written..read])?;
    }
    Ok(())
}

/// Copies `in` to `out`. Now and then it writes a piece by `writev`, copies zeroes in another
/// buffer, or tries to write the piece to a file that is not open for writing. Once it starts a
/// child, and once it makes an `io_uring`.
pub(crate) fn disturbed() -> Result<()> {
    let (mut zeroes, mut zeroes_out) = (File::open("/dev/zero")?, File::create("out2")?);
    let mut other = [0; PIECE];
    let mut ring = None;
    copy(|number, piece, from, to| {
        match number {
            70 => ensure!(Command::new("true").status()?.success(), "true failed"),
            90 => ring = Some(IoUring::new(2)?),
            _ => {}
        }
        match number % 3 {
            0 => return Ok(to.write_vectored(&[IoSlice::new(piece)])?),
            1 => {
                zeroes.read_exact(&mut other)?;
                zeroes_out.write_all(&other)?;
            }
            _ => ensure!(
                from.write(piece).is_err(),
                "a file that is not open for writing was written"
            ),
        }
        Ok(0)
    })?;
    drop(ring);
    Ok(())
}

/// Copies `in` to `out`, except that the kernel fills some pieces with other bytes before they are
/// written.
pub(crate) fn refilled() -> Result<()> {
    copy(|_, piece, _, _| {
        fill_with_random(piece)?;
        Ok(0)
    })
}

/// Copies `in` to `out`, except that the program itself replaces some pieces before they are
/// written.
pub(crate) fn replaced() -> Result<()> {
    copy(|number, piece, _, _| {
        for (index, byte) in piece.iter_mut().enumerate() {
            *byte = (number + index).to_le_bytes()[0] | 1;
        }
        // The compiler must not leave out the stores.
        std::hint::black_box(piece);
        Ok(0)
    })
}
