//! What has to be on the machine: the steps, and how each is looked for.

use std::{env, path::Path, process::Command};

use super::step::{Host, Purpose, Readiness, SetupStep, missing, within};
use crate::{
    arch::Arch,
    command::CommandWords as _,
    toolchain::{
        BpfToolchain, LLVM_MAJOR, Linker, Source, TOOLCHAIN_VAR, ToolchainProblem, on_path, output,
    },
};

/// All steps, each with what to do by hand. A step may need those before it.
pub(super) const STEPS: [SetupStep; 21] = [
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
        "install strace, btrfs-progs, Python 3, Go, man, groff, bash and jq",
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
        |host| static_rust(host, &[Arch::Aarch64]),
        "`rustup target add aarch64-unknown-linux-musl`",
    ),
    SetupStep(
        "Rust for musl",
        Purpose::Releasing,
        |host| static_rust(host, &Arch::ALL),
        "`rustup target add x86_64-unknown-linux-musl aarch64-unknown-linux-musl`",
    ),
    SetupStep(
        "shellcheck",
        Purpose::Linting,
        |host| all_of(host, &[("shellcheck", "shellcheck")]),
        "install shellcheck",
    ),
    SetupStep(
        "actionlint",
        Purpose::Linting,
        actionlint,
        "install Go, and `go install github.com/rhysd/actionlint/cmd/actionlint@latest`",
    ),
    SetupStep(
        "pytest",
        Purpose::Linting,
        pytest,
        "`python3 -m pip install pytest`",
    ),
    SetupStep(
        "mdBook, deny",
        Purpose::Linting,
        |_| from_crates(&["mdbook@0.5.4", "cargo-deny@0.20.2"]),
        "`cargo install mdbook cargo-deny`",
    ),
    SetupStep(
        "contracts",
        Purpose::Linting,
        |host| {
            all_of(
                host,
                &[("busybox", "busybox"), ("/usr/sbin/nginx", "nginx-light")],
            )
        },
        "install busybox and nginx",
    ),
    SetupStep(
        "uutils",
        Purpose::Linting,
        uutils,
        "`cargo install --root DIRECTORY uu_cat`, and put its program cat on the PATH as uu_cat",
    ),
    SetupStep(
        "packagers",
        Purpose::Releasing,
        |_| {
            from_crates(&[
                "cargo-deb@3.8.0",
                "cargo-generate-rpm@0.21.1",
                "cargo-sbom@0.10.0",
            ])
        },
        "`cargo install cargo-deb cargo-generate-rpm cargo-sbom`",
    ),
    SetupStep(
        "unpackers",
        Purpose::Releasing,
        |host| {
            let programs = [
                ("dpkg-deb", "dpkg"),
                ("rpm2cpio", "rpm2cpio"),
                ("cpio", "cpio"),
            ];
            all_of(host, &programs)
        },
        "install dpkg, rpm2cpio and cpio",
    ),
    SetupStep(
        "syscount",
        Purpose::Benchmarking,
        |host| all_of(host, &[("/usr/sbin/syscount", "libbpf-tools")]),
        "install the libbpf-tools of BCC",
    ),
    SetupStep(
        "bpftrace",
        Purpose::Benchmarking,
        |host| all_of(host, &[("bpftrace", "bpftrace")]),
        "install bpftrace",
    ),
    SetupStep(
        "perf",
        Purpose::Benchmarking,
        |host| all_of(host, &[("perf", "linux-perf")]),
        "install perf for your kernel",
    ),
];

/// Programs that are not ours: the tests trace with them, or trace them, or they read what zctrace
/// writes. Each with its package.
const TRACED_PROGRAMS: [(&str, &str); 10] = [
    ("strace", "strace"),
    ("mkfs.btrfs", "btrfs-progs"),
    ("python3", "python3"),
    ("go", "golang-go"),
    ("man", "man-db"),
    ("lexgrog", "man-db"),
    ("groff", "groff-base"),
    ("bash", "bash"),
    ("script", "bsdutils"),
    ("jq", "jq"),
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
    let found = match BpfToolchain::find(llvm_max) {
        Ok(found) => return Readiness::Ready(found.to_string()),
        Err(found) => found,
    };
    if env::var_os(TOOLCHAIN_VAR).is_some() {
        // The variable names a toolchain, and no other one would be taken.
        return missing(found, Vec::new());
    }
    let mut routes = Vec::new();
    if host.rustup {
        let nightly = BpfToolchain::from(Source::Rustup("nightly".into()), llvm_max).err();
        if nightly == Some(ToolchainProblem::NoSources) {
            let add = "rustup component add rust-src --toolchain nightly";
            routes.push(within(90, add));
        }
        // A stable compiler works too, because build.rs sets RUSTC_BOOTSTRAP, and it needs the
        // smaller download.
        if BpfToolchain::from(Source::Current, llvm_max).err() == Some(ToolchainProblem::NoSources)
        {
            routes.push(within(90, "rustup component add rust-src"));
        }
        if nightly == Some(ToolchainProblem::NotInstalled) {
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

/// Builds programs for these architectures that need no shared library.
fn static_rust(host: &Host, arches: &[Arch]) -> Readiness {
    let targets = arches.iter().map(|arch| arch.musl());
    let lacking: Vec<_> = targets
        .filter(|target| library_for(target).is_none())
        .collect();
    if lacking.is_empty() {
        let names: Vec<_> = arches.iter().map(|arch| arch.name()).collect();
        return Readiness::Ready(format!("for {}", names.join(" and ")));
    }
    let lacking = lacking.join(" ");
    let add = within(120, &format!("rustup target add {lacking}"));
    let routes = if host.rustup { vec![add] } else { Vec::new() };
    missing(format!("no standard library for {lacking}"), routes)
}

/// Rust's target for static programs of this machine, if it can build them.
pub(crate) fn static_target() -> Option<String> {
    let target = Arch::host()?.musl();
    library_for(&target).map(|_| target)
}

/// Lints workflows; Go builds it.
fn actionlint(_host: &Host) -> Readiness {
    if on_path("actionlint").is_some() {
        return Readiness::Ready("actionlint".into());
    }
    let install = within(
        120,
        "go install github.com/rhysd/actionlint/cmd/actionlint@v1.7.12",
    );
    let beside_cargos = format!("GOBIN=\"${{CARGO_HOME:-$HOME/.cargo}}/bin\" {install}");
    missing("no actionlint", vec![beside_cargos])
}

/// Of the rewrite of coreutils in Rust, the contracts try cat. It has another name here, and takes the
/// place of no other cat.
fn uutils(_host: &Host) -> Readiness {
    if on_path("uu_cat").is_some() {
        return Readiness::Ready("uu_cat".into());
    }
    let install = within(
        600,
        "cargo install --locked --debug --target-dir target/tools --root target/tools/uutils \
         uu_cat@0.2.2",
    );
    let copy = "cp target/tools/uutils/bin/cat \"${CARGO_HOME:-$HOME/.cargo}/bin/uu_cat\"";
    missing("no uu_cat", vec![format!("{install} && {copy}")])
}

/// Runs the tests of our plug-in for pytest.
fn pytest(host: &Host) -> Readiness {
    if let Some(version) = output(Command::new("python3").words("-m pytest --version")) {
        return Readiness::Ready(version.trim().to_owned());
    }
    let mut routes = vec![within(120, "python3 -m pip install pytest")];
    routes.extend(host.packages("python3-pytest"));
    missing("no pytest", routes)
}

/// Programs that cargo builds, each with its version. For debugging it does so in a fraction of the
/// time, and they are fast enough.
fn from_crates(programs: &[&str]) -> Readiness {
    let names = programs
        .iter()
        .filter_map(|program| Some(program.split_once('@')?.0));
    let lacking: Vec<_> = names
        .clone()
        .zip(programs)
        .filter_map(|(name, program)| on_path(name).is_none().then_some(*program))
        .collect();
    if lacking.is_empty() {
        return Readiness::Ready(names.collect::<Vec<_>>().join(", "));
    }
    let lacking = lacking.join(" ");
    let install = within(
        600,
        &format!("cargo install --locked --debug --target-dir target/tools {lacking}"),
    );
    missing(
        format!("no {lacking}"),
        vec![format!("CARGO_PROFILE_DEV_DEBUG=0 {install}")],
    )
}

/// Where rustc has the standard library for a target, if it has it.
fn library_for(target: &str) -> Option<String> {
    let mut rustc = Command::new("rustc");
    let library = output(rustc.words("--print target-libdir --target").arg(target))?;
    let library = library.trim();
    Path::new(library).is_dir().then(|| library.to_owned())
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
