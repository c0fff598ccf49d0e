//! What the judge says: of scenarios in words, and against an independent model of a crash.

mod crash_disk;
mod crash_model;
#[expect(dead_code, reason = "the random scripts for the backends use the rest")]
mod file_model;
mod file_model_names;
mod rules;
mod script;
