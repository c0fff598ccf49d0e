//! `zctrace doctor` for a person: first the backend that `auto` takes, then each backend with what
//! it lacks.

use super::{
    page::{Options, Page, Piece, Style, words},
    text,
};
use crate::doctor::{BackendDiagnosis, Diagnosis, FindingState, MachineFinding};

/// The page.
pub(super) fn render(diagnosis: &Diagnosis, options: &Options) -> String {
    let mut page = Page::new(options);
    page.flow(0, &first_line(diagnosis));
    page.gap();
    page.say(0, Style::Plain, &text::escape(&diagnosis.machine));
    for backend in &diagnosis.backends {
        page.gap();
        write_backend(&mut page, backend);
    }
    page.finish()
}

/// The backend that `auto` takes.
fn first_line(diagnosis: &Diagnosis) -> Vec<Piece> {
    let (said, style) = match diagnosis.auto.backend {
        Some(backend) => (format!("auto uses {backend}, since "), Style::Heading),
        None => ("no backend can run. ".to_owned(), Style::Bad),
    };
    words(&text::escape(&(said + &diagnosis.auto.why)), style)
}

/// A backend: whether it can run, the findings, what it can do.
fn write_backend(page: &mut Page, backend: &BackendDiagnosis) {
    let (verdict, style, label) = if backend.usable {
        ("can run", Style::Good, "reports:")
    } else {
        ("cannot run", Style::Bad, "would report:")
    };
    let mut heading = words(&format!("{}:", backend.name), Style::Heading);
    heading.extend(words(verdict, style));
    page.flow(0, &heading);
    for finding in &backend.findings {
        write_finding(page, finding);
    }
    page.say(
        2,
        Style::Plain,
        &format!("{label} {}", backend.can.join("; ")),
    );
    if !backend.cannot.is_empty() {
        let cannot = text::escape(&backend.cannot.join("; "));
        page.say(2, Style::Plain, &format!("but: {cannot}"));
    }
}

/// A finding, and its remedy below it, deeper. The user copies it, so it is not broken even on a
/// narrow terminal.
fn write_finding(page: &mut Page, finding: &MachineFinding) {
    let (state, style) = match finding.state {
        FindingState::Ok => ("ok     ", Style::Good),
        FindingState::Warning => ("warning", Style::Warning),
        FindingState::Missing => ("missing", Style::Bad),
    };
    let what = text::escape(&format!("{}: {}", finding.what, finding.detail));
    let mut pieces = vec![Piece::new(state, style)];
    pieces.extend(words(&what, Style::Plain));
    page.flow(2, &pieces);
    if let Some(remedy) = &finding.remedy {
        page.unbroken(6, Style::Heading, &text::escape(remedy));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        doctor::{MachineFacts, diagnose, sample_machines},
        render::{
            PlainFormat, diagnosis,
            report_tests::{assert_snapshot, at_width, check_page},
        },
    };

    fn table(facts: &MachineFacts, options: &Options) -> String {
        render(&diagnose(facts), options)
    }

    #[test]
    fn pages_of_a_root_user_and_of_a_container() {
        assert_snapshot(
            "doctor-root",
            &table(&sample_machines::root(), &Options::default()),
        );
        assert_snapshot(
            "doctor-container",
            &table(&sample_machines::container(), &at_width(60)),
        );
    }

    #[test]
    fn only_remedies_may_be_wider_than_the_terminal() {
        for facts in [
            sample_machines::root(),
            sample_machines::user(),
            sample_machines::container(),
        ] {
            let page = |options: &Options| table(&facts, options);
            let coloured = check_page(page, |line| line.starts_with("      "));
            let is_missing = coloured.contains("  \x1b[31mmissing\x1b[0m privileges: ");
            assert_eq!(is_missing, facts != sample_machines::root());
        }
    }

    #[test]
    fn json_has_the_diagnosis() {
        let options = Options::default();
        let json = diagnosis(
            &diagnose(&sample_machines::user()),
            PlainFormat::Json,
            &options,
        );
        assert_snapshot("doctor-json", &json);
    }
}
