//! `cargo xtask package`: the crates as they are published, in `target/package`. The one that
//! embeds the eBPF programs gets them compiled, for each architecture.
//!
//! With `--try` also what somebody else would do: the programs are compiled again in another
//! directory, and zctrace is installed from the packages alone, and unpacked from what a release has.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    thread,
};

use anyhow::{Context as _, Result, anyhow, ensure};

use crate::{
    arch::Arch,
    command::{CommandWords as _, as_root, cargo, check, in_scratch, root, target_dir},
    compile::BpfTools,
    dist::{self, VERSION},
    prebuilt,
    setup::{self, Purpose},
    toolchain::{TOOLCHAIN_VAR, output},
};

/// The architectures that the objects are for.
const ARCHES: [&str; 2] = [Arch::ALL[0].name(), Arch::ALL[1].name()];

/// The packages that are published.
const PUBLISHED: &str = "--workspace --exclude xtask --exclude zc-tests";

/// Where cargo leaves the packages. The program that was installed from them is in its folder bin.
pub(crate) fn package_dir() -> Result<PathBuf> {
    Ok(target_dir()?.join("package"))
}

/// Makes the packages, and tries them if asked to.
pub(crate) fn run(is_tried: bool) -> Result<ExitCode> {
    setup::install(Purpose::Building)?;
    let tools = BpfTools::find().map_err(|reason| anyhow!("{reason}"))?;
    let directory = root().join("zc-user/capture").join(prebuilt::DIRECTORY);
    make_objects(&tools, &directory)?;
    // The try builds them all at once, and without a BPF toolchain.
    let publish = "publish --dry-run --no-verify --allow-dirty --quiet";
    check(cargo(publish).words(PUBLISHED))?;
    check(cargo("package --no-verify --allow-dirty").words(PUBLISHED))?;
    if is_tried {
        in_scratch(|scratch| {
            let trial = PackageTrial::new(&tools, scratch)?;
            trial.rebuild(&directory)?;
            trial.publish()?;
            trial.install()?;
            trial.build_without_tools()
        })?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Compiles the objects where the build script compiles them, and writes what they are.
fn make_objects(tools: &BpfTools, directory: &Path) -> Result<()> {
    if directory.exists() {
        fs::remove_dir_all(directory)?;
    }
    fs::create_dir_all(directory)?;
    let targets = target_dir()?;
    let target_dir = |arch: &str| match arch {
        env::consts::ARCH => targets.join("bpf"),
        _ => targets.join(format!("bpf-{arch}")),
    };
    compile_all(tools, &root(), target_dir, directory)?;
    let sums = sums(directory)?;
    let text = format!("{}{}\n{sums}", prebuilt::TOOLS, tools.versions());
    print!("package: {text}");
    fs::write(directory.join(prebuilt::PROVENANCE), text)?;
    Ok(())
}

/// Compiles the objects of each architecture, all at a time.
fn compile_all(
    tools: &BpfTools,
    workspace: &Path,
    target_dir: impl Fn(&str) -> PathBuf,
    directory: &Path,
) -> Result<()> {
    thread::scope(|scope| {
        let compiling = ARCHES.map(|arch| {
            let target_dir = target_dir(arch);
            scope.spawn(move || {
                let compiled = tools.compile(workspace, arch, &target_dir)?;
                eprint!("{}", compiled.warnings);
                prebuilt::OBJECTS.into_iter().try_for_each(|object| {
                    let target = directory.join(prebuilt::file_name(object, arch));
                    compiled.write(object, &target)
                })
            })
        });
        for thread in compiling {
            let compiled = thread.join().map_err(|_| anyhow!("a thread panicked"))?;
            compiled.map_err(|message| anyhow!(message))?;
        }
        Ok(())
    })
}

/// The lines of `sha256sum` for the objects in this directory.
fn sums(directory: &Path) -> Result<String> {
    let mut sum = Command::new("sha256sum");
    let files = |object| ARCHES.map(|arch| prebuilt::file_name(object, arch));
    sum.args(prebuilt::OBJECTS.into_iter().flat_map(files));
    output(sum.current_dir(directory)).context("sha256sum does not read the objects")
}

/// Does with the packages, and with a copy of the sources, what others do.
struct PackageTrial<'a> {
    /// The tools that compiled the objects.
    tools: &'a BpfTools,
    /// A directory for everything that is made.
    scratch: &'a Path,
    /// A copy of the sources.
    sources: PathBuf,
}

impl<'a> PackageTrial<'a> {
    /// Copies the sources.
    fn new(tools: &'a BpfTools, scratch: &'a Path) -> Result<Self> {
        const COPY: &str = "git ls-files -z | tar --create --null --files-from - \
            --ignore-failed-read | tar --extract --directory \"$1\"";
        let sources = scratch.join("sources");
        fs::create_dir_all(&sources)?;
        let mut copy = Command::new("sh");
        copy.args(["-c", COPY, "sh"]).arg(&sources);
        check(copy.current_dir(root()))?;
        Ok(Self {
            tools,
            scratch,
            sources,
        })
    }

    /// Compiles the objects again, from the copy: they must be the same, byte for byte.
    fn rebuild(&self, packaged: &Path) -> Result<()> {
        let rebuilt = self.scratch.join("objects");
        fs::create_dir_all(&rebuilt)?;
        let target_dir = |arch: &str| self.scratch.join(format!("bpf-{arch}"));
        compile_all(self.tools, &self.sources, target_dir, &rebuilt)?;
        let (packaged, rebuilt) = (sums(packaged)?, sums(&rebuilt)?);
        ensure!(
            packaged == rebuilt,
            "compiled again elsewhere, the objects differ:\n{packaged}{rebuilt}"
        );
        println!("package: compiled again elsewhere, the objects are the same");
        Ok(())
    }

    /// Puts the packages into a directory with all that they depend on, as a registry would have
    /// them.
    fn publish(&self) -> Result<()> {
        let registry = self.scratch.join("registry");
        let home = self.scratch.join("home");
        fs::create_dir_all(&home)?;
        let mut vendor = cargo("vendor --quiet --locked --versioned-dirs");
        output(vendor.arg(&registry)).context("cargo vendor does not copy the dependencies")?;
        for package in packages()? {
            unpack(&package, &registry)?;
        }
        let config = format!(
            "[source.crates-io]\nreplace-with = \"copies\"\n\n\
             [source.copies]\ndirectory = \"{}\"\n",
            registry.display()
        );
        fs::write(home.join("config.toml"), config)?;
        Ok(())
    }

    /// cargo as somebody has it who has a compiler, and nothing else: no clone of zctrace, no BPF
    /// toolchain, nothing in cargo's home but where the packages are.
    fn cargo(&self, line: &str) -> Result<Command> {
        let compiler = PathBuf::from(env::var_os("CARGO").context("cargo sets CARGO")?);
        let directory = compiler.parent().context("cargo is in a directory")?;
        let path = env::join_paths([directory, "/usr/bin".as_ref(), "/bin".as_ref()])?;
        let mut cargo = Command::new(&compiler);
        cargo.words(line).current_dir(self.scratch);
        cargo.env_clear().env("PATH", path);
        cargo.env("HOME", self.scratch);
        cargo.env("CARGO_HOME", self.scratch.join("home"));
        cargo.env("CARGO_TARGET_DIR", self.scratch.join("target"));
        cargo.env("CARGO_INCREMENTAL", "0");
        cargo.env("CARGO_PROFILE_DEV_DEBUG", "0");
        cargo.env("CARGO_PROFILE_DEV_STRIP", "symbols");
        // Without shared libraries, if this machine can build that.
        cargo.envs(setup::static_target().map(|target| ("CARGO_BUILD_TARGET", target)));
        // Where the distribution has them, the PATH is not without the tools.
        cargo.env(TOOLCHAIN_VAR, "none");
        Ok(cargo)
    }

    /// Installs zctrace from the packages alone, not optimized, since that takes minutes. The program
    /// must trace; if this machine can build it without shared libraries, also from what a release
    /// has.
    fn install(&self) -> Result<()> {
        let root = package_dir()?;
        let mut install =
            self.cargo("install --debug --quiet --offline --locked --force zctrace --root")?;
        install.arg(&root).args(["--version", VERSION]);
        check(&mut install)?;
        let program = root.join("bin/zctrace");
        traces(&program)?;
        setup::static_target().map_or(Ok(()), |_| dist::try_packages(&program, self.scratch))
    }

    /// Builds from the copy of the sources, as from a git dependency: this must fail and say what
    /// to do, and not make a zctrace without eBPF.
    fn build_without_tools(&self) -> Result<()> {
        let mut build = self.cargo("build --quiet --offline --package zctrace")?;
        let output = build.current_dir(&self.sources).output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(
            !output.status.success() && said.contains("&& cargo xtask setup`"),
            "without a BPF toolchain, the sources build: {said}"
        );
        println!("package: without a BPF toolchain, the sources do not build, and say what to do");
        Ok(())
    }
}

/// The packages that were made.
fn packages() -> Result<Vec<PathBuf>> {
    let directory = package_dir()?;
    let mut packages = Vec::new();
    for entry in fs::read_dir(&directory)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.ends_with(&format!("-{VERSION}.crate")) {
            packages.push(path);
        }
    }
    Ok(packages)
}

/// Unpacks a package into a directory that stands for a registry.
fn unpack(package: &Path, registry: &Path) -> Result<()> {
    let mut tar = Command::new("tar");
    tar.arg("--extract").arg("--file").arg(package);
    check(tar.arg("--directory").arg(registry))?;
    let sha256 = prebuilt::sha256(package).context("there is no sha256sum")?;
    let name = package.file_stem().context("a package has a name")?;
    let checksum = format!("{{\"files\":{{}},\"package\":\"{sha256}\"}}");
    fs::write(registry.join(name).join(".cargo-checksum.json"), checksum)?;
    Ok(())
}

/// Checks that this program has the prebuilt programs and traces with them.
fn traces(program: &Path) -> Result<()> {
    let says = |line: &str| {
        let mut zctrace = as_root(program)?;
        output(zctrace.words(line)).with_context(|| format!("`zctrace {line}` fails"))
    };
    let doctor = says("doctor")?;
    ensure!(doctor.contains("programs: prebuilt"), "{doctor}");
    let report = says("--backend ebpf --format json -o - -- true")?;
    ensure!(report.contains("\"exact\": true"), "{report}");
    println!(
        "package: installed from the packages alone, zctrace traces with the prebuilt objects"
    );
    Ok(())
}
