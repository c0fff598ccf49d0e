//! The object for `--syncs`: all programs of `main.rs`, and those that see the order of changes and
//! syncs. They are in an object of its own, so that a run without `--syncs` makes none of their maps.
#![no_std]
#![no_main]
#![expect(
    clippy::needless_pass_by_value,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "macros pass contexts by value; registers have 64 bits, whatever they hold"
)]
#![cfg_attr(target_arch = "bpf", feature(asm_experimental_arch))]

mod syncs;

include!("programs.rs");
