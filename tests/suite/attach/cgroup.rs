//! `--cgroup`: everything in a cgroup of version 2, and what enters it later.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::{AttachedTrace, calls, target, tell};
use crate::harness::wait_until;

/// A cgroup that is removed in the end.
struct TestCgroup(PathBuf);

impl TestCgroup {
    /// Makes one. The machine must have cgroups of version 2.
    #[track_caller]
    fn new(name: &str) -> Self {
        let mounts = fs::read_to_string("/proc/self/mountinfo").expect("mounts");
        let mount = mounts.lines().find(|line| line.contains(" - cgroup2 "));
        let mount = mount
            .and_then(|line| line.split(' ').nth(4))
            .expect("cgroups of version 2");
        let path = Path::new(mount).join(format!("zctrace-test-{}-{name}", std::process::id()));
        fs::create_dir_all(path.join("below")).expect("it can be made");
        Self(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("text")
    }

    /// What a target does to enter it, or the one below.
    fn enter(&self, below: bool) -> String {
        let directory = if below {
            self.0.join("below")
        } else {
            self.0.clone()
        };
        let procs = directory.join("cgroup.procs");
        format!("open('{}', 'w').write(str(os.getpid()))", procs.display())
    }
}

impl Drop for TestCgroup {
    fn drop(&mut self) {
        // Processes that were killed leave it a moment later.
        let path = self.0.clone();
        wait_until("it is empty", || {
            fs::remove_dir(path.join("below")).is_ok() || !path.join("below").exists()
        });
        wait_until("it is empty", || fs::remove_dir(&path).is_ok());
    }
}

#[test]
fn everything_in_a_cgroup_is_counted_and_what_enters_it_later() {
    let cgroup = TestCgroup::new("later");
    let mut targets: Vec<_> = (0..20).map(|_| target()).collect();
    for (place, target) in targets[..15].iter_mut().enumerate() {
        tell(target, &cgroup.enter(place % 2 == 0));
    }
    let trace = AttachedTrace::start(&["--cgroup", cgroup.path()]);
    for target in &mut targets[..15] {
        tell(target, "writes(10); child(5)");
    }
    // Before it enters, nothing counts.
    for target in &mut targets[15..] {
        tell(target, "writes(1000)");
        tell(target, &cgroup.enter(false));
        tell(target, "writes(10); child(5)");
    }
    let report = trace.end();
    let early = 15 * (10 + 5 + 1);
    // The write by which it enters is under way then; it says so, and then writes like the others.
    let late = 5 * (1 + 10 + 5 + 1);
    assert_eq!(calls(&report, "write").0, early + late);
    assert_eq!(report.totals.processes, 20 + 20);
    let attached = report.attached.expect("attached");
    assert_eq!(attached.cgroup.as_deref(), Some(cgroup.path()));
    drop(targets);
}

#[test]
fn the_trace_ends_when_the_cgroup_is_removed() {
    let cgroup = TestCgroup::new("removed");
    let mut target = target();
    tell(&mut target, &cgroup.enter(false));
    let trace = AttachedTrace::start(&["--cgroup", cgroup.path()]);
    target.say("writes(10); os._exit(0)");
    target.wait();
    drop(cgroup);
    let report = trace.ended();
    assert_eq!(calls(&report, "write").0, 10);
}
