//! The files that rows use, out of all that the log tells of.

use crate::trace::{Ends, File, FileId, Input, Row};

/// Those that these rows use, in their order; from now on, the rows name them by their new positions.
pub(super) fn keep<'a>(all: Vec<File>, rows: impl Iterator<Item = &'a mut Row>) -> Vec<File> {
    let mut places = vec![None; all.len()];
    let mut all = all;
    let mut used = Vec::new();
    let mut place = |FileId(old): FileId| {
        let old = usize::try_from(old).unwrap_or(usize::MAX);
        *places[old].get_or_insert_with(|| {
            used.push(std::mem::take(&mut all[old]));
            FileId(u32::try_from(used.len() - 1).unwrap_or(u32::MAX))
        })
    };
    for row in rows {
        let Ends { input, output } = row.ends;
        let input = input.map(|input| match input {
            Input::Named(file) => Input::Named(place(file)),
            Input::LastRead(file) => Input::LastRead(place(file)),
            Input::Held(file) => Input::Held(place(file)),
            Input::Changed(file) => Input::Changed(place(file)),
            Input::Unsampled(file) => Input::Unsampled(place(file)),
            Input::Mapped(file) => Input::Mapped(place(file)),
        });
        row.ends = Ends { input, output: output.map(&mut place) };
    }
    used
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syscall::Call;

    #[test]
    fn only_what_is_used_is_kept() {
        let file = |path: &str| File { path: Some(path.to_owned()), ..File::default() };
        let row = |input, output| Row::new(Call::native("write"), Ends { input, output });
        let mut rows = [row(Some(Input::LastRead(FileId(3))), Some(FileId(1))), row(None, Some(FileId(3))), row(None, None)];
        let used = keep(["/0", "/1", "/2", "/3"].map(file).to_vec(), rows.iter_mut());
        assert_eq!(used, [file("/3"), file("/1")]);
        assert_eq!(rows[0].ends, Ends { input: Some(Input::LastRead(FileId(0))), output: Some(FileId(1)) });
        assert_eq!((rows[1].ends.output, rows[2].ends), (Some(FileId(0)), Ends::default()));
    }
}
