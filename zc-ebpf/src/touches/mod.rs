//! Sees which paths and addresses calls touch, for `--paths`. What it sends becomes a list in user space.
//!
//! The first call that touches something in some way has a message, with its paths as they were given,
//! the directories where they start, and the files of its descriptors. Further calls that touch the
//! same in the same way are counted, until a name is moved or removed: from then on a path may lead to
//! another file.

mod calls;
mod gather;
mod key;
mod programs;
mod send;
mod specs;
