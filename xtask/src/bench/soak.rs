//! Whether memory grows while a mixed load runs for minutes.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Child,
    thread::sleep,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context as _, Result, bail};

use super::{measure::quiet, zctrace_reporting_to};

/// Copies, pipelines, archives and substitutions. Each turn has a file of a new name. `$1` is how
/// long it runs, in seconds.
const LOAD: &str = r#"
    head -c 88890 /dev/urandom > in
    mkdir there
    end=$(($(date +%s) + $1))
    turn=0
    while [ "$(date +%s)" -lt "$end" ]; do
        turn=$((turn + 1))
        cp --reflink=never in "copy.$turn"
        cat in | sort | uniq > sorted
        dd if=in of=out bs=4k status=none
        tar -cf archive.tar in "copy.$turn"
        tar -cf - in | tar -xf - -C there
        ls -l > list
        rm "copy.$turn"
    done
    echo "$turn" > turns
    date +%s.%N > ended
"#;

/// When memory is read first, in seconds after the start. Then it is read each minute.
const FIRST: u64 = 10;

/// Runs the load for so many minutes under zctrace, prints its memory meanwhile, and in the end
/// what it has counted.
pub(super) fn measure(directory: &Path, minutes: u64) -> Result<()> {
    let seconds = minutes * 60;
    let report = directory.join("report");
    let argv = zctrace_reporting_to(&report.display().to_string(), "")?;
    let mut zctrace = quiet(&argv);
    fs::write(directory.join("load.sh"), LOAD)?;
    zctrace.args(["sh", "load.sh", &seconds.to_string()]);
    let start = Instant::now();
    let mut zctrace = zctrace
        .current_dir(directory)
        .spawn()
        .with_context(|| format!("cannot start {}", argv[0]))?;
    println!("## Soak: {seconds} s\n\n| after, s | private memory of zctrace, MiB |\n|--:|--:|");
    let each_minute = (1..minutes).map(|minute| minute * 60);
    for at in std::iter::once(FIRST).chain(each_minute) {
        sleep(Duration::from_secs(at).saturating_sub(start.elapsed()));
        println!("| {at} | {:.1} |", private_mib(&zctrace)?);
    }
    let status = zctrace.wait()?;
    let to_the_report = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs_f64()
        - number(&directory.join("ended"))?;
    if !status.success() {
        bail!("zctrace ended with {status}");
    }
    println!(
        "\n{} turns; {to_the_report:.2} s from the end to the report, which says:\n",
        number(&directory.join("turns"))?
    );
    for line in fs::read_to_string(report)?
        .lines()
        .take_while(|line| !line.is_empty())
    {
        println!("    {line}");
    }
    println!();
    Ok(())
}

/// `RssAnon` of `proc_pid_status(5)`: what is resident without files and the kernel's maps.
fn private_mib(process: &Child) -> Result<f64> {
    let path = PathBuf::from(format!("/proc/{}/status", process.id()));
    let status = fs::read_to_string(&path).context("zctrace has ended too early")?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"))
        .context("the kernel does not say RssAnon")?;
    let kib: f64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kib / 1024.0)
}

fn number(file: &Path) -> Result<f64> {
    let text = fs::read_to_string(file)
        .with_context(|| format!("the load has not written {}", file.display()))?;
    Ok(text.trim().parse()?)
}
