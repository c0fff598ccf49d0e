//! The picture of the flow of bytes, as SVG: programs as boxes, what they read and wrote beside
//! them, and edges that are as wide as their bytes.

use std::borrow::Cow;

use maud::{Markup, html};

use super::{
    flow::{FlowEdge, FlowGraph, FlowNode, FlowWay},
    flow_layout::{EdgePath, LayoutEdge, NodeBox, NodeSize, layout},
    markup::{LINE_BREAK, shorten},
};
use crate::{
    render::text::{self, known},
    report::{Api, Certainty, Report},
    units,
};

/// The width of all edges on one side of the node with the most bytes.
const MAX_WIDTH: f64 = 60.0;
/// The width of an edge with few bytes, and of one whose bytes are unknown.
const MIN_WIDTH: f64 = 1.5;
const WIDTH_OF_UNKNOWN: f64 = 4.0;
/// The height of a node with two lines of text.
const NODE_HEIGHT: f64 = 38.0;
/// The width of a column of text in each line, and the room beside it.
const NAME_COLUMN: f64 = 7.0;
const ABOUT_COLUMN: f64 = 6.0;
const PADDING: f64 = 8.0;
/// A longer name is shortened.
const MAX_NAME: usize = 22;
/// A column is not drawn smaller than this share: the picture scrolls instead.
const MIN_SCALE: f64 = 0.85;
const MAX_SCALE: f64 = 1.25;

/// The section; nothing if no bytes are known to have moved.
pub(super) fn section(report: &Report) -> Option<Markup> {
    let graph = FlowGraph::from_report(report);
    if graph.edges.is_empty() {
        return None;
    }
    let widths = widths(&graph);
    let edges = graph
        .edges
        .iter()
        .zip(&widths)
        .map(|(edge, &width)| LayoutEdge {
            from: edge.from,
            to: edge.to,
            width,
        });
    let edges: Vec<LayoutEdge> = edges.collect();
    let sizes: Vec<NodeSize> = graph.nodes.iter().map(size).collect();
    let placed = layout(&sizes, &edges);
    let style = format!(
        "min-width: {:.0}px; max-width: {:.0}px",
        placed.width * MIN_SCALE,
        placed.width * MAX_SCALE
    );
    let view = format!("0 0 {:.1} {:.1}", placed.width, placed.height);
    Some(html! {
        section {
            h2 { "FLOW OF BYTES" }
            (legend(report, &graph))
            div.scroll {
                svg.flow role="img" aria-label="Which programs read and wrote what" viewBox=(view) style=(style) {
                    @for ((edge, path), width) in graph.edges.iter().zip(&placed.paths).zip(&widths) {
                        (LINE_BREAK)
                        path.(api_class(edge)).(look(edge)) d=(curve(path)) stroke-width={ (format!("{width:.1}")) } {
                            title { (title(&graph, edge)) }
                        }
                    }
                    @for (node, place) in graph.nodes.iter().zip(&placed.boxes) { (LINE_BREAK) (node_box(node, place)) }
                }
            }
        }
    })
}

/// How wide each edge is, by its bytes.
#[expect(clippy::cast_precision_loss, reason = "a picture needs three digits")]
fn widths(graph: &FlowGraph) -> Vec<f64> {
    let sums = |end: fn(&FlowEdge) -> usize| {
        let mut sums = vec![0.0; graph.nodes.len()];
        for edge in &graph.edges {
            sums[end(edge)] += edge.bytes.unwrap_or(0) as f64;
        }
        sums.into_iter().fold(0.0, f64::max)
    };
    let most = sums(|edge| edge.from).max(sums(|edge| edge.to)).max(1.0);
    let width = |bytes: u64| (bytes as f64 / most * MAX_WIDTH).max(MIN_WIDTH);
    let edges = graph.edges.iter();
    edges
        .map(|edge| edge.bytes.map_or(WIDTH_OF_UNKNOWN, width))
        .collect()
}

/// A curve through the points, level at each.
fn curve(path: &EdgePath) -> String {
    match path {
        EdgePath::Forward(points) => {
            let bend = |(index, pair): (usize, &[(f64, f64)])| {
                let [(x1, y1), (x2, y2)] = [pair[0], pair[1]];
                let middle = f64::midpoint(x1, x2);
                let start = if index == 0 { 'M' } else { 'L' };
                format!(
                    "{start}{x1:.1} {y1:.1}C{middle:.1} {y1:.1} {middle:.1} {y2:.1} {x2:.1} {y2:.1}"
                )
            };
            points.chunks_exact(2).enumerate().map(bend).collect()
        }
        EdgePath::Back { from, to, below } => {
            let ((x1, y1), (x2, y2)) = (*from, *to);
            let (right, left) = (x1 + BEND, x2 - BEND);
            format!(
                "M{x1:.1} {y1:.1}C{right:.1} {y1:.1} {right:.1} {below:.1} {x1:.1} {below:.1}L{x2:.1} {below:.1}\
                 C{left:.1} {below:.1} {left:.1} {y2:.1} {x2:.1} {y2:.1}"
            )
        }
    }
}

/// How far an edge that goes back swings out.
const BEND: f64 = 40.0;

/// As wide as its text.
fn size(node: &FlowNode) -> NodeSize {
    let width = |text: &str, column: f64| {
        let columns = u32::try_from(text::width(text)).unwrap_or(u32::MAX);
        f64::from(columns) * column
    };
    let name = short_name(node);
    let text = width(&name, NAME_COLUMN).max(width(&about(node), ABOUT_COLUMN));
    NodeSize {
        width: text + 2.0 * PADDING,
        height: NODE_HEIGHT,
    }
}

/// The name of a node; of a long path, only its last part.
fn short_name(node: &FlowNode) -> Cow<'_, str> {
    let is_long = text::width(&node.name) > MAX_NAME && !node.is_program;
    let name = if is_long {
        text::file_name(&node.name)
    } else {
        &node.name
    };
    text::shorten(name, MAX_NAME)
}

fn node_box(node: &FlowNode, place: &NodeBox) -> Markup {
    let number = |number: f64| format!("{number:.1}");
    let class = if node.is_program { "program" } else { "file" };
    let (middle, left) = (place.y + place.height / 2.0, place.x + PADDING);
    html! {
        g.(class) {
            title { (shorten(&node.name)) }
            rect x=(number(place.x)) y=(number(place.y)) width=(number(place.width)) height=(number(place.height))
                rx=(if node.is_program { 8 } else { 2 }) {}
            text x=(number(left)) y=(number(middle - 3.0)) { (short_name(node)) }
            text.faint x=(number(left)) y=(number(middle + 12.0)) { (about(node)) }
        }
    }
}

/// `2.9 MiB, regular`; `2.9 MiB → 1.0 MiB`.
fn about(node: &FlowNode) -> String {
    let bytes = |bytes: Option<u64>| known(bytes, units::bytes);
    let moved = match node.bytes {
        [came, Some(0)] => bytes(came),
        [Some(0), went] => bytes(went),
        [came, went] if bytes(came) == bytes(went) => bytes(came),
        [came, went] => format!("{} \u{2192} {}", bytes(came), bytes(went)),
    };
    if node.nature.is_empty() {
        moved
    } else {
        format!("{moved}, {}", node.nature)
    }
}

/// `in -> cp: 2.9 MiB, copy_file_range`.
fn title(graph: &FlowGraph, edge: &FlowEdge) -> String {
    let name = |node: usize| shorten(&graph.nodes[node].name);
    let bytes = known(edge.bytes, units::bytes);
    let how = match edge.way {
        FlowWay::Transfer(api, Certainty::Observed) => api.in_words(),
        FlowWay::Transfer(api, Certainty::Inferred) => format!("{}, probably", api.in_words()),
        FlowWay::Transfer(api, Certainty::Changed) => {
            format!("{}, changed on the way", api.in_words())
        }
        FlowWay::Other if graph.nodes[edge.from].is_program => "in no transfer".to_owned(),
        FlowWay::Other => "read and kept".to_owned(),
    };
    format!("{} -> {}: {bytes}, {how}", name(edge.from), name(edge.to))
}

/// Which colour stands for which interface, and which look for what is not sure.
fn legend(report: &Report, graph: &FlowGraph) -> Markup {
    let has = |wanted: &str| graph.edges.iter().any(|edge| look(edge) == wanted);
    let ways = || graph.edges.iter().map(|edge| edge.way);
    let is_used =
        |api: &Api| ways().any(|way| matches!(way, FlowWay::Transfer(one, _) if one == *api));
    let other = if report.sees_memory {
        "in no transfer".to_owned()
    } else {
        format!(
            "in no transfer that {} shows",
            text::escape(&report.backend)
        )
    };
    html! {
        ul.legend {
            @for api in Api::ALL.into_iter().filter(is_used) {
                li { span class={ "swatch " (class(api)) } {} (api.in_words()) }
            }
            @if ways().any(|way| way == FlowWay::Other) { li { span class="swatch other" {} (other) } }
            @if has("inferred") { li { "dashed: probably this many bytes" } }
            @if has("changed") { li { "striped: changed on the way, no transfer" } }
            @if has("unknown") { li { "dotted: bytes unknown" } }
        }
    }
}

fn class(api: Api) -> String {
    format!("api-{}", api.name().replace('+', "-"))
}

fn api_class(edge: &FlowEdge) -> String {
    match edge.way {
        FlowWay::Transfer(api, _) => class(api),
        FlowWay::Other => "other".to_owned(),
    }
}

/// How an edge is drawn.
const fn look(edge: &FlowEdge) -> &'static str {
    match (edge.bytes, edge.way) {
        (None, _) => "unknown",
        (Some(_), FlowWay::Transfer(_, Certainty::Inferred)) => "inferred",
        (Some(_), FlowWay::Transfer(_, Certainty::Changed)) => "changed",
        (Some(_), _) => "observed",
    }
}
