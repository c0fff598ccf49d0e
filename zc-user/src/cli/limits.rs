//! How much a traced run may keep.

use clap::Args;
use zctrace::backend::Limits;

/// How much a traced run may keep; what does not fit is counted, and the report says so.
#[derive(Debug, Args)]
#[expect(clippy::struct_field_names, reason = "the names are those of the options")]
pub struct LimitArgs {
    /// Most rows (threads times calls) to keep; as many again by file.
    #[arg(long, value_name = "N", default_value_t = Limits::default().max_rows, value_parser = clap::value_parser!(u32).range(1..=16_777_216))]
    max_rows: u32,

    /// Most files to tell apart.
    #[arg(long, value_name = "N", default_value_t = Limits::default().max_files, value_parser = clap::value_parser!(u32).range(1..=16_777_216))]
    max_files: u32,

    /// Most tasks to follow at the same time.
    #[arg(long, value_name = "N", default_value_t = Limits::default().max_tasks, value_parser = clap::value_parser!(u32).range(1..=4_194_304))]
    max_tasks: u32,
}

impl LimitArgs {
    /// As the backends take them.
    pub fn limits(&self) -> Limits {
        Limits { max_rows: self.max_rows, max_files: self.max_files, max_tasks: self.max_tasks }
    }
}
