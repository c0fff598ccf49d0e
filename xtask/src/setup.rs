//! `cargo xtask setup`: brings a Debian or Ubuntu machine into a state where everything builds and
//! all tests run.

use std::{
    env,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Result, bail};

use crate::{
    command::{is_root, nightly_cargo, root},
    toolchain::{LLVM_MAJOR, Linker, Source, TOOLCHAIN_VAR, Toolchain, Unusable, on_path, output},
};

/// What a step is needed for. Each need includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Need {
    /// Building and running zctrace.
    Building,
    /// Running the tests.
    Testing,
    /// Checking a change.
    Checking,
    /// Booting guests of this machine's own architecture.
    Booting,
    /// Booting guests of another architecture.
    BootingForeign,
    /// Checking the fuzz targets.
    Fuzzing,
}

/// One thing that has to be on the machine.
struct Step {
    /// What it is.
    name: &'static str,
    /// What it is for.
    need: Need,
    /// Looks whether it is there, without changing anything.
    check: fn(&Host) -> State,
    /// What to do by hand if none of the routes works.
    by_hand: &'static str,
}

/// Result of a check.
enum State {
    /// It is there; the text says which version.
    Ready(String),
    /// It is missing.
    Missing {
        /// What was found instead.
        found: String,
        /// Shell lines that install it; each is tried if those before it failed.
        routes: Vec<String>,
    },
}

/// Does all steps up to a need. It is quick and prints nothing if nothing is missing.
pub(crate) fn install(need: Need) -> Result<()> {
    install_steps(|step| step.need <= need)
}

/// Does only the steps for this need, and not those for the needs before it.
pub(crate) fn install_only(need: Need) -> Result<()> {
    install_steps(|step| step.need == need)
}

fn install_steps(is_wanted: impl Fn(&Step) -> bool) -> Result<()> {
    let host = Host::examine();
    let mut missing = Vec::new();
    for step in STEPS.iter().filter(|step| is_wanted(step)) {
        if !step.install(&host) {
            eprintln!("setup: {} by hand: {}", step.name, step.by_hand);
            missing.push(step.name);
        }
    }
    if !missing.is_empty() {
        bail!(
            "set-up lacks {}: do what the lines above say, then start again",
            missing.join(", ")
        );
    }
    Ok(())
}

/// Shows the state of every step and what would be done, and does nothing.
pub(crate) fn print() {
    let host = Host::examine();
    for step in &STEPS {
        match (step.check)(&host) {
            State::Ready(which) => println!("ok       {:16} {which}", step.name),
            State::Missing { found, routes } => {
                println!("missing  {:16} {found}", step.name);
                for (position, route) in routes.iter().enumerate() {
                    println!(
                        "{:26}{} {route}",
                        "",
                        if position == 0 {
                            "would run:"
                        } else {
                            "or else:  "
                        }
                    );
                }
                println!("{:26}by hand:   {}", "", step.by_hand);
            }
        }
    }
}

impl Step {
    /// Tries the routes until the check passes; returns whether it does.
    fn install(&self, host: &Host) -> bool {
        let State::Missing { found, routes } = (self.check)(host) else {
            return true;
        };
        eprintln!("setup: {}: {found}", self.name);
        routes.iter().any(|route| {
            eprintln!("setup: $ {route}");
            // No route may wait for input, and its output does not belong on the stdout of xtask.
            let line = format!("exec 1>&2 </dev/null; {route}");
            let status = Command::new("sh")
                .args(["-c", &line])
                .current_dir(root())
                .status();
            // Success counts only if the check now passes.
            status.is_ok_and(|status| status.success())
                && matches!((self.check)(host), State::Ready(_))
        })
    }
}

/// What this machine offers to install things with.
struct Host {
    /// Words before `apt-get`; `None` if packages cannot be installed.
    apt: Option<&'static str>,
    /// Whether there is rustup.
    rustup: bool,
}

impl Host {
    /// Examines this machine.
    fn examine() -> Self {
        let prefix = match (is_root(), on_path("sudo")) {
            (true, _) => Some("env"),
            (false, Some(_)) => Some("sudo env"),
            (false, None) => None,
        };
        Self {
            apt: prefix.filter(|_| on_path("apt-get").is_some()),
            rustup: on_path("rustup").is_some(),
        }
    }

    /// Shell lines that install packages: first with the package lists as they are, then with fresh
    /// ones.
    fn packages(&self, names: &str) -> Vec<String> {
        let Some(prefix) = self.apt else {
            return Vec::new();
        };
        // If another installation runs, apt waits for it, within a limit.
        let apt = format!(
            "{prefix} DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=120"
        );
        let install = format!("{apt} install -y --no-install-recommends {names}");
        vec![install.clone(), format!("{apt} update && {install}")]
    }
}

/// The compiler of the distribution's packages.
pub(crate) const DEBIAN_RUSTC: &str = "/usr/bin/rustc";

/// All steps. A step may need those before it.
const STEPS: [Step; 12] = [
    Step {
        name: "C compiler",
        need: Need::Building,
        check: c_compiler,
        by_hand: "install gcc",
    },
    Step {
        name: "LLVM",
        need: Need::Building,
        check: llvm,
        by_hand: "install llvm-22-dev, libzstd-dev and zlib1g-dev (a release without LLVM 22: from LLVM's own apt archive), \
                  or put a released bpf-linker on the PATH",
    },
    Step {
        name: "bpf-linker",
        need: Need::Building,
        check: bpf_linker,
        by_hand: "build bpf-linker 0.13.0 against LLVM 22 or newer, or put a released one on the PATH",
    },
    Step {
        name: "BPF toolchain",
        need: Need::Building,
        check: bpf_toolchain,
        by_hand: "`rustup component add rust-src`, or a rustup nightly with rust-src, named in ZCTRACE_BPF_TOOLCHAIN if it is \
                  not called nightly; its LLVM must not be newer than bpf-linker's",
    },
    Step {
        name: "strace",
        need: Need::Testing,
        check: strace,
        by_hand: "install strace",
    },
    Step {
        name: "traced programs",
        need: Need::Testing,
        check: traced_programs,
        by_hand: "install rsync, socat, nginx, btrfs-progs, Perl, Python 3, Go, Node and a JDK of version 11 or newer",
    },
    Step {
        name: "readers",
        need: Need::Testing,
        check: readers,
        by_hand: "install man, groff, bash, and for /usr/bin/python3 the module junitparser",
    },
    Step {
        name: "rustfmt, clippy",
        need: Need::Checking,
        check: rustfmt_and_clippy,
        by_hand: "`rustup component add rustfmt clippy`, or your distribution's packages of them",
    },
    Step {
        name: "guests",
        need: Need::Booting,
        check: guests,
        by_hand: "install QEMU for this architecture, cpio, kmod, xz and e2fsprogs, on a machine with apt and dpkg",
    },
    Step {
        name: "arm64 guests",
        need: Need::BootingForeign,
        check: arm64_guests,
        by_hand: "install QEMU for arm64 (qemu-system-aarch64), and gcc and the C library for aarch64-linux-gnu",
    },
    Step {
        name: "Rust for arm64",
        need: Need::BootingForeign,
        check: rust_for_arm64,
        by_hand: "`rustup target add aarch64-unknown-linux-gnu`",
    },
    Step {
        name: "fuzz crates",
        need: Need::Fuzzing,
        check: fuzz_crates,
        by_hand: "`cargo fetch --manifest-path tests/fuzz/Cargo.toml` where the registry can be reached",
    },
];

/// Builds the C workloads, and links everything.
fn c_compiler(host: &Host) -> State {
    match first_line("cc", "--version") {
        Some(version) => State::Ready(version),
        None => missing("no cc on the PATH", host.packages("gcc libc6-dev")),
    }
}

/// bpf-linker is built against it; it is not needed once bpf-linker runs.
fn llvm(host: &Host) -> State {
    if linker_in_order().is_ok() {
        return State::Ready("as bpf-linker has it".into());
    }
    // llvm-config may be there without the library that bpf-linker is linked with, which is in
    // another package.
    let library =
        first_line(&llvm_config(), "--libdir").map(|folder| Path::new(&folder).join("libLLVM.so"));
    match first_line(&llvm_config(), "--version")
        .filter(|_| library.is_some_and(|library| library.exists()))
    {
        Some(version) => State::Ready(version),
        None => missing(
            format!("no {} with its libLLVM.so", llvm_config()),
            host.packages(&format!("llvm-{LLVM_MAJOR}-dev libzstd-dev zlib1g-dev")),
        ),
    }
}

/// Links the eBPF programs.
fn bpf_linker(_host: &Host) -> State {
    let install = format!(
        "LLVM_PREFIX=\"$({} --prefix)\" cargo install bpf-linker --version 0.13.0 --locked --no-default-features --features llvm-{LLVM_MAJOR}",
        llvm_config(),
    );
    match linker_in_order() {
        Ok(linker) => State::Ready(linker.to_string()),
        Err(found) => missing(found, vec![install]),
    }
}

/// Compiles the eBPF programs.
fn bpf_toolchain(host: &Host) -> State {
    let llvm_max = Linker::find().map_or(LLVM_MAJOR, |linker| linker.llvm_major);
    let found = match Toolchain::find(llvm_max) {
        Ok(found) => return State::Ready(found.to_string()),
        Err(found) => found,
    };
    if env::var_os(TOOLCHAIN_VAR).is_some() {
        // The variable names a toolchain, and no other one would be taken.
        return missing(found, Vec::new());
    }
    let mut routes = Vec::new();
    if host.rustup {
        // Behind some proxies a download hangs for ever, so each has a time limit.
        let nightly = Toolchain::from(Source::Rustup("nightly".into()), llvm_max).err();
        if nightly == Some(Unusable::NoSources) {
            routes.push(
                "timeout --foreground -k 5 90 rustup component add rust-src --toolchain nightly"
                    .into(),
            );
        }
        // A stable compiler works too, because build.rs sets RUSTC_BOOTSTRAP, and it needs the
        // smaller download.
        if Toolchain::from(Source::Current, llvm_max).err() == Some(Unusable::NoSources) {
            routes.push("timeout --foreground -k 5 90 rustup component add rust-src".into());
        }
        if nightly == Some(Unusable::NotInstalled) {
            routes.push(
                "timeout --foreground -k 5 300 rustup toolchain install nightly --profile minimal --component rust-src --no-self-update".into(),
            );
        }
    }
    routes.extend(host.packages("rustc-web cargo-web rust-web-src"));
    missing(found, routes)
}

/// The backend for machines without eBPF; the tests compare counts with it.
fn strace(host: &Host) -> State {
    match first_line("strace", "-V") {
        Some(version) => State::Ready(version),
        None => missing("no strace on the PATH", host.packages("strace")),
    }
}

/// Programs that are not ours: the tests trace them, or they read what zctrace writes. Each with
/// its package.
const TRACED_PROGRAMS: [(&str, &str); 9] = [
    ("rsync", "rsync"),
    ("socat", "socat"),
    ("nginx", "nginx-light"),
    ("mkfs.btrfs", "btrfs-progs"),
    ("python3", "python3"),
    ("go", "golang-go"),
    ("node", "nodejs"),
    ("javac", "default-jdk-headless"),
    ("prove", "perl"),
];

fn traced_programs(host: &Host) -> State {
    let (mut found, mut missing_programs, mut packages) = (Vec::new(), Vec::new(), Vec::new());
    for (program, package) in TRACED_PROGRAMS {
        if on_path(program).is_some() {
            found.push(program);
        } else {
            missing_programs.push(program);
            packages.push(package);
        }
    }
    if packages.is_empty() {
        return State::Ready(found.join(", "));
    }
    missing(
        format!("no {}", missing_programs.join(", ")),
        host.packages(&packages.join(" ")),
    )
}

/// Programs that are not ours and read what zctrace writes, each with its package.
const READERS: [(&str, &str); 4] = [
    ("man", "man-db"),
    ("lexgrog", "man-db"),
    ("groff", "groff-base"),
    ("bash", "bash"),
];
/// The module of Debian's Python that does the same, with its package.
const READING_MODULE: (&str, &str) = ("junitparser", "python3-junitparser");

fn readers(host: &Host) -> State {
    let imports = |module: &str| {
        output(Command::new("/usr/bin/python3").args(["-c", &format!("import {module}")])).is_some()
    };
    let missing_programs = READERS
        .into_iter()
        .filter(|(program, _)| on_path(program).is_none());
    let missing_module = [READING_MODULE]
        .into_iter()
        .filter(|(module, _)| !imports(module));
    let packages: Vec<&str> = missing_programs
        .chain(missing_module)
        .map(|(_, package)| package)
        .collect();
    if packages.is_empty() {
        let names = READERS
            .into_iter()
            .chain([READING_MODULE])
            .map(|(name, _)| name);
        return State::Ready(names.collect::<Vec<_>>().join(", "));
    }
    missing(
        format!("no {}", packages.join(", ")),
        host.packages(&packages.join(" ")),
    )
}

/// `cargo xtask ci` checks the sources with them.
fn rustfmt_and_clippy(host: &Host) -> State {
    match (
        first_line("rustfmt", "--version"),
        first_line("cargo-clippy", "--version"),
    ) {
        (Some(rustfmt), Some(clippy)) => State::Ready(format!("{rustfmt}, {clippy}")),
        _ if host.rustup => missing(
            "not both there",
            vec!["timeout --foreground -k 5 90 rustup component add rustfmt clippy".into()],
        ),
        _ => missing(
            "not both there",
            host.packages("rustfmt-web rust-web-clippy"),
        ),
    }
}

/// Boot other kernels, and make the disks that these start from.
fn guests(host: &Host) -> State {
    let qemu = format!("qemu-system-{}", env::consts::ARCH);
    let package = if env::consts::ARCH == "aarch64" {
        "qemu-system-arm"
    } else {
        "qemu-system-x86"
    };
    let programs = [
        (qemu.as_str(), package),
        ("cpio", "cpio"),
        ("xz", "xz-utils"),
        ("/sbin/depmod", "kmod"),
        ("/sbin/mkfs.ext4", "e2fsprogs"),
        ("apt-get", "apt"),
        ("dpkg-deb", "dpkg"),
    ];
    all_of(host, &programs)
}

/// Boot arm64 kernels, and build programs for them.
fn arm64_guests(host: &Host) -> State {
    all_of(
        host,
        &[
            ("qemu-system-aarch64", "qemu-system-arm"),
            (
                "aarch64-linux-gnu-gcc",
                "gcc-aarch64-linux-gnu libc6-dev-arm64-cross",
            ),
        ],
    )
}

/// Checks for these programs, each with its packages.
fn all_of(host: &Host, programs: &[(&str, &str)]) -> State {
    // A name may be a path: for a plain user /sbin is not on the PATH.
    let is_there = |program: &str| Path::new(program).is_file() || on_path(program).is_some();
    let missing_ones: Vec<_> = programs
        .iter()
        .filter(|(program, _)| !is_there(program))
        .collect();
    if missing_ones.is_empty() {
        return State::Ready(
            programs
                .iter()
                .map(|&(program, _)| program)
                .collect::<Vec<_>>()
                .join(", "),
        );
    }
    let names: Vec<&str> = missing_ones.iter().map(|&&(program, _)| program).collect();
    let packages: Vec<&str> = missing_ones.iter().map(|&&(_, package)| package).collect();
    missing(
        format!("no {}", names.join(", ")),
        host.packages(&packages.join(" ")),
    )
}

/// Builds programs for arm64: rustup's compiler with the library for it, or the distribution's,
/// whose library is fetched together with the packages of the guests.
fn rust_for_arm64(host: &Host) -> State {
    const TARGET: &str = "aarch64-unknown-linux-gnu";
    let library =
        output(Command::new("rustc").args(["--print", "target-libdir", "--target", TARGET]));
    if let Some(path) = library
        .map(|path| PathBuf::from(path.trim()))
        .filter(|path| path.is_dir())
    {
        return State::Ready(path.display().to_string());
    }
    if Path::new(DEBIAN_RUSTC).is_file()
        && Path::new(DEBIAN_RUSTC).with_file_name("cargo").is_file()
    {
        return State::Ready(format!(
            "{DEBIAN_RUSTC}, and a library from the packages of arm64"
        ));
    }
    let mut routes = Vec::new();
    if host.rustup {
        routes.push(format!(
            "timeout --foreground -k 5 120 rustup target add {TARGET}"
        ));
    }
    routes.extend(host.packages("rustc-web cargo-web"));
    missing("no standard library for it", routes)
}

/// The crates that the fuzz targets depend on. They are a workspace of their own, so that building
/// the rest does not fetch them.
fn fuzz_crates(_host: &Host) -> State {
    let fetch = format!(
        "fetch --manifest-path tests/fuzz/Cargo.toml --target {}-unknown-linux-gnu",
        env::consts::ARCH
    );
    // It writes a lock file, which git ignores.
    match output(
        nightly_cargo()
            .args(fetch.split(' '))
            .arg("--offline")
            .stderr(Stdio::null()),
    ) {
        Some(_) => State::Ready("in cargo's cache".into()),
        None => missing(
            "not in cargo's cache",
            vec![format!("timeout --foreground -k 5 180 cargo {fetch}")],
        ),
    }
}

/// bpf-linker, if its LLVM is new enough.
fn linker_in_order() -> Result<Linker, String> {
    let linker = Linker::find()?;
    if linker.llvm_major < LLVM_MAJOR {
        return Err(format!(
            "{} is built with LLVM {}",
            linker.path.display(),
            linker.llvm_major
        ));
    }
    Ok(linker)
}

/// The program that says where LLVM is installed.
fn llvm_config() -> String {
    format!("llvm-config-{LLVM_MAJOR}")
}

/// The first line that a program on the PATH prints for this option.
fn first_line(program: &str, option: &str) -> Option<String> {
    let about = output(Command::new(on_path(program)?).arg(option))?;
    Some(about.lines().next()?.to_owned())
}

/// Short for [`State::Missing`].
fn missing(found: impl Into<String>, routes: Vec<String>) -> State {
    State::Missing {
        found: found.into(),
        routes,
    }
}
