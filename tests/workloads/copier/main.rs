//! `copier`: copies from one end to another by a chosen interface, so that a tracer can be asked what that interface does.
//!
//! `copier CASE --from SPEC --to SPEC [--buffer SIZE] [--size N]` ends with one line on stdout, `copied N bytes`, written by one
//! call (on stderr, if the copy itself goes to stdout). `copier sink SPEC` is the other side for sockets.

mod async_loop;
mod in_kernel;
mod job;
mod mapped;
mod sink;
mod std_copy;
mod user_memory;

use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Parser;
use zc_tests::{Spec, named, parse_size, print_line};

use crate::job::Job;

/// One way to copy.
struct Case {
    name: &'static str,
    about: &'static str,
    /// Whether `--buffer` and `--size` mean something to it.
    options: Options,
    run: fn(&Job) -> Result<u64>,
}

/// The options that a case understands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Options {
    BufferAndSize,
    Size,
    None,
}

/// Every case; this table is also `--list`.
const CASES: &[Case] = &[
    Case {
        name: "read-write",
        about: "std's Read and Write over one buffer on the heap (8 KiB)",
        options: Options::BufferAndSize,
        run: user_memory::read_write,
    },
    Case { name: "std-io-copy", about: "std::io::copy", options: Options::Size, run: std_copy::io_copy },
    Case { name: "std-fs-copy", about: "std::fs::copy, path to path", options: Options::None, run: std_copy::fs_copy },
    Case {
        name: "libc-sendfile64",
        about: "libc::sendfile64 (as much as a call takes)",
        options: Options::BufferAndSize,
        run: in_kernel::libc_sendfile64,
    },
    Case {
        name: "nix-sendfile64",
        about: "nix::sys::sendfile::sendfile64 (as much as a call takes)",
        options: Options::BufferAndSize,
        run: in_kernel::nix_sendfile64,
    },
    Case {
        name: "splice-pipe",
        about: "splice into a pipe and out of it (64 KiB; more widens the pipe)",
        options: Options::BufferAndSize,
        run: in_kernel::splice_pipe,
    },
    Case {
        name: "copy-file-range",
        about: "copy_file_range (as much as a call takes)",
        options: Options::BufferAndSize,
        run: in_kernel::copy_file_range,
    },
    Case {
        name: "mmap-write",
        about: "the source mapped whole, std's Write from the mapping (all at once)",
        options: Options::BufferAndSize,
        run: mapped::mmap_write,
    },
    Case {
        name: "vmsplice",
        about: "the source mapped whole, vmsplice into a pipe, splice out of it (64 KiB)",
        options: Options::BufferAndSize,
        run: mapped::vmsplice,
    },
    Case {
        name: "tokio-io-copy",
        about: "tokio::io::copy on a current-thread runtime",
        options: Options::Size,
        run: async_loop::tokio_io_copy,
    },
];

/// Copy from one end to another by a chosen interface.
#[derive(Parser)]
#[command(name = "copier", arg_required_else_help = true)]
struct Arguments {
    /// How to copy (see --list), or `sink`: accept one connection on ADDRESS and drain it
    #[arg(required_unless_present = "list")]
    case: Option<String>,
    /// Where the sink listens: unix:PATH or tcp:HOST:PORT
    address: Option<Spec>,
    /// Source: a path, unix:PATH, tcp:HOST:PORT, or - for stdin
    #[arg(long, value_name = "SPEC")]
    from: Option<Spec>,
    /// Destination: a path (created, or emptied), unix:PATH, tcp:HOST:PORT, or - for stdout
    #[arg(long, value_name = "SPEC")]
    to: Option<Spec>,
    /// Bytes that one call asks for (the default depends on the case)
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    buffer: Option<u64>,
    /// Stop after this many bytes
    #[arg(long, value_name = "N", value_parser = parse_size)]
    size: Option<u64>,
    /// Show the cases, with the default of --buffer in brackets
    #[arg(long)]
    list: bool,
}

fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(err) => {
            eprintln!("copier: {err:#}");
            ExitCode::FAILURE
        }
    }
}

/// Lists, drains, or copies.
fn run(arguments: Arguments) -> Result<()> {
    if arguments.list {
        let lines: Vec<_> = CASES.iter().map(|case| format!("{:<16} {}", case.name, case.about)).collect();
        return print_line(&lines.join("\n")).map_err(named);
    }
    match (arguments.case.as_deref().unwrap_or_default(), arguments.address) {
        ("sink", Some(address)) => sink::drain_one(&address),
        ("sink", None) => bail!("sink needs an address: unix:PATH or tcp:HOST:PORT"),
        (_, Some(address)) => bail!("{address}: only sink takes an address; use --from and --to"),
        (name, None) => {
            let case = CASES.iter().find(|case| case.name == name);
            let case = case.with_context(|| format!("there is no case {name:?}; see --list"))?;
            check_options(case, arguments.buffer, arguments.size)?;
            copy(case, &Job::new(arguments.from, arguments.to, arguments.buffer, arguments.size)?)
        }
    }
}

/// Refuses what the case would ignore.
fn check_options(case: &Case, buffer: Option<u64>, size: Option<u64>) -> Result<()> {
    if buffer.is_some() && case.options != Options::BufferAndSize {
        bail!("{} has no --buffer", case.name);
    }
    if size.is_some() && case.options == Options::None {
        bail!("{} has no --size", case.name);
    }
    Ok(())
}

/// Copies, and says how much.
fn copy(case: &Case, job: &Job) -> Result<()> {
    let count = (case.run)(job)?;
    let line = format!("copied {count} bytes");
    if job.to == Spec::Standard {
        eprintln!("{line}");
        return Ok(());
    }
    print_line(&line).map_err(named)
}
