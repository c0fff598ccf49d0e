//! The programs: one short function for each hook. What they do is in [`hooks`], where the
//! replacements for kernels that may preempt programs are, too.
//!
//! Those that run most often have typed arguments (`btf_tracepoint`), whose fields they load
//! without a helper. For each of them the kernel searches all its types when it loads the program,
//! so the others have plain ones (`raw_tracepoint`). Only `process_exit` is attached by its
//! type for another reason: so a test can attach it to a tracepoint that never fires.
#![no_std]
#![no_main]
#![expect(
    clippy::needless_pass_by_value,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "macros pass contexts by value; registers have 64 bits, whatever they hold"
)]
#![cfg_attr(target_arch = "bpf", feature(asm_experimental_arch))]

include!("programs.rs");
