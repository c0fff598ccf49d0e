//! The transfers as a picture: sources on the left, destinations on the right, and between them
//! bands that are as thick as their bytes. Below it the same transfers in the words of the table.

use maud::{Markup, PreEscaped, html};

use super::markup::{LINE_BREAK, piece, pieces};
use crate::{
    render::{
        page::{Options, Style, TextLine, sentence},
        text,
        transfers::{self, Band, BandSide},
    },
    report::{Api, Certainty, Report},
    units,
};

/// How thick all bands of known bytes are together, beyond the least of each.
const THICKNESS: u64 = 170;
/// How thick each band is at least.
const LEAST_THICKNESS: u64 = 2;
/// How much room each band has at its ends at least: that of its amount.
const LEAST_SLOT: u64 = 20;
/// How much room each end has at least: that of its name, which may take four lines.
const LEAST_NODE: u64 = 62;
/// The room between two ends.
const GAP: u64 = 6;
/// A longer name is shortened in the picture. The list below it has more of it.
const LONGEST_NAME: usize = 56;

pub(super) fn section(report: &Report, options: &Options) -> Markup {
    let bands = transfers::bands(report, options);
    let part = transfers::part(report, options);
    html! {
        section {
            h2 { "Bytes between ends" }
            @if !bands.is_empty() { (legend(&bands)) (picture(&bands)) }
            @if let Some(part) = part {
                h3 { (sentence(&part.heading)) }
                ol.transfers {
                    @for (index, item) in part.items.iter().enumerate() { (LINE_BREAK) (self::item(item, bands.get(index))) }
                }
            } @else {
                p { "no transfers recognised" }
            }
        }
    }
}

/// A transfer in words, with the colour of its band; what is in no transfer has none.
fn item(item: &[TextLine], band: Option<&Band<'_>>) -> Markup {
    html! {
        li class=[band.is_none().then_some("rest")] {
            @if let Some(band) = band { (swatch(band.api)) }
            @for (index, line) in item.iter().enumerate() {
                @if index == 0 { (pieces(line)) } @else { p { (pieces(line)) } }
            }
        }
    }
}

/// Which colour stands for which interface.
fn legend(bands: &[Band<'_>]) -> Markup {
    let apis = Api::ALL
        .into_iter()
        .filter(|api| bands.iter().any(|band| band.api == *api));
    let has = |style: Stroke| bands.iter().any(|band| Stroke::of_band(band) == style);
    html! {
        ul.legend {
            @for api in apis { li { (swatch(api)) (api.in_words()) } }
            @if has(Stroke::Inferred) { li { "dashed: probably so many bytes" } }
            @if has(Stroke::Unknown) { li { "dotted: bytes unknown" } }
        }
    }
}

fn swatch(api: Api) -> Markup {
    html! { svg class={ "swatch " (class(api)) } width="12" height="12" aria-hidden="true" { rect width="12" height="12" {} } }
}

fn class(api: Api) -> String {
    format!("api-{}", api.name().replace('+', "-"))
}

/// How a band is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stroke {
    Observed,
    Inferred,
    Unknown,
}

impl Stroke {
    const fn of_band(band: &Band<'_>) -> Self {
        match (band.bytes, band.certainty) {
            (None, _) => Self::Unknown,
            (Some(_), Certainty::Observed) => Self::Observed,
            (Some(_), Certainty::Inferred) => Self::Inferred,
        }
    }

    const fn class(self) -> &'static str {
        match self {
            Self::Observed => "observed",
            Self::Inferred => "inferred",
            Self::Unknown => "unknown",
        }
    }
}

/// One end, or several in common, on one side of the picture.
struct Node<'a> {
    side: &'a BandSide<'a>,
    /// Which bands begin or end here.
    bands: Vec<usize>,
    /// The room that they need.
    used: u64,
    top: u64,
}

impl Node<'_> {
    fn height(&self) -> u64 {
        self.used.max(LEAST_NODE)
    }
}

/// Where everything is. The unit is a pixel.
struct FlowLayout<'a> {
    thickness: Vec<u64>,
    /// The nodes on both sides.
    nodes: [Vec<Node<'a>>; 2],
    /// The middle of each band at both ends.
    middles: Vec<[u64; 2]>,
    height: u64,
}

impl<'a> FlowLayout<'a> {
    fn of_bands(bands: &'a [Band<'a>]) -> Self {
        let known = bands.iter().filter_map(|band| band.bytes);
        let all = u128::from(known.fold(0, u64::saturating_add).max(1));
        let share = |bytes: u64| {
            let share = u128::from(bytes) * u128::from(THICKNESS) / all;
            u64::try_from(share).unwrap_or(THICKNESS)
        };
        let thick = |band: &Band<'_>| LEAST_THICKNESS + band.bytes.map_or(0, share);
        let thickness: Vec<u64> = bands.iter().map(thick).collect();
        let slots = thickness.iter().map(|thick| (thick + 2).max(LEAST_SLOT));
        let slots: Vec<u64> = slots.collect();
        let mut nodes = [0, 1].map(|side| nodes(bands, side, &slots));
        let room = |node: &Node<'_>| node.height() + GAP;
        let heights: [u64; 2] = nodes.each_ref().map(|nodes| nodes.iter().map(room).sum());
        let height = heights[0].max(heights[1]);
        let mut middles = vec![[0, 0]; bands.len()];
        for (side, nodes) in nodes.iter_mut().enumerate() {
            // The lower side is in the middle of the higher one.
            let mut next: u64 = (height - heights[side]) / 2;
            for node in nodes {
                node.top = next;
                next += room(node);
                let mut top = node.top + (node.height() - node.used) / 2;
                for &band in &node.bands {
                    middles[band][side] = top + slots[band] / 2;
                    top += slots[band];
                }
            }
        }
        Self {
            thickness,
            nodes,
            middles,
            height,
        }
    }
}

/// The different ends of one side, in the order of the bands, which need so much room.
fn nodes<'a>(bands: &'a [Band<'a>], side: usize, slots: &[u64]) -> Vec<Node<'a>> {
    let mut nodes: Vec<Node<'a>> = Vec::new();
    for (index, (band, slot)) in bands.iter().zip(slots).enumerate() {
        match nodes.iter_mut().find(|node| *node.side == band.sides[side]) {
            Some(node) => {
                node.bands.push(index);
                node.used += slot;
            }
            None => nodes.push(Node {
                side: &band.sides[side],
                bands: vec![index],
                used: *slot,
                top: 0,
            }),
        }
    }
    nodes
}

/// The picture. Names and amounts keep their size on every screen; the bands become as long as
/// there is room.
fn picture(bands: &[Band<'_>]) -> Markup {
    let layout = FlowLayout::of_bands(bands);
    let height = layout.height;
    html! {
        svg.flow width="100%" height=(height) role="img" aria-label="bytes from sources to destinations" {
            svg x="33%" width="34%" height=(height) viewBox={ "0 0 100 " (height) } preserveAspectRatio="none" {
                @for (index, band) in bands.iter().enumerate() { (LINE_BREAK) (path(band, &layout, index)) }
            }
            @for (band, [left, _]) in bands.iter().zip(&layout.middles) {
                text.amount x="34.5%" y=(left + 4) { (amount(band)) }
            }
            @for (side, nodes) in layout.nodes.iter().enumerate() {
                @for node in nodes { (LINE_BREAK) (name(node, side)) }
            }
        }
    }
}

fn amount<'a>(band: &'a Band<'_>) -> &'a str {
    if band.amount == units::UNKNOWN {
        "unknown"
    } else {
        &band.amount
    }
}

/// A band from its source to its destination.
fn path(band: &Band<'_>, layout: &FlowLayout<'_>, index: usize) -> Markup {
    let [left, right] = layout.middles[index];
    let width = layout.thickness[index];
    let ends = band
        .sides
        .each_ref()
        .map(|side| text::shorten(&sentence(&side.label), LONGEST_NAME).into_owned());
    html! {
        path class={ "band " (class(band.api)) " " (Stroke::of_band(band).class()) } stroke-width=(width)
            d=(PreEscaped(format!("M0 {left} C50 {left} 50 {right} 100 {right}"))) {
            title { (ends[0]) " to " (ends[1]) ": " (amount(band)) ", " (band.api.in_words()) }
        }
    }
}

/// The name of an end beside the bands, and a bar between the two.
fn name(node: &Node<'_>, side: usize) -> Markup {
    let (x, bar, class) = if side == 0 {
        ("0", "32.4%", "from")
    } else {
        ("67.8%", "67%", "to")
    };
    html! {
        rect.end x=(bar) y=(node.top) width="0.6%" height=(node.height()) {}
        foreignObject x=(x) y=(node.top) width="32%" height=(node.height()) {
            div class={ "end " (class) } {
                span {
                    @for (index, part) in node.side.label.iter().enumerate() {
                        @if index > 0 { " " }
                        (piece(&text::shorten(part.text(), LONGEST_NAME), faint(part.style())))
                    }
                }
            }
        }
    }
}

/// Beside a name all else is faint.
const fn faint(style: Style) -> Style {
    match style {
        Style::Heading => Style::Heading,
        _ => Style::Faint,
    }
}
