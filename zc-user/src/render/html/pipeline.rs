//! The pipes between processes as a picture: who wrote into each and who read from it, with the
//! bytes on each arrow.

use maud::{Markup, html};

use super::markup::LINE_BREAK;
use crate::{
    render::{
        page::Options,
        pipes::{self, Pipeline},
    },
    report::Report,
};

pub(super) fn section(report: &Report, options: &Options) -> Option<Markup> {
    let pipelines = pipes::pipelines(report, options);
    (!pipelines.is_empty()).then(|| {
        html! {
            section {
                h2 { "Pipes between processes" }
                @for pipeline in &pipelines { (LINE_BREAK) (picture(pipeline)) }
            }
            (LINE_BREAK)
        }
    })
}

fn picture(pipeline: &Pipeline) -> Markup {
    html! {
        p.pipeline {
            @for (index, step) in pipeline.steps.iter().enumerate() {
                @if index > 0 { " " span.arrow { (pipeline.amounts[index - 1]) " \u{2192}" } " " }
                span.step { (step) }
            }
        }
    }
}
