//! Finds tasks that already run, by a walk over all tasks, which user space runs.

use std::io::{self, Read as _};

use aya::programs::Iter;
use zc_ebpf::{Control, EVERY_CGROUP, programs};

use crate::{
    attach::{AttachError, Held},
    backend::{
        RunError,
        ebpf::{
            attach::hooks::Hook,
            load::{
                object::Loaded,
                unavailable::{self, no_program, program_refused},
            },
            read::table::Table as _,
        },
    },
};

impl Loaded {
    /// Says which tasks [`walk`](Self::walk) finds from now on, and which it will find once they
    /// enter a cgroup.
    pub(crate) fn look_for(&mut self, held: &Held) -> Result<(), RunError> {
        let Some(attaching) = &mut self.attaching else {
            return Ok(());
        };
        attaching.targets.clear()?;
        for pid in held.pids() {
            let inserted = attaching.targets.insert(pid, 0, 0);
            inserted.map_err(|_| AttachError::NoRoom)?;
        }
        let mut control = Control {
            tracer_pid: std::process::id(),
            ..self.at_start
        };
        match held {
            Held::Processes(_) => {}
            Held::Cgroup(cgroup) => {
                if !attaching.sees_cgroups {
                    return Err(AttachError::KernelWithoutCgroups.into());
                }
                control.cgroup = cgroup.id;
                self.links.watching_cgroup = Some(self.attach_hook(Hook::for_cgroup())?);
            }
            Held::System => control.cgroup = EVERY_CGROUP,
        }
        Ok(self.set_control(control)?)
    }

    /// Walks over all tasks and follows those that are looked for, until a walk finds nothing more.
    /// After each walk, `drain` reads its messages.
    pub fn find_tasks(&mut self, mut drain: impl FnMut()) -> Result<(), RunError> {
        if let Some(attaching) = &self.attaching {
            attaching.groups.clear()?;
        }
        let mut found = self.control.get(&0, 0)?.found;
        loop {
            self.walk()?;
            drain();
            let now = self.control.get(&0, 0)?.found;
            if now == found {
                return Ok(());
            }
            found = now;
        }
    }

    /// Has the kernel walk over all tasks once.
    fn walk(&mut self) -> Result<(), RunError> {
        let refused = |error| program_refused(programs::WALK, &error);
        let program = self.ebpf.program_mut(programs::WALK);
        let program = program.ok_or_else(|| no_program(programs::WALK))?;
        let program = <&mut Iter>::try_from(program).map_err(refused)?;
        let link = program.attach().and_then(|link| program.take_link(link));
        let walk = link.map_err(refused)?.into_file();
        let mut walk = walk.map_err(|error| unavailable::refused(&error))?;
        // The program writes nothing, so the first read that succeeds has come to the end. The kernel
        // interrupts it after a million tasks.
        while let Err(error) = walk.read(&mut [0; 64]) {
            if !is_interrupted(&error) {
                return Err(error.into());
            }
        }
        Ok(())
    }
}

fn is_interrupted(error: &io::Error) -> bool {
    [io::ErrorKind::WouldBlock, io::ErrorKind::Interrupted].contains(&error.kind())
}
