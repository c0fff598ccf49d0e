//! Whether the program runs where there is nothing but the kernel.

use anyhow::{Context as _, Result, ensure};

use super::Release;
use crate::{
    command::{as_root, check},
    toolchain::output,
};

/// Makes the root, runs the program in it, and leaves what it says. Its mounts vanish with it.
const SCRIPT: &str = r#"
set -e
mkdir -p "$1/proc" "$1/sys"
cp "$2" "$1/zctrace"
mount -t proc proc "$1/proc"
mount --rbind /sys "$1/sys"
exec env -i "$(command -v chroot)" "$1" /zctrace --backend ebpf --syscalls all --format json -o - -- /zctrace -V
"#;

/// Traces the program by itself under eBPF, in a root with only that, /proc and /sys.
pub(super) fn in_an_empty_root(release: &Release) -> Result<()> {
    let root = release.directory.join("root");
    let mut unshare = as_root("unshare")?;
    unshare.args(["--mount", "sh", "-c", SCRIPT, "sh"]).arg(&root).arg(&release.program);
    let said = output(&mut unshare);
    // What was made there is root's.
    check(as_root("rm")?.arg("--recursive").arg("--one-file-system").arg(&root))?;
    let said = said.context("the program does not run in an empty root")?;
    ensure!(said.contains("\"backend\": \"ebpf\"") && said.contains("\"exact\": true"), "in an empty root it says: {said}");
    println!("dist: in an empty root, with no file but this program, it traced itself under eBPF: exact");
    Ok(())
}
