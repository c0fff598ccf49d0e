//! The tasks of this repository: set-up, runs, tests, measurements, releases. Started as `cargo
//! xtask`.

mod arch;
mod bench;
mod ci;
mod command;
#[path = "../../zc-user/capture/build/compile.rs"]
mod compile;
mod dist;
mod optional;
mod package;
#[path = "../../zc-user/capture/build/prebuilt.rs"]
mod prebuilt;
mod run;
mod setup;
#[path = "../../zc-user/capture/build/strip.rs"]
mod strip;
#[path = "../../zc-user/capture/build/toolchain.rs"]
mod toolchain;
mod vm;

use std::{env, ffi::OsString, process::ExitCode};

use clap::{Args, Parser, Subcommand};

/// Set-up, runs, tests, measurements and releases of this repository
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct XtaskArguments {
    /// The task.
    #[command(subcommand)]
    task: XtaskCommand,
}

/// All tasks.
#[derive(Subcommand)]
enum XtaskCommand {
    /// Install what building, running and testing need on Debian or Ubuntu
    Setup {
        /// Only show the state of each step and what would be done
        #[arg(long)]
        print: bool,
    },
    /// Build zctrace and trace a command with it; without one, trace a copier
    Run {
        /// The command, after `--`
        #[arg(last = true, value_name = "CMD")]
        command: Vec<OsString>,
    },
    /// Run all tests
    Test(PassedOn),
    /// Everything that must hold before a change goes in
    Ci {
        /// Also fail if something could not be run
        #[arg(long)]
        strict: bool,
        /// Only what needs neither root nor a BPF toolchain: format, lint and unit tests
        #[arg(long, conflicts_with = "strict")]
        fast: bool,
    },
    /// Run the tests in guests with the kernels that people run, each booted in QEMU
    Vm(vm::VmOptions),
    /// Make the crates as they are published, in target/package
    Package {
        /// Also compile the eBPF programs again elsewhere, and install zctrace from the packages
        #[arg(long)]
        r#try: bool,
    },
    /// Make a release in target/dist: a tarball, packages for Debian and RPM, checksums, an SBOM
    Dist {
        /// The processor architecture [default: this machine's]
        #[arg(long)]
        arch: Option<arch::Arch>,
    },
    /// Measure what tracing costs, and print it
    Bench(bench::BenchOptions),
    /// Repeat published measurements, and show their figures beside those of this machine (see
    /// `reference --help`)
    #[command(disable_help_flag = true)]
    Reference(PassedOn),
    /// Show which kernel interface `std::io::copy` uses between which ends (see `matrix --help`)
    #[command(disable_help_flag = true)]
    Matrix(PassedOn),
    /// Check what other projects' programs promise, and show which kernel interfaces they use
    #[command(disable_help_flag = true)]
    Contracts(PassedOn),
}

/// Arguments for another program.
#[derive(Args)]
struct PassedOn {
    /// Its own options and arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<OsString>,
}

fn main() -> ExitCode {
    // A closed pipe (`setup --print | head`) ends xtask like any other program; Rust's default is a
    // panic. SAFETY: nothing else has been started yet.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    let done = match XtaskArguments::parse().task {
        XtaskCommand::Setup { print } => setup::run(print),
        XtaskCommand::Run { command } if command.is_empty() => run::demo(),
        XtaskCommand::Run { command } => run::run(&command),
        // As they were typed: clap would drop a leading `--`, which is meant for cargo.
        XtaskCommand::Test(_) => run::test(&env::args_os().skip(2).collect::<Vec<_>>()),
        XtaskCommand::Ci { fast: true, .. } => ci::run_fast(),
        XtaskCommand::Ci { strict, .. } => ci::run(strict),
        XtaskCommand::Vm(options) => vm::run(&options),
        XtaskCommand::Package { r#try } => package::run(r#try),
        XtaskCommand::Dist { arch } => dist::run(arch),
        XtaskCommand::Bench(options) => bench::run(&options),
        XtaskCommand::Reference(PassedOn { args }) => run::series("reference", &args),
        XtaskCommand::Matrix(PassedOn { args }) => run::series("matrix", &args),
        XtaskCommand::Contracts(PassedOn { args }) => run::series("contracts", &args),
    };
    done.unwrap_or_else(|error| {
        eprintln!("xtask: {error:#}");
        ExitCode::FAILURE
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_in_the_scripts_are_true() {
        for name in ["apt.py", "bench.py", "vm.py"] {
            let mut doctest = std::process::Command::new("python3");
            doctest.args(["-B", "-m", "doctest", name]);
            doctest.current_dir(command::root().join("xtask"));
            command::check(&mut doctest).expect("its examples are true");
        }
    }

    #[test]
    fn each_command_of_the_docs_is_understood() {
        let pages = [
            include_str!("../../README.md"),
            include_str!("../../docs/howto.md"),
            include_str!("../../docs/limits.md"),
            include_str!("../../docs/how-to/ci.md"),
            include_str!("../../docs/contracts.md"),
            include_str!("../../docs/std-io-copy.md"),
            include_str!("../../.github/CONTRIBUTING.md"),
            include_str!("../../.github/workflows/ci.yml"),
            include_str!("../../.github/workflows/release.yml"),
        ];
        for command in pages
            .iter()
            .flat_map(|page| page.split("cargo xtask ").skip(1))
        {
            let typed = command
                .split(['`', '#', '|', '>', '\n'])
                .next()
                .unwrap_or_default();
            let words = typed.split_whitespace();
            let read = XtaskArguments::try_parse_from(["xtask"].into_iter().chain(words));
            assert!(read.is_ok(), "{typed}: {:?}", read.err());
        }
    }
}
