//! The page that text reports are written on: styled lines of limited width, and ruled tables.

use super::{table::HEAD_LINES, text};
use crate::report::{Detail, SortKey};

/// How a report is shown. Formats ignore the options that do not concern them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// The width of the terminal in columns; `None` for no limit.
    pub width: Option<usize>,
    /// The height of the terminal in lines: a report with more ends with its verdict. `None` for no
    /// limit.
    pub height: Option<usize>,
    /// Whether to use colour (ANSI escape sequences).
    pub colour: bool,
    /// Show all processes, transfers and files, not only the largest.
    pub all: bool,
    /// How calls are grouped; `None`: by process if there are few, else in all.
    pub by: Option<Detail>,
    /// Show the distribution of times.
    pub histogram: bool,
    /// The order of the calls.
    pub sort: SortKey,
}

/// The role of a text. Colour never says more than the words do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    Plain,
    Heading,
    Faint,
    Good,
    Warning,
    Bad,
}

impl Style {
    /// The parameters of its ANSI escape sequence.
    const fn sgr(self) -> Option<&'static str> {
        match self {
            Self::Plain => None,
            Self::Heading => Some("1"),
            Self::Faint => Some("2"),
            Self::Good => Some("32"),
            Self::Warning => Some("33"),
            Self::Bad => Some("31"),
        }
    }
}

/// A text of a few words that is not broken if it fits on a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) text: String,
    pub(super) style: Style,
}

impl Piece {
    pub(super) fn new(text: impl Into<String>, style: Style) -> Self {
        Self {
            text: text.into(),
            style,
        }
    }

    /// The piece itself if it fits; else it is split after its commas, and parts that are still too
    /// long are shortened.
    fn split(&self, room: usize) -> Vec<Self> {
        if text::width(&self.text) <= room {
            return vec![self.clone()];
        }
        let parts = self.text.split_inclusive(", ").map(str::trim_end);
        parts
            .map(|part| Self::new(text::shorten(part, room), self.style))
            .collect()
    }
}

/// What is said in one line, if there is room.
pub(super) type TextLine = Vec<Piece>;

/// Splits a sentence into its words.
pub(super) fn words(sentence: &str, style: Style) -> TextLine {
    let words = sentence.split_whitespace();
    words.map(|word| Piece::new(word, style)).collect()
}

/// Joins texts to a list: with a comma after each but the last.
pub(super) fn list(texts: &[String], style: Style) -> TextLine {
    let last = texts.len().saturating_sub(1);
    let comma = |index| if index < last { "," } else { "" };
    texts
        .iter()
        .enumerate()
        .map(|(index, text)| Piece::new(format!("{text}{}", comma(index)), style))
        .collect()
}

/// The pieces as one text.
pub(super) fn sentence(pieces: &[Piece]) -> String {
    pieces
        .iter()
        .map(|piece| piece.text.as_str())
        .collect::<Vec<_>>()
        .join(" ")
}

/// `never returned: read 1, exit_group 1`; `None` without any texts.
pub(super) fn titled_list(title: &str, texts: &[String], style: Style) -> Option<TextLine> {
    let mut pieces = vec![Piece::new(title, style)];
    pieces.extend(list(texts, style));
    (!texts.is_empty()).then_some(pieces)
}

/// How deep what is below a heading is indented.
pub(super) const INDENT: usize = 2;

/// The lines so far.
#[derive(Debug)]
pub(super) struct Page {
    options: Options,
    text: String,
}

impl Page {
    pub(super) fn new(options: &Options) -> Self {
        Self {
            options: *options,
            text: String::new(),
        }
    }

    /// The columns beside this indent.
    fn room(&self, indent: usize) -> usize {
        let width = self.options.width;
        width.map_or(usize::MAX, |width| width.saturating_sub(indent))
    }

    /// An empty line.
    pub(super) fn gap(&mut self) {
        self.text.push('\n');
    }

    /// One line, shortened to the width.
    pub(super) fn line(&mut self, indent: usize, style: Style, line: &str) {
        self.unbroken(indent, style, &text::shorten(line, self.room(indent)));
    }

    /// Pieces separated by spaces, on as many lines as they need. Lines after the first are
    /// indented deeper.
    pub(super) fn flow(&mut self, indent: usize, pieces: &[Piece]) {
        let lines = break_lines(pieces, self.room(indent + DEEPER));
        for (index, line) in lines.iter().enumerate() {
            self.text
                .push_str(&" ".repeat(if index == 0 { indent } else { indent + DEEPER }));
            // Neighbours of the same style share an escape sequence.
            for run in line.chunk_by(|a, b| a.style == b.style) {
                let texts: Vec<&str> = run.iter().map(|piece| piece.text.as_str()).collect();
                self.paint(run[0].style, &texts.join(" "));
                self.text.push(' ');
            }
            self.text.pop();
            self.gap();
        }
    }

    /// A sentence on as many lines as it needs.
    pub(super) fn say(&mut self, indent: usize, style: Style, sentence: &str) {
        self.flow(indent, &words(sentence, style));
    }

    /// The lines of a table, of which the first two are titles and a rule.
    pub(super) fn table(&mut self, indent: usize, lines: &[String]) {
        for (index, line) in lines.iter().enumerate() {
            let style = if index < HEAD_LINES {
                Style::Faint
            } else {
                Style::Plain
            };
            self.line(indent, style, line);
        }
    }

    /// A text broken between words into as many lines as it needs. If it fits on one line, its
    /// spaces stay as they are.
    pub(super) fn wrap(&mut self, indent: usize, style: Style, text: &str) {
        if text::width(text) <= self.room(indent) {
            self.line(indent, style, text);
        } else {
            self.flow(indent, &words(text, style));
        }
    }

    /// A line for copying, however long.
    pub(super) fn unbroken(&mut self, indent: usize, style: Style, line: &str) {
        self.text.push_str(&" ".repeat(indent));
        self.paint(style, line);
        self.gap();
    }

    /// Whether the terminal is too low for the lines so far.
    pub(super) fn is_too_long(&self) -> bool {
        let height = self.options.height.unwrap_or(usize::MAX);
        self.text.lines().count() >= height
    }

    pub(super) fn finish(self) -> String {
        self.text
    }

    fn paint(&mut self, style: Style, text: &str) {
        match style.sgr() {
            Some(sgr) if self.options.colour => {
                self.text.extend(["\x1b[", sgr, "m", text, "\x1b[0m"]);
            }
            _ => self.text.push_str(text),
        }
    }
}

/// How much deeper the other lines of a flow are indented than its first.
const DEEPER: usize = 2;

/// Distributes pieces over lines. All lines have the same room: the first does not use the indent
/// of the others.
fn break_lines(pieces: &[Piece], room: usize) -> Vec<Vec<Piece>> {
    let mut lines = vec![Vec::new()];
    let mut used = 0;
    for piece in pieces.iter().flat_map(|piece| piece.split(room)) {
        let wanted = text::width(&piece.text);
        if used > 0 && used + 1 + wanted > room {
            lines.push(Vec::new());
            used = 0;
        }
        used += wanted + usize::from(used > 0);
        if let Some(line) = lines.last_mut() {
            line.push(piece);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(width: usize, colour: bool) -> Page {
        Page::new(&Options {
            width: Some(width),
            colour,
            ..Options::default()
        })
    }

    #[test]
    fn lines_are_broken_between_pieces_and_pieces_at_commas() {
        let times = ["exit 0", "wall 1.234 s", "user 0.1 s"].map(str::to_owned);
        let long = Piece::new("switches: 12 voluntary, 3 involuntary;", Style::Plain);
        for (width, indent, pieces, expected) in [
            (
                20,
                2,
                list(&times, Style::Plain),
                "  exit 0,\n    wall 1.234 s,\n    user 0.1 s\n",
            ),
            (
                18,
                0,
                vec![long, Piece::new("cpu", Style::Plain)],
                "switches…untary,\n  3 involuntary;\n  cpu\n",
            ),
        ] {
            let mut page = page(width, false);
            page.flow(indent, &pieces);
            assert_eq!(page.finish(), expected);
        }
        let mut page = page(16, false);
        page.wrap(2, Style::Plain, "a  b");
        page.wrap(0, Style::Plain, "fails: write.calls == 0");
        page.unbroken(2, Style::Plain, "cp 'a file' there");
        let expected = "  a  b\nfails:\n  write.calls ==\n  0\n  cp 'a file' there\n";
        assert_eq!(page.finish(), expected);
    }

    #[test]
    fn neighbours_of_the_same_style_share_an_escape_sequence() {
        let mut page = page(17, true);
        let mut pieces = words("read errors:", Style::Warning);
        pieces.push(Piece::new("3", Style::Plain));
        page.flow(0, &pieces[..2]);
        // A line is shortened before it is coloured.
        page.line(11, Style::Heading, "copier in out");
        let expected = "\x1b[33mread errors:\x1b[0m\n           \x1b[1mcop…ut\x1b[0m\n";
        assert_eq!(page.finish(), expected);
    }
}
