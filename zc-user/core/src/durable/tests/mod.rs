//! What the judge says: of scenarios in words, and against an independent model of a crash.

mod crash_disk;
mod crash_model;
mod rules;
mod script;
