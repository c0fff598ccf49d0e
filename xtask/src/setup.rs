//! `cargo xtask setup`: brings a Debian or Ubuntu machine into a state where everything builds and
//! all tests run.

use std::{
    env,
    path::Path,
    process::{Command, ExitCode},
};

use anyhow::{Result, ensure};

use crate::{
    arch::Arch,
    command::{Words as _, is_root, root},
    toolchain::{LLVM_MAJOR, Linker, Source, TOOLCHAIN_VAR, Toolchain, Unusable, on_path, output},
};

/// What a step is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Purpose {
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
    /// Making a release.
    Releasing,
}

impl Purpose {
    /// Whether what serves the other purpose is needed. A release needs no more than a build before
    /// it; each of the others includes those before it.
    fn includes(self, other: Self) -> bool {
        match self {
            Self::Releasing => [Self::Building, Self::Releasing].contains(&other),
            _ => other <= self,
        }
    }
}

/// One thing that has to be on the machine: what it is; what it is for; what looks whether it is
/// there, without changing anything; and what to do by hand if none of the routes works.
struct SetupStep(&'static str, Purpose, fn(&Host) -> Readiness, &'static str);

/// Result of a check.
enum Readiness {
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

/// Installs everything that development needs, or only prints what would be done.
pub(crate) fn run(only_print: bool) -> Result<ExitCode> {
    if only_print {
        print();
    } else {
        install(Purpose::BootingForeign)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Does all steps up to a purpose. It is quick and prints nothing if nothing is missing.
pub(crate) fn install(purpose: Purpose) -> Result<()> {
    let host = Host::examine();
    let mut missing = Vec::new();
    for step in STEPS.iter().filter(|step| purpose.includes(step.1)) {
        if !step.install(&host) {
            let SetupStep(name, .., by_hand) = step;
            eprintln!("setup: {name} by hand: {by_hand}");
            missing.push(*name);
        }
    }
    let names = missing.join(", ");
    ensure!(
        missing.is_empty(),
        "set-up lacks {names}: do what the lines above say, then start again"
    );
    Ok(())
}

/// Shows the state of every step and what would be done, and does nothing.
fn print() {
    let host = Host::examine();
    for SetupStep(name, _, check, by_hand) in &STEPS {
        let (found, routes) = match check(&host) {
            Readiness::Ready(which) => {
                println!("ok       {name:16} {which}");
                continue;
            }
            Readiness::Missing { found, routes } => (found, routes),
        };
        println!("missing  {name:16} {found}");
        let mut what = "would run:";
        for route in routes {
            println!("{:26}{what} {route}", "");
            what = "or else:  ";
        }
        println!("{:26}by hand:   {by_hand}", "");
    }
}

impl SetupStep {
    /// Tries the routes until the check passes; returns whether it does.
    fn install(&self, host: &Host) -> bool {
        let Readiness::Missing { found, routes } = (self.2)(host) else {
            return true;
        };
        eprintln!("setup: {}: {found}", self.0);
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
                && matches!((self.2)(host), Readiness::Ready(_))
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

/// All steps, each with what to do by hand. A step may need those before it.
const STEPS: [SetupStep; 11] = [
    SetupStep(
        "C compiler",
        Purpose::Building,
        |host| all_of(host, &[("cc", "gcc libc6-dev")]),
        "install gcc",
    ),
    SetupStep(
        "LLVM",
        Purpose::Building,
        llvm,
        "install llvm-22-dev, libzstd-dev and zlib1g-dev (a release without LLVM 22: from LLVM's \
         own apt archive), or put a released bpf-linker on the PATH",
    ),
    SetupStep(
        "bpf-linker",
        Purpose::Building,
        bpf_linker,
        "build bpf-linker 0.13.0 against LLVM 22 or newer, or put a released one on the PATH",
    ),
    SetupStep(
        "BPF toolchain",
        Purpose::Building,
        bpf_toolchain,
        "`rustup component add rust-src`, or a rustup nightly with rust-src, named in \
         ZCTRACE_BPF_TOOLCHAIN if it is not called nightly; its LLVM must not be newer than \
         bpf-linker's",
    ),
    SetupStep(
        "traced programs",
        Purpose::Testing,
        |host| all_of(host, &TRACED_PROGRAMS),
        "install strace, btrfs-progs, Python 3, Go, man, groff and bash",
    ),
    SetupStep(
        "rustfmt, clippy",
        Purpose::Checking,
        rustfmt_and_clippy,
        "`rustup component add rustfmt clippy`, or your distribution's packages of them",
    ),
    SetupStep(
        "guests",
        Purpose::Booting,
        |host| all_of(host, &GUESTS),
        "install QEMU for this architecture, cpio, kmod, xz and e2fsprogs, where apt and dpkg are",
    ),
    SetupStep(
        "arm64 guests",
        Purpose::BootingForeign,
        |host| all_of(host, &ARM64_GUESTS),
        "install QEMU for arm64, and gcc and the C library for aarch64-linux-gnu",
    ),
    SetupStep(
        "Rust for arm64",
        Purpose::BootingForeign,
        rust_for_arm64,
        "`rustup target add aarch64-unknown-linux-gnu`",
    ),
    SetupStep(
        "Rust for musl",
        Purpose::Releasing,
        rust_for_musl,
        "`rustup target add x86_64-unknown-linux-musl aarch64-unknown-linux-musl`",
    ),
    SetupStep(
        "packagers",
        Purpose::Releasing,
        packagers,
        "`cargo install cargo-deb cargo-generate-rpm cargo-sbom`, and install rpm2cpio and cpio",
    ),
];

/// Programs that are not ours: the tests trace with them, or trace them, or they read what zctrace
/// writes. Each with its package.
const TRACED_PROGRAMS: [(&str, &str); 9] = [
    ("strace", "strace"),
    ("mkfs.btrfs", "btrfs-progs"),
    ("python3", "python3"),
    ("go", "golang-go"),
    ("man", "man-db"),
    ("lexgrog", "man-db"),
    ("groff", "groff-base"),
    ("bash", "bash"),
    ("script", "bsdutils"),
];

/// Boot other kernels, and make the disks that these start from.
const GUESTS: [(&str, &str); 7] = [
    if cfg!(target_arch = "aarch64") {
        ("qemu-system-aarch64", "qemu-system-arm")
    } else {
        ("qemu-system-x86_64", "qemu-system-x86")
    },
    ("cpio", "cpio"),
    ("xz", "xz-utils"),
    ("/sbin/depmod", "kmod"),
    ("/sbin/mkfs.ext4", "e2fsprogs"),
    ("apt-get", "apt"),
    ("dpkg-deb", "dpkg"),
];

/// Boot arm64 kernels, and build programs for them.
const ARM64_GUESTS: [(&str, &str); 2] = [
    ("qemu-system-aarch64", "qemu-system-arm"),
    (
        "aarch64-linux-gnu-gcc",
        "gcc-aarch64-linux-gnu libc6-dev-arm64-cross",
    ),
];

/// bpf-linker is built against it; it is not needed once bpf-linker runs.
fn llvm(host: &Host) -> Readiness {
    if linker_in_order().is_ok() {
        return Readiness::Ready("as bpf-linker has it".into());
    }
    // llvm-config may be there without the library that bpf-linker is linked with, which is in
    // another package.
    let folder = first_line(&llvm_config(), "--libdir");
    let has_library = folder.is_some_and(|folder| Path::new(&folder).join("libLLVM.so").exists());
    if let Some(version) = first_line(&llvm_config(), "--version").filter(|_| has_library) {
        return Readiness::Ready(version);
    }
    let packages = format!("llvm-{LLVM_MAJOR}-dev libzstd-dev zlib1g-dev");
    let found = format!("no {} with its libLLVM.so", llvm_config());
    missing(found, host.packages(&packages))
}

/// Links the eBPF programs.
fn bpf_linker(_host: &Host) -> Readiness {
    let install = format!(
        "LLVM_PREFIX=\"$({} --prefix)\" cargo install bpf-linker --version 0.13.0 --locked \
         --no-default-features --features llvm-{LLVM_MAJOR}",
        llvm_config(),
    );
    match linker_in_order() {
        Ok(linker) => Readiness::Ready(linker.to_string()),
        Err(found) => missing(found, vec![install]),
    }
}

/// Compiles the eBPF programs.
fn bpf_toolchain(host: &Host) -> Readiness {
    let llvm_max = Linker::find().map_or(LLVM_MAJOR, |linker| linker.llvm_major);
    let found = match Toolchain::find(llvm_max) {
        Ok(found) => return Readiness::Ready(found.to_string()),
        Err(found) => found,
    };
    if env::var_os(TOOLCHAIN_VAR).is_some() {
        // The variable names a toolchain, and no other one would be taken.
        return missing(found, Vec::new());
    }
    let mut routes = Vec::new();
    if host.rustup {
        let nightly = Toolchain::from(Source::Rustup("nightly".into()), llvm_max).err();
        if nightly == Some(Unusable::NoSources) {
            let add = "rustup component add rust-src --toolchain nightly";
            routes.push(within(90, add));
        }
        // A stable compiler works too, because build.rs sets RUSTC_BOOTSTRAP, and it needs the
        // smaller download.
        if Toolchain::from(Source::Current, llvm_max).err() == Some(Unusable::NoSources) {
            routes.push(within(90, "rustup component add rust-src"));
        }
        if nightly == Some(Unusable::NotInstalled) {
            let install = "rustup toolchain install nightly --profile minimal --component rust-src \
                           --no-self-update";
            routes.push(within(300, install));
        }
    }
    routes.extend(host.packages("rustc-web cargo-web rust-web-src"));
    missing(found, routes)
}

/// `cargo xtask ci` checks the sources with them.
fn rustfmt_and_clippy(host: &Host) -> Readiness {
    let programs = ["rustfmt", "cargo-clippy"].map(|program| first_line(program, "--version"));
    if let [Some(rustfmt), Some(clippy)] = programs {
        return Readiness::Ready(format!("{rustfmt}, {clippy}"));
    }
    let routes = if host.rustup {
        vec![within(90, "rustup component add rustfmt clippy")]
    } else {
        host.packages("rustfmt-web rust-web-clippy")
    };
    missing("not both there", routes)
}

/// Checks for these programs, each with its packages. A name may be a path: for a plain user /sbin
/// is not on the PATH.
fn all_of(host: &Host, programs: &[(&str, &str)]) -> Readiness {
    let is_there = |name: &str| Path::new(name).is_file() || on_path(name).is_some();
    let (there, lacking): (Vec<_>, Vec<_>) = programs
        .iter()
        .copied()
        .partition(|(name, _)| is_there(name));
    let (names, packages): (Vec<_>, Vec<_>) = lacking.into_iter().unzip();
    if names.is_empty() {
        let (names, _): (Vec<_>, Vec<_>) = there.into_iter().unzip();
        return Readiness::Ready(names.join(", "));
    }
    let found = format!("no {}", names.join(", "));
    missing(found, host.packages(&packages.join(" ")))
}

/// Builds programs for arm64: rustup's compiler with the library for it, or the distribution's,
/// whose library is fetched together with the packages of the guests.
fn rust_for_arm64(host: &Host) -> Readiness {
    let target = "aarch64-unknown-linux-gnu";
    if let Some(path) = library_for(target) {
        return Readiness::Ready(path);
    }
    let debians = Path::new(DEBIAN_RUSTC);
    if debians.is_file() && debians.with_file_name("cargo").is_file() {
        let which = format!("{DEBIAN_RUSTC}, and a library from the packages of arm64");
        return Readiness::Ready(which);
    }
    let mut routes = Vec::new();
    if host.rustup {
        routes.push(within(120, &format!("rustup target add {target}")));
    }
    routes.extend(host.packages("rustc-web cargo-web"));
    missing("no standard library for it", routes)
}

/// Builds programs that need no library, for both architectures.
fn rust_for_musl(host: &Host) -> Readiness {
    let targets = Arch::ALL.map(Arch::musl);
    let lacking: Vec<_> = targets
        .into_iter()
        .filter(|target| library_for(target).is_none())
        .collect();
    if lacking.is_empty() {
        return Readiness::Ready("for x86_64 and aarch64".into());
    }
    let lacking = lacking.join(" ");
    let add = within(300, &format!("rustup target add {lacking}"));
    let routes = if host.rustup { vec![add] } else { Vec::new() };
    missing(format!("no standard library for {lacking}"), routes)
}

/// Rust's target for static programs of this machine, if it can build them; tries to install what
/// that takes.
pub(crate) fn static_target() -> Option<String> {
    let target = Arch::host()?.musl();
    let add = within(120, &format!("rustup target add {target}"));
    if library_for(&target).is_none() && on_path("rustup").is_some() {
        let _ = Command::new("sh").args(["-c", &add]).status();
    }
    library_for(&target).map(|_| target)
}

/// Make the packages of a release, and say what is in them.
const PACKAGERS: [&str; 3] = ["cargo-deb", "cargo-generate-rpm", "cargo-sbom"];

/// The packagers, and what unpacks an RPM.
fn packagers(host: &Host) -> Readiness {
    let lacking: Vec<_> = PACKAGERS
        .into_iter()
        .filter(|name| on_path(name).is_none())
        .collect();
    if lacking.is_empty() {
        return all_of(host, &[("rpm2cpio", "rpm2cpio"), ("cpio", "cpio")]);
    }
    let lacking = lacking.join(" ");
    let install = format!("cargo install --locked --debug {lacking}");
    // A debug build is compiled faster, and is fast enough.
    let mut routes = host.packages("rpm2cpio cpio");
    for route in &mut routes {
        *route = format!("{route} && {install}");
    }
    missing(format!("no {lacking}"), routes)
}

/// Where rustc has the standard library for a target, if it has it.
fn library_for(target: &str) -> Option<String> {
    let mut rustc = Command::new("rustc");
    let library = output(rustc.words("--print target-libdir --target").arg(target))?;
    let library = library.trim();
    Path::new(library).is_dir().then(|| library.to_owned())
}

/// A shell line with a time limit in seconds: behind some proxies a download hangs for ever.
fn within(seconds: u32, line: &str) -> String {
    format!("timeout --foreground -k 5 {seconds} {line}")
}

/// bpf-linker, if its LLVM is new enough.
fn linker_in_order() -> Result<Linker, String> {
    let linker = Linker::find()?;
    if linker.llvm_major < LLVM_MAJOR {
        let (path, major) = (linker.path.display(), linker.llvm_major);
        return Err(format!("{path} is built with LLVM {major}"));
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

/// Short for [`Readiness::Missing`].
fn missing(found: impl Into<String>, routes: Vec<String>) -> Readiness {
    Readiness::Missing {
        found: found.into(),
        routes,
    }
}
