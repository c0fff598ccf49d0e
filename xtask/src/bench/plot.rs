//! Draws figures as bars, in SVG.

use std::fmt::Write as _;

/// Width of the names, of the longest bar, and of the figures beside the bars, px.
const NAMES: f64 = 220.0;
const LONGEST: f64 = 420.0;
const FIGURES: f64 = 90.0;
/// Height of a line, px.
const LINE: f64 = 26.0;

/// A bar for each name and its ns a call, but for the first, which the others are compared with.
pub(super) fn bars(rows: &[(&str, f64)]) -> String {
    let rows = rows.get(1..).unwrap_or_default();
    let most = rows.iter().map(|(_, ns)| *ns).fold(1.0, f64::max);
    let width = NAMES + LONGEST + FIGURES;
    let height = rows.iter().fold(LINE, |height, _| height + LINE);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"13\">\n"
    );
    let _ = writeln!(
        svg,
        "<text x=\"{NAMES}\" y=\"17\" fill=\"#777\">added to a call, ns</text>"
    );
    let mut y = LINE;
    for (name, ns) in rows {
        let length = (ns.max(0.0) / most) * LONGEST;
        let (text_y, bar_y, name_end, figure_x) =
            (y + 17.0, y + 4.0, NAMES - 10.0, NAMES + length + 6.0);
        let name = name.replace('&', "&amp;").replace('<', "&lt;");
        let _ = writeln!(
            svg,
            "<text x=\"{name_end}\" y=\"{text_y}\" text-anchor=\"end\" fill=\"#777\">{name}</text>"
        );
        let _ = writeln!(
            svg,
            "<rect x=\"{NAMES}\" y=\"{bar_y}\" width=\"{length:.1}\" height=\"18\" fill=\"#3b7dd8\"/>"
        );
        let _ = writeln!(
            svg,
            "<text x=\"{figure_x:.1}\" y=\"{text_y}\" fill=\"#777\">{ns:.0}</text>"
        );
        y += LINE;
    }
    svg.push_str("</svg>\n");
    svg
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_bar_has_the_whole_width_and_names_are_escaped() {
        let svg = bars(&[("untraced", 0.0), ("a < b", 50.0), ("c", 100.0)]);
        assert!(
            svg.contains("width=\"210.0\"") && svg.contains("width=\"420.0\""),
            "{svg}"
        );
        assert!(
            svg.contains("a &lt; b") && !svg.contains("untraced"),
            "{svg}"
        );
    }
}
