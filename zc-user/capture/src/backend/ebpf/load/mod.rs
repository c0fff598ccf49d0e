//! Loading: what has to be known of the running kernel, and the object that is loaded for it.
//!
//! [`kernel`] finds the offsets of the kernel's fields in its types ([`btf`]) and the programs that
//! suit it. [`object`] has the embedded object and loads it, with maps of the right sizes
//! ([`map_sizes`]). [`tracer`] keeps what is loaded for the runs that follow. If that is
//! impossible, [`unavailable`] says why, and what helps.

pub mod bpf_call;
pub mod btf;
pub mod call_specs;
pub mod kernel;
pub mod loader;
pub mod map_sizes;
pub mod object;
pub mod settings;
pub mod sync_specs;
pub mod touch_specs;
pub mod tracer;
pub mod unavailable;
