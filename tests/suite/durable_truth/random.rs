//! Random scripts for `file-script`, each with what a crash may lose according to the model.

use std::collections::BTreeMap;

use zc_tests::truth::Rng;

use super::file_model::{FileModel, Lost, ModelOutcome, SLOTS};

/// A script, and what the model says of it.
pub struct RandomScript {
    /// The number that it was made of.
    pub seed: u64,
    /// Its steps.
    pub text: String,
    /// The sync that fails whenever the script makes it, as a disk error would have it.
    pub failing: Option<&'static str>,
    /// What a crash at the end may lose.
    pub lost: Lost,
    /// What a crash at each mark may lose.
    pub marks: BTreeMap<String, Lost>,
    /// What a crash may lose when it tells others something; `None`: it does not.
    pub told: Option<Lost>,
}

/// Chooses the steps of a script.
struct ScriptRandom {
    rng: Rng,
    failing: Option<&'static str>,
    has_rings: bool,
}

impl ScriptRandom {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        Self {
            failing: (rng.one_in(5)).then(|| rng.pick(&["fsync", "fdatasync"])),
            has_rings: rng.one_in(20),
            rng,
        }
    }

    fn below(&mut self, count: usize) -> usize {
        self.rng.below(count)
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        self.rng.pick(all)
    }

    fn path(&mut self) -> String {
        const PATHS: [&str; 14] = [
            "a", "b", "c", "z", "d/a", "d/b", "d/c", "d", "e", "e/a", "e/b", "s", "s/a", "/d/a",
        ];
        match self.below(80) {
            // Through a symbolic link that no call made.
            0 => self.one_of(&["l", "l/a", "l/b"]).to_owned(),
            // From a directory that is open.
            1..=5 => format!("{}:{}", self.slot(), self.one_of(&["a", "b", "c"])),
            _ => self.one_of(&PATHS).to_owned(),
        }
    }

    fn slot(&mut self) -> &'static str {
        self.one_of(&["0", "1", "2", "3"][..SLOTS])
    }

    /// A step that opens something.
    fn opening(&mut self) -> String {
        const FLAGS: [&str; 14] = [
            "w", "w", "wcx", "wcx", "wcx", "wc", "wct", "wt", "wcxs", "wd", "p", "wcxa", "rt",
            "pct",
        ];
        let (slot, path) = (self.slot(), self.path());
        match self.below(18) {
            4 => format!("open {slot} {} D", self.one_of(&["d", "e", "s", "."])),
            5 => format!(
                "handle {slot} {path} {}",
                self.one_of(&["w", "w", "w", "w", "wt", "ws"])
            ),
            6 if self.rng.one_in(3) => format!("take {slot}"),
            6 | 7 => format!("redirect {} {slot}", self.one_of(&["1", "2"])),
            0 => format!("tmpfile {slot} {}", self.one_of(&[".", "d", "e"])),
            1 => format!("open {slot} {path} r"),
            2 => format!("dup {slot} {}", self.slot()),
            3 => format!("close {slot}"),
            _ => format!("open {slot} {path} {}", self.one_of(&FLAGS)),
        }
    }

    /// A step that changes content.
    fn change(&mut self) -> String {
        const CALLS: [&str; 10] = [
            "write",
            "write",
            "write",
            "write",
            "writev",
            "pwrite",
            "dsync-write",
            "sync-write",
            "append-write",
            "splice",
        ];
        const STORES: [&str; 13] = [
            "",
            " msync",
            " msync",
            " late",
            " late msync",
            " key",
            " key msync",
            " moved msync",
            " moved late",
            " moved late msync",
            " wide part msync",
            " wide elsewhere msync",
            " wide cut msync",
        ];
        let slot = self.slot();
        match self.below(16) {
            15 => format!(
                "{} {slot} {}",
                self.one_of(&["clone", "clone-range"]),
                self.slot()
            ),
            0 => format!(
                "{} {slot} {}",
                self.one_of(&["copy", "sendfile"]),
                self.slot()
            ),
            1 => format!("store {slot}{}", self.one_of(&STORES)),
            14 => "complain".to_owned(),
            2 | 3 => format!("ftruncate {slot} {}", self.one_of(&["0", "15", "5000"])),
            4 => format!("truncate {} {}", self.path(), self.one_of(&["0", "15"])),
            5 => {
                let how = self.one_of(&["grow", "within", "keep", "punch"]);
                format!("fallocate {slot} {how}")
            }
            6 if self.has_rings => format!("ring-write {slot}"),
            7 if self.has_rings => format!("aio-write {slot}"),
            _ => format!("{} {slot}", self.one_of(&CALLS)),
        }
    }

    /// A step that changes names.
    fn naming(&mut self) -> String {
        let (one, other) = (self.path(), self.path());
        match self.below(16) {
            0 | 1 => format!("mkdir {one}"),
            2 => format!("rmdir {one}"),
            3..=5 => format!("unlink {one}"),
            6 => format!("symlink {} s", self.one_of(&["d", "e", "a"])),
            7 | 8 => format!("link {one} {other}"),
            9 => format!("exchange {one} {other}"),
            10 => format!(
                "{} {} {one}",
                self.one_of(&["linkfd", "linkempty"]),
                self.slot()
            ),
            _ => format!("rename {one} {other}"),
        }
    }

    fn sync(&mut self) -> String {
        match self.below(48) {
            // It waits for all disks of the machine.
            0 => "sync".to_owned(),
            1..=5 => format!("syncfs {}", self.slot()),
            46 => format!("range-sync {}", self.slot()),
            47 => self.may_fail("fsync-stderr", "fsync"),
            6..=9 if self.has_rings => format!("ring-fdatasync {}", self.slot()),
            18..=21 if self.has_rings => format!("ring-fsync {}", self.slot()),
            6..=17 => format!(
                "{} {}",
                self.may_fail("fdatasync", "fdatasync"),
                self.slot()
            ),
            18..=29 => format!("{} {}", self.may_fail("fsync", "fsync"), self.slot()),
            _ => format!(
                "{} {}",
                self.may_fail("syncdir", "fsync"),
                self.one_of(&[".", ".", "/.", "d", "e", "s", "/d"])
            ),
        }
    }

    /// A step that makes a sync, which must fail if that always does.
    fn may_fail(&self, step: &str, call: &str) -> String {
        if self.failing == Some(call) {
            format!("!{step}")
        } else {
            step.to_owned()
        }
    }

    fn step(&mut self, is_full: bool) -> String {
        if is_full {
            return self.sync();
        }
        match self.below(32) {
            0..=6 => self.opening(),
            7..=14 => self.change(),
            15..=20 => self.naming(),
            21..=28 => self.sync(),
            29 => format!("chdir {}", self.one_of(&["d", "e", "..", "/.", "s"])),
            30 => self.one_of(&["fork", "thread", "join", "join"]).to_owned(),
            _ => self.one_of(&["mark", "tell"]).to_owned(),
        }
    }
}

/// No script has more marks: the model is slow.
const MAX_MARKS: usize = 2;

/// The script of this number. `can_clone`: files can be cloned where it runs.
pub fn script(seed: u64, can_clone: bool) -> RandomScript {
    let mut random = ScriptRandom::new(seed);
    let mut model = FileModel::new(can_clone);
    let length = 4 + random.below(20);
    let mut steps: Vec<String> = Vec::new();
    for _ in 0..length * 6 {
        if steps.len() >= length {
            break;
        }
        let mut step = random.step(model.is_full());
        if step == "mark" || step == "tell" {
            let is_mark = |step: &&String| step.starts_with("mark") || *step == "tell";
            if steps.iter().filter(is_mark).count() >= MAX_MARKS {
                continue;
            }
            if step == "mark" {
                step = format!("mark m{}", steps.len());
            }
        }
        match perform(&mut model, &step, steps.len()) {
            ModelOutcome::Done => steps.push(step),
            ModelOutcome::Fails if random.below(3) == 0 => steps.push(format!("!{step}")),
            ModelOutcome::Fails | ModelOutcome::Skipped => {}
        }
    }
    if model.is_apart() {
        perform(&mut model, "join", steps.len());
        steps.push("join".to_owned());
    }
    RandomScript {
        seed,
        failing: random.failing,
        text: steps.join("; "),
        lost: model.lost_files(),
        marks: model.marks,
        told: model.told,
    }
}

/// Performs the step of this number in the model.
fn perform(model: &mut FileModel, step: &str, number: usize) -> ModelOutcome {
    let words: Vec<&str> = step.split(' ').collect();
    // What `file-script` writes in a step of this number.
    model.perform_step(&words, 10 * (1 + number as u64 % 3))
}
