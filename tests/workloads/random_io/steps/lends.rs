//! `vmsplice`: a pipe refers to the program's memory, which must stay as it is until the pipe is empty.

use zc_tests::chance::Chance;

use crate::log::kernel_result;
use crate::origin::Lender;
use crate::program::Program;
use crate::world::Kind::{Destination, Pipe};

impl Program {
    /// Lends memory to a pipe, and mostly drains that to a file.
    pub(super) fn lend(&mut self, chance: &mut Chance, actor: usize) {
        let (Some(pipe), Some(to)) = (self.thing(chance, &[Pipe]), self.thing(chance, &[Destination])) else { return };
        if !self.options.allows("vmsplice") || self.world.is_lent(Lender::Thing(to)) {
            return;
        }
        let length = self.length(chance);
        let pieces = self.pieces(chance, actor, length, true);
        self.verify(actor, &pieces);
        let (vector, fd) = (self.vector(actor, &pieces), self.fds(pipe).1);
        let words = format!("{} from {pieces:?}", self.name(pipe));
        // SAFETY: the vector names memory of regions, which stays as it is while it is lent.
        let call = || kernel_result(unsafe { libc::vmsplice(fd, vector.as_ptr(), vector.len(), libc::SPLICE_F_NONBLOCK) });
        let lent = self.call(actor, "vmsplice", || words, call);
        if let Ok(lent) = usize::try_from(lent) {
            let process = self.process_of(actor);
            let mut cells = self.world.load(process, &pieces, lent);
            for cell in &mut cells {
                cell.lender = Lender::Memory(process);
            }
            self.world.put(process, pipe, None, cells, "vmsplice");
        }
        let queued = self.world.things[pipe].queue.len();
        if queued > 0 && !chance.one_in(4) {
            self.splice(chance, actor, (pipe, None), (to, None), queued);
        }
    }
}
