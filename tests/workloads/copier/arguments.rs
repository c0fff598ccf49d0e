//! The command line.

use clap::{Args, Parser, Subcommand};

use crate::{ends::EndSpec, library_copies::Wrapper};

/// Copy from one end to another by a chosen interface
///
/// An end (SPEC) is a path, unix:PATH, tcp:HOST:PORT, - (stdin or stdout, as a `File`), pipe:PATH
/// (a pipe that another process feeds from PATH, or drains into PATH), or memfd:PATH (a file in
/// memory with PATH's bytes; as a destination, only memfd:). Anything that is not a regular file,
/// such as a block device, is neither created nor emptied. Write a path that starts like one of
/// these as ./unix:in.
#[derive(Parser)]
#[command(
    name = "copier",
    arg_required_else_help = true,
    subcommand_negates_reqs = true,
    args_conflicts_with_subcommands = true
)]
pub(crate) struct CopierArguments {
    /// Play the other side instead of copying
    #[command(subcommand)]
    pub(crate) role: Option<CopierRole>,
    /// What to copy, and how
    #[command(flatten)]
    pub(crate) copy: Option<CopyArguments>,
    /// Show the cases: name, what it does [default of --buffer]
    #[arg(long, exclusive = true)]
    pub(crate) list: bool,
}

/// The other side of a copy.
#[derive(Subcommand)]
pub(crate) enum CopierRole {
    /// Accept one connection and drain it
    Sink {
        /// Where to listen: unix:PATH or tcp:HOST:PORT
        address: EndSpec,
        /// Drain one connection after the other, until the parent ends
        #[arg(long)]
        keep: bool,
    },
    /// Accept one connection and send it the bytes of the source
    Feed {
        /// Where to listen: unix:PATH or tcp:HOST:PORT
        address: EndSpec,
        /// The source
        #[arg(long, value_name = "SPEC")]
        from: EndSpec,
    },
    /// Copy stdin to stdout: the process at the other end of a pipe
    #[command(hide = true)]
    Relay,
}

/// One copy.
#[derive(Args)]
pub(crate) struct CopyArguments {
    /// How to copy (see --list)
    pub(crate) case: String,
    /// Source
    #[arg(long, value_name = "SPEC")]
    pub(crate) from: EndSpec,
    /// Destination; a regular file is created, or emptied
    #[arg(long, value_name = "SPEC")]
    pub(crate) to: EndSpec,
    /// Bytes that one call asks for, where the interface lets the caller choose (the default
    /// depends on the case)
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) buffer: Option<usize>,
    /// Open the destination with `O_APPEND` and do not empty it
    #[arg(long)]
    pub(crate) append: bool,
    /// std-io-copy, from a file: stop after this many bytes
    #[arg(long, value_name = "N")]
    pub(crate) size: Option<u64>,
    /// std-io-copy, from file to file: wrap the ends
    #[arg(long)]
    pub(crate) wrap: Option<Wrapper>,
}

/// Parses the size of a buffer: `4096` or `4KiB`. It is at least 1.
fn parse_size(text: &str) -> Result<usize, String> {
    let (number, unit) = match text.strip_suffix("KiB") {
        Some(number) => (number, 1024),
        None => (text, 1),
    };
    let size = number
        .parse()
        .ok()
        .and_then(|size: usize| size.checked_mul(unit));
    size.filter(|size| *size > 0)
        .ok_or_else(|| format!("`{text}` is not a size; write 4096 or 4KiB"))
}
