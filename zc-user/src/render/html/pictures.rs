//! The pictures of the page: a bar for each transfer, and the pipes between processes as arrows.

use maud::{Markup, html};

use super::markup::{LINE_BREAK, pieces};
use crate::{
    render::{
        page::TextLine,
        part::{Bar, Pipeline},
    },
    report::{Api, Certainty},
};

/// The share of the width, in percent, that the least bar has.
const MIN_WIDTH: u128 = 1;
/// That of a bar whose bytes are unknown.
const WIDTH_OF_UNKNOWN: u128 = 10;

/// Transfers in words, each with a bar that is as long as its bytes; what is in no transfer has
/// none.
pub(super) fn with_bars(items: &[Vec<TextLine>], bars: &[Bar]) -> Markup {
    let longest = bars.iter().filter_map(|bar| bar.bytes).max();
    html! {
        (legend(bars))
        ol.transfers {
            @for (index, item) in items.iter().enumerate() {
                (LINE_BREAK)
                li {
                    @for line in item.iter().take(1) { (pieces(line)) }
                    @if let Some(drawn) = bars.get(index) { (bar(drawn, longest.unwrap_or(0))) }
                    @for line in item.iter().skip(1) { p { (pieces(line)) } }
                }
            }
        }
    }
}

/// Which colour stands for which interface, and which look for what is not sure.
fn legend(bars: &[Bar]) -> Markup {
    let is_used = |api: &Api| bars.iter().any(|bar| bar.api == *api);
    let has = |wanted: &str| bars.iter().any(|bar| look(bar) == wanted);
    html! {
        @if !bars.is_empty() {
            ul.legend {
                @for api in Api::ALL.into_iter().filter(is_used) {
                    li { span class={ "swatch " (class(api)) } {} (api.in_words()) }
                }
                @if has("inferred") { li { "dashed: probably so many bytes" } }
                @if has("changed") { li { "hatched: changed on the way, no transfer" } }
                @if has("unknown") { li { "dotted: bytes unknown" } }
            }
        }
    }
}

fn class(api: Api) -> String {
    format!("api-{}", api.name().replace('+', "-"))
}

/// How a bar is drawn.
const fn look(bar: &Bar) -> &'static str {
    match (bar.bytes, bar.certainty) {
        (None, _) => "unknown",
        (Some(_), Certainty::Observed) => "observed",
        (Some(_), Certainty::Inferred) => "inferred",
        (Some(_), Certainty::Changed) => "changed",
    }
}

fn bar(bar: &Bar, longest: u64) -> Markup {
    let percent = |bytes| u128::from(bytes) * 100 / u128::from(longest.max(1));
    let percent = bar.bytes.map_or(WIDTH_OF_UNKNOWN, percent).max(MIN_WIDTH);
    html! { div class={ "bar " (class(bar.api)) " " (look(bar)) } style={ "width: " (percent) "%" } {} }
}

/// Who wrote into each pipe and who read from it, with the bytes on each arrow.
pub(super) fn pipeline(pipeline: &Pipeline) -> Markup {
    html! {
        p.pipeline {
            @for (index, step) in pipeline.steps.iter().enumerate() {
                @if index > 0 { " " span.arrow { (pipeline.amounts[index - 1]) " \u{2192}" } " " }
                span.step { (step) }
            }
        }
    }
}
