//! The same command under both backends: what must be equal, and what is legitimately different.

mod differences;
mod inventions;
mod matrix;
mod verify;
