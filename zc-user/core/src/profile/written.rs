//! Profiles that allow the calls of a report, and no others.

use std::collections::BTreeSet;

use serde_json::json;

use super::{
    judge::{calls_made, why_incomplete, why_untouched},
    native_abi, places, seccomp, systemd,
};
use crate::{
    report::Report,
    text::{command_line, escape},
};

/// Calls that the next run may need although this one did not: what starts the command, its end, and
/// what the kernel makes a program call after a signal or a stop.
const ALWAYS_ALLOWED: [&str; 5] = [
    "execve",
    "exit",
    "exit_group",
    "restart_syscall",
    "rt_sigreturn",
];

/// A line of a unit is about this long.
const LINE_WIDTH: usize = 100;

/// What the profiles of this report may lack, as a sentence for the user. `None`: nothing that was
/// seen.
pub fn what_it_may_lack(report: &Report) -> Option<String> {
    if let Some(why) = why_incomplete(report) {
        return Some(format!(
            "the profile may deny calls that the command needs: {why}"
        ));
    }
    let why = why_untouched(report).filter(|_| report.touched.is_some())?;
    Some(format!(
        "the profile may deny paths and sockets that the command needs: {why}"
    ))
}

/// A seccomp profile of the OCI, as Docker, Podman and Kubernetes read it.
pub fn seccomp(report: &Report) -> String {
    let known = seccomp::ARCHITECTURES.iter();
    let abis = abis(report);
    let architectures: Vec<&str> = known
        .filter(|(_, abi)| abis.contains(*abi))
        .map(|(name, _)| *name)
        .collect();
    let profile = json!({
        "defaultAction": "SCMP_ACT_ERRNO",
        "defaultErrnoRet": 1,
        "architectures": architectures,
        "syscalls": [{ "names": names(report), "action": "SCMP_ACT_ALLOW" }],
    });
    format!("{profile:#}\n")
}

/// The lines of a systemd unit.
pub fn systemd(report: &Report) -> String {
    let abis = abis(report);
    let architectures = abis.iter().filter_map(|abi| systemd::architecture(abi));
    let architectures: Vec<&str> = architectures.collect();
    let mut lines = vec![
        format!(
            "# The system calls of one run of: {}",
            escape(&command_line(&report.command))
        ),
        "# Another run may need more.".to_owned(),
        "[Service]".to_owned(),
        format!("SystemCallArchitectures={}", architectures.join(" ")),
        "SystemCallErrorNumber=EPERM".to_owned(),
    ];
    let mut filter = String::new();
    for name in names(report) {
        if filter.len() + name.len() > LINE_WIDTH {
            lines.push(std::mem::take(&mut filter));
        }
        filter += if filter.is_empty() {
            "SystemCallFilter="
        } else {
            " "
        };
        filter += &name;
    }
    lines.push(filter);
    lines.extend(lines_of_touched(report));
    lines.push(String::new());
    lines.join("\n")
}

/// Where the command writes and which sockets it makes, or how to find out.
fn lines_of_touched(report: &Report) -> Vec<String> {
    let directories = places::directories(report);
    let Some((touched, directories)) = report.touched.as_ref().zip(directories) else {
        let advice =
            "# With --paths, zctrace also writes ReadWritePaths= and RestrictAddressFamilies=.";
        return vec![advice.to_owned()];
    };
    let families: BTreeSet<&str> = touched
        .families
        .iter()
        .map(|one| one.family.as_str())
        .collect();
    let families: Vec<&str> = families.into_iter().collect();
    let families = if families.is_empty() {
        "none".to_owned()
    } else {
        families.join(" ")
    };
    let mut lines = vec!["ProtectSystem=strict".to_owned()];
    let paths = directories.iter().map(|path| places::quoted(path));
    lines.extend(paths.map(|path| format!("ReadWritePaths={path}")));
    lines.push(format!("RestrictAddressFamilies={families}"));
    lines
}

/// The names of the calls, sorted.
fn names(report: &Report) -> BTreeSet<String> {
    let always = ALWAYS_ALLOWED.map(str::to_owned);
    calls_made(report)
        .map(|call| call.name)
        .chain(always)
        .collect()
}

/// The ABIs of the calls, and that of the machine.
fn abis(report: &Report) -> BTreeSet<String> {
    let native = native_abi(report).to_owned();
    calls_made(report)
        .map(|call| call.abi)
        .chain([native])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        expect::Verdict,
        profile::{CallGroups, CallProfile},
        report::sample::files::Scene,
        syscalls::Selection,
    };

    fn report() -> Report {
        let mut report = Scene::read("cp: read - 1 1, write - 1 1").report();
        report.counted = Some(Selection::All);
        report
    }

    #[test]
    fn a_seccomp_profile_allows_the_calls_of_its_run() {
        let (text, report) = (seccomp(&report()), report());
        let profile = CallProfile::parse(&text, "x86_64", || None).expect("a profile");
        assert_eq!(profile.evaluate("p", &report).verdict, Verdict::Holds);
        let mut other = report;
        other.totals.syscalls[0].name = "ptrace".into();
        assert_eq!(profile.evaluate("p", &other).verdict, Verdict::Fails);
    }

    #[test]
    fn lines_of_a_unit_name_the_calls() {
        let text = systemd(&report());
        let lines: Vec<&str> = text.lines().skip(1).collect();
        assert_eq!(
            lines,
            [
                "# Another run may need more.",
                "[Service]",
                "SystemCallArchitectures=x86-64",
                "SystemCallErrorNumber=EPERM",
                "SystemCallFilter=execve exit exit_group read restart_syscall rt_sigreturn write",
                "# With --paths, zctrace also writes ReadWritePaths= and RestrictAddressFamilies=.",
            ]
        );
    }

    #[test]
    fn lines_of_a_unit_name_directories_and_sockets() {
        let scene = Scene::read(
            "cp: read in 1 1\n\
             @ touched created out mkdir cp\n\
             @ touched written out/a openat cp\n\
             @ touched removed /tmp/x unlink cp\n\
             @ touched written /tmp/a/b openat cp\n\
             @ touched written /dev/null openat cp\n\
             @ touched written /y openat cp ENOENT\n\
             @ touched socket AF_UNIX cp",
        );
        let mut report = scene.report();
        report.counted = Some(Selection::All);
        let text = systemd(&report);
        let lines: Vec<&str> = text.lines().skip(6).collect();
        assert_eq!(
            lines,
            [
                "ProtectSystem=strict",
                "ReadWritePaths=/tmp",
                "ReadWritePaths=/work",
                "RestrictAddressFamilies=AF_UNIX",
            ]
        );
        let profile = CallProfile::parse(&text, "x86_64", || {
            Some(CallGroups::parse("@default\n    execve\n"))
        });
        let outcome = profile.expect("a unit").evaluate("p", &report);
        assert_eq!(outcome.verdict, Verdict::Holds, "{outcome}");
    }

    #[test]
    fn a_lower_bound_says_what_it_may_lack() {
        assert_eq!(what_it_may_lack(&report()), None);
        let mut report = report();
        report.counted = None;
        report.totals.other_syscalls = None;
        let lacks = what_it_may_lack(&report).expect("a sentence");
        assert!(
            lacks.ends_with("run the command again with --syscalls all"),
            "{lacks}"
        );
    }
}
