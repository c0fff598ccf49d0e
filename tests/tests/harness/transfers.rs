//! Finding transfers in a report by the names of their ends.

use zctrace::report::{Api, End, Report, Transfer};

/// Looking for transfers.
pub trait Transfers {
    /// The only transfer within a process between these ends: each the last part of a path, or a kind (`tcp`, `pipe`).
    fn transfer(&self, from: &str, to: &str) -> &Transfer;

    /// The only transfer that crosses processes between these ends.
    fn crossing(&self, from: &str, to: &str) -> &Transfer;

    /// All interfaces that moved bytes to an end of this name, in any process, each once.
    fn apis_to(&self, to: &str) -> Vec<Api>;
}

impl Transfers for Report {
    #[track_caller]
    fn transfer(&self, from: &str, to: &str) -> &Transfer {
        only(&self.processes.iter().flat_map(|process| &process.transfers).collect::<Vec<_>>(), from, to)
    }

    #[track_caller]
    fn crossing(&self, from: &str, to: &str) -> &Transfer {
        only(&self.transfers.iter().collect::<Vec<_>>(), from, to)
    }

    fn apis_to(&self, to: &str) -> Vec<Api> {
        let all = self.processes.iter().flat_map(|process| &process.transfers);
        let mut apis: Vec<Api> = all.filter(|transfer| is(&transfer.to, to)).map(|transfer| transfer.api).collect();
        apis.sort_unstable();
        apis.dedup();
        apis
    }
}

#[track_caller]
fn only<'a>(all: &[&'a Transfer], from: &str, to: &str) -> &'a Transfer {
    let found: Vec<_> = all.iter().filter(|transfer| is(&transfer.from, from) && is(&transfer.to, to)).collect();
    let list: Vec<_> =
        all.iter().map(|transfer| format!("{} -> {}: {}", name(&transfer.from), name(&transfer.to), transfer.verdict)).collect();
    assert_eq!(found.len(), 1, "transfers {from} -> {to}, of\n  {}", list.join("\n  "));
    found[0]
}

/// Whether an end has this file name or kind.
fn is(end: &End, wanted: &str) -> bool {
    end.kind.as_deref() == Some(wanted) || end.path.as_deref().is_some_and(|path| path.rsplit('/').next() == Some(wanted))
}

fn name(end: &End) -> String {
    format!("{} {}", end.kind.as_deref().unwrap_or("?"), end.path.as_deref().unwrap_or("?"))
}
