//! `cargo xtask bench`: what tracing costs. `xtask/bench.py` measures it; here is what it needs. The
//! figures are printed and never asserted.

use std::{
    os::unix::process::CommandExt as _,
    process::{Command, ExitCode},
};

use anyhow::{Context as _, Result};
use clap::Args;

use crate::{
    command::{CommandWords as _, cargo, check, debug_dir, is_root, release_dir, root, target_dir},
    setup::{self, Purpose},
};

/// Other tools find the tracepoints in tracefs. Where it is not mounted, only they see that it is now.
const WITH_TRACEFS: &str = r#"t=/sys/kernel/tracing
    mountpoint -q $t || mount -t tracefs tracefs $t; exec "$0" "$@""#;

/// What to measure.
#[derive(Args)]
pub(crate) struct BenchOptions {
    /// What to measure; without one, all
    #[arg(value_name = "WORK", value_parser = ["call", "process", "start", "build"])]
    works: Vec<String>,
    /// How often each work is run under each of the quick tools
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
}

/// Builds and fetches what is measured, and becomes the script that measures.
pub(crate) fn run(options: &BenchOptions) -> Result<ExitCode> {
    setup::install(Purpose::Building)?;
    setup::try_to_install(Purpose::Benchmarking);
    check(&mut cargo(
        "build --release --workspace --bins --example floor",
    ))?;
    check(&mut cargo("build --package zctrace --example many_traces"))?;
    // The time of sudo itself must not be measured.
    let unshare = if is_root() {
        "unshare -m"
    } else {
        "sudo -E unshare -m"
    };
    let mut bench = Command::new("env");
    bench.words(unshare).args(["sh", "-c", WITH_TRACEFS]);
    bench.arg(root().join("xtask/bench.py"));
    bench.arg("--release").arg(release_dir()?);
    bench.arg("--debug").arg(debug_dir()?);
    bench.arg("--directory").arg(target_dir()?.join("bench"));
    bench.args(["--rounds", &options.rounds.to_string()]);
    let error = bench.args(&options.works).exec();
    Err(error).context("measuring needs root and Python 3")
}
