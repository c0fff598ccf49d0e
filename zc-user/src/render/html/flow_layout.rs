//! Places the nodes of a graph in columns, and its edges between them: pure arithmetic.
//!
//! A node is in the column behind all that it gets bytes from; edges that would close a circle are
//! drawn back below everything. An edge that passes a column has a place of its own there, so that
//! it goes through no node.

use std::collections::BTreeMap;

/// The room between columns and between nodes, in the picture's units.
const COLUMN_GAP: f64 = 54.0;
const ROW_GAP: f64 = 14.0;
/// The room around all of it, and at the sides for edges that go back.
const MARGIN: f64 = 4.0;
const SIDE_OF_BACK: f64 = 36.0;
/// How often nodes are ordered by their neighbours.
const SWEEPS: usize = 8;

/// The least size of a node: it is higher if its edges need it.
#[derive(Debug, Clone, Copy)]
pub(super) struct NodeSize {
    pub(super) width: f64,
    pub(super) height: f64,
}

/// An edge to place.
#[derive(Debug, Clone, Copy)]
pub(super) struct LayoutEdge {
    pub(super) from: usize,
    pub(super) to: usize,
    /// How wide it is drawn.
    pub(super) width: f64,
}

/// A placed graph.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) width: f64,
    pub(super) height: f64,
    /// The nodes, in the order in which they were given.
    pub(super) boxes: Vec<NodeBox>,
    /// The edges likewise.
    pub(super) paths: Vec<EdgePath>,
}

/// The place of a node, or of an edge that passes a column: its upper left corner and its size.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct NodeBox {
    pub(super) column: usize,
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) width: f64,
    pub(super) height: f64,
}

/// The way of an edge.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum EdgePath {
    /// From left to right: where it leaves or enters each node or column.
    Forward(Vec<(f64, f64)>),
    /// Back, from the right of one node to the left of another, below this height.
    Back {
        from: (f64, f64),
        to: (f64, f64),
        below: f64,
    },
}

/// Places nodes of these sizes, and these edges, of which the first ones matter most.
pub(super) fn layout(sizes: &[NodeSize], edges: &[LayoutEdge]) -> Layout {
    let is_forward = without_circles(sizes.len(), edges);
    let columns = columns(sizes.len(), edges, &is_forward);
    let mut grid = Grid::new(sizes, edges, &is_forward, &columns);
    grid.order();
    grid.place();
    grid.finish(edges)
}

/// Which edges can go from left to right: an edge that closes a circle with those before it cannot.
fn without_circles(nodes: usize, edges: &[LayoutEdge]) -> Vec<bool> {
    let mut next: Vec<Vec<usize>> = vec![Vec::new(); nodes];
    let mut accept = |edge: &LayoutEdge| {
        let (mut seen, mut reached) = (vec![false; nodes], vec![edge.to]);
        while let Some(node) = reached.pop() {
            if !std::mem::replace(&mut seen[node], true) {
                reached.extend(&next[node]);
            }
        }
        let is_forward = !seen[edge.from];
        if is_forward {
            next[edge.from].push(edge.to);
        }
        is_forward
    };
    edges.iter().map(&mut accept).collect()
}

/// The column of each node: behind all that lead to it, but a node to which nothing leads is just
/// before the first that it leads to.
fn columns(nodes: usize, edges: &[LayoutEdge], is_forward: &[bool]) -> Vec<usize> {
    let mut columns = vec![0_usize; nodes];
    let forward = || {
        edges
            .iter()
            .zip(is_forward)
            .filter(|(_, is)| **is)
            .map(|(edge, _)| edge)
    };
    // Without circles, the longest way has fewer edges than there are nodes.
    for _ in 0..nodes {
        for edge in forward() {
            columns[edge.to] = columns[edge.to].max(columns[edge.from] + 1);
        }
    }
    for node in 0..nodes {
        let next = forward().filter(|edge| edge.from == node);
        let next = next.map(|edge| columns[edge.to]).min();
        if let Some(next) = next.filter(|_| forward().all(|edge| edge.to != node)) {
            columns[node] = next.saturating_sub(1);
        }
    }
    columns
}

/// The columns with what is in each: nodes, and edges that pass it.
struct Grid {
    boxes: Vec<NodeBox>,
    /// How many of `boxes` are nodes.
    nodes: usize,
    /// What is in each column, from top to bottom.
    columns: Vec<Vec<usize>>,
    /// The boxes that each forward edge goes through; empty for one that goes back.
    routes: Vec<Vec<usize>>,
    widths: Vec<f64>,
    /// The nodes from which edges go back, and no others: they are the lowest of their columns, so that
    /// these edges cross few others.
    only_back: Vec<bool>,
}

impl Grid {
    fn new(
        sizes: &[NodeSize],
        edges: &[LayoutEdge],
        is_forward: &[bool],
        columns: &[usize],
    ) -> Self {
        let mut boxes = Vec::new();
        for (node, size) in sizes.iter().enumerate() {
            let sum = |is_end: &dyn Fn(&LayoutEdge) -> bool| {
                edges
                    .iter()
                    .filter(|edge| is_end(edge))
                    .map(|edge| edge.width)
                    .sum::<f64>()
            };
            let needed = sum(&|edge| edge.from == node).max(sum(&|edge| edge.to == node));
            boxes.push(NodeBox {
                column: columns[node],
                width: size.width,
                height: size.height.max(needed),
                ..NodeBox::default()
            });
        }
        let mut routes = Vec::new();
        for (edge, &is_forward) in edges.iter().zip(is_forward) {
            let mut route = Vec::new();
            if is_forward {
                route.push(edge.from);
                for column in columns[edge.from] + 1..columns[edge.to] {
                    route.push(boxes.len());
                    boxes.push(NodeBox {
                        column,
                        height: edge.width,
                        ..NodeBox::default()
                    });
                }
                route.push(edge.to);
            }
            routes.push(route);
        }
        let count = boxes.iter().map(|one| one.column + 1).max().unwrap_or(0);
        let mut in_columns = vec![Vec::new(); count];
        for (index, one) in boxes.iter().enumerate() {
            in_columns[one.column].push(index);
        }
        let is_back = |node: usize| {
            let mut leaving = edges
                .iter()
                .zip(is_forward)
                .filter(|(edge, _)| edge.from == node);
            leaving.clone().count() > 0 && leaving.all(|(_, is_forward)| !is_forward)
        };
        Self {
            only_back: (0..sizes.len()).map(is_back).collect(),
            boxes,
            nodes: sizes.len(),
            columns: in_columns,
            routes,
            widths: edges.iter().map(|edge| edge.width).collect(),
        }
    }

    /// Orders each column by the mean place of the neighbours in the one before it, and back, a few
    /// times: few edges cross then.
    fn order(&mut self) {
        for sweep in 0..SWEEPS {
            let is_right = sweep % 2 == 0;
            let count = self.columns.len();
            for step in 1..count {
                let column = if is_right { step } else { count - 1 - step };
                let places = self.places();
                let mean = |of: usize| self.mean_of_neighbours(of, is_right, &places);
                let means: BTreeMap<usize, f64> = self.columns[column]
                    .iter()
                    .map(|&one| (one, mean(one)))
                    .collect();
                let only_back = &self.only_back;
                let is_low = |one: usize| only_back.get(one).copied().unwrap_or(false);
                self.columns[column].sort_by(|&a, &b| {
                    let by_mean = means[&a].total_cmp(&means[&b]);
                    is_low(a).cmp(&is_low(b)).then(by_mean)
                });
            }
        }
    }

    /// The place of each box within its column.
    fn places(&self) -> Vec<f64> {
        let mut places = vec![0.0; self.boxes.len()];
        for column in &self.columns {
            for (place, &one) in (0_u32..).zip(column) {
                places[one] =
                    f64::from(place) / f64::from(u32::try_from(column.len()).unwrap_or(1));
            }
        }
        places
    }

    /// The mean place of the boxes before it, or behind it, by the widths of their edges. Without
    /// any, it stays where it is.
    fn mean_of_neighbours(&self, of: usize, before: bool, places: &[f64]) -> f64 {
        let (mut sum, mut weight) = (0.0, 0.0);
        for (route, width) in self.routes.iter().zip(&self.widths) {
            for pair in route.windows(2) {
                let (here, neighbour) = if before {
                    (pair[1], pair[0])
                } else {
                    (pair[0], pair[1])
                };
                if here == of {
                    sum += places[neighbour] * width;
                    weight += width;
                }
            }
        }
        if weight > 0.0 {
            sum / weight
        } else {
            places[of]
        }
    }

    /// Stacks each column, in the middle of the height of all.
    fn place(&mut self) {
        let heights: Vec<f64> = self
            .columns
            .iter()
            .map(|column| self.height_of(column))
            .collect();
        let all = heights.iter().copied().fold(0.0, f64::max);
        let mut x = self.side();
        for (column, height) in self.columns.iter().zip(heights) {
            let widths = column.iter().map(|&one| self.boxes[one].width);
            let widest = widths.fold(0.0, f64::max);
            let mut y = MARGIN + (all - height) / 2.0;
            for &one in column {
                let place = &mut self.boxes[one];
                place.x = x;
                place.y = y;
                y += place.height + ROW_GAP;
                // No edge leaves from between others.
                place.width = widest;
            }
            x += widest + COLUMN_GAP;
        }
    }

    fn height_of(&self, column: &[usize]) -> f64 {
        let heights: f64 = column.iter().map(|&one| self.boxes[one].height).sum();
        let gaps = u32::try_from(column.len().saturating_sub(1)).unwrap_or(0);
        heights + f64::from(gaps) * ROW_GAP
    }

    /// The room at each side.
    fn side(&self) -> f64 {
        if self.routes.iter().any(Vec::is_empty) {
            SIDE_OF_BACK
        } else {
            MARGIN
        }
    }

    /// The picture, with the edges on each side of a box one below the other, in the order of what
    /// they lead to.
    fn finish(self, edges: &[LayoutEdge]) -> Layout {
        let bottom = self
            .boxes
            .iter()
            .map(|one| one.y + one.height)
            .fold(0.0, f64::max);
        let right = self
            .boxes
            .iter()
            .map(|one| one.x + one.width)
            .fold(0.0, f64::max);
        let leaving = self.ports(edges, true);
        let entering = self.ports(edges, false);
        let mut height = bottom + MARGIN;
        let mut paths = Vec::new();
        for (index, (edge, route)) in edges.iter().zip(&self.routes).enumerate() {
            let from = (
                self.boxes[edge.from].x + self.boxes[edge.from].width,
                leaving[index],
            );
            let to = (self.boxes[edge.to].x, entering[index]);
            if route.is_empty() {
                let below = height + edge.width / 2.0;
                height = below + edge.width / 2.0 + MARGIN;
                paths.push(EdgePath::Back { from, to, below });
                continue;
            }
            let mut points = vec![from];
            for &passed in &route[1..route.len() - 1] {
                let passed = self.boxes[passed];
                let y = passed.y + passed.height / 2.0;
                points.extend([(passed.x, y), (passed.x + passed.width, y)]);
            }
            points.push(to);
            paths.push(EdgePath::Forward(points));
        }
        Layout {
            width: right + self.side(),
            height,
            boxes: self.boxes[..self.nodes].to_vec(),
            paths,
        }
    }

    /// Where each edge leaves its node, or enters it.
    fn ports(&self, edges: &[LayoutEdge], leaves: bool) -> Vec<f64> {
        let mut ports = vec![0.0; edges.len()];
        for node in 0..self.nodes {
            let is_here = |edge: &LayoutEdge| node == if leaves { edge.from } else { edge.to };
            let mut here: Vec<usize> = (0..edges.len())
                .filter(|&one| is_here(&edges[one]))
                .collect();
            // One that goes back is the lowest.
            let other_end = |&one: &usize| {
                let route = &self.routes[one];
                let next = if leaves {
                    route.get(1)
                } else {
                    route.iter().nth_back(1)
                };
                next.map_or(f64::INFINITY, |&next| self.boxes[next].y)
            };
            here.sort_by(|a, b| other_end(a).total_cmp(&other_end(b)));
            let widths: f64 = here.iter().map(|&one| edges[one].width).sum();
            let place = self.boxes[node];
            let mut y = place.y + (place.height - widths) / 2.0;
            for one in here {
                ports[one] = y + edges[one].width / 2.0;
                y += edges[one].width;
            }
        }
        ports
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edges(pairs: &[(usize, usize)]) -> Vec<LayoutEdge> {
        let edge = |&(from, to): &(usize, usize)| LayoutEdge {
            from,
            to,
            width: 15.0,
        };
        pairs.iter().map(edge).collect()
    }

    const SIZE: NodeSize = NodeSize {
        width: 80.0,
        height: 30.0,
    };

    fn columns_of(nodes: usize, pairs: &[(usize, usize)]) -> Vec<usize> {
        let layout = layout(&vec![SIZE; nodes], &edges(pairs));
        layout.boxes.iter().map(|one| one.column).collect()
    }

    #[test]
    fn a_node_is_behind_all_that_lead_to_it() {
        // in -> cat -> pipe -> gzip -> out
        assert_eq!(
            columns_of(5, &[(0, 1), (1, 2), (2, 3), (3, 4)]),
            [0, 1, 2, 3, 4]
        );
        // A second source is beside the first program that reads it, not at the left.
        assert_eq!(
            columns_of(6, &[(0, 1), (1, 2), (2, 3), (3, 4), (5, 3)]),
            [0, 1, 2, 3, 4, 2]
        );
        assert_eq!(columns_of(0, &[]), [0_usize; 0]);
    }

    #[test]
    fn an_edge_that_closes_a_circle_goes_back_below_everything() {
        for pairs in [&[(0, 1), (1, 0)][..], &[(0, 1), (1, 2), (2, 0)], &[(0, 0)]] {
            let layout = layout(&[SIZE; 3], &edges(pairs));
            let lowest = layout
                .boxes
                .iter()
                .map(|one| one.y + one.height)
                .fold(0.0, f64::max);
            let (last, others) = layout.paths.split_last().expect("edges");
            assert!(
                others
                    .iter()
                    .all(|path| matches!(path, EdgePath::Forward(_)))
            );
            assert!(matches!(last, EdgePath::Back { below, .. } if *below > lowest));
            assert!(layout.height > lowest);
        }
    }

    #[test]
    fn a_node_whose_bytes_only_go_back_is_below_the_others() {
        // sort writes a file, reads it again, and writes into a pipe.
        let layout = layout(
            &[SIZE; 5],
            &edges(&[(0, 1), (1, 2), (2, 1), (1, 3), (3, 4)]),
        );
        assert!(layout.boxes[2].y > layout.boxes[3].y, "{layout:?}");
    }

    #[test]
    fn nothing_overlaps_and_all_edges_of_a_node_fit_its_side() {
        let pairs = [
            (0, 3),
            (1, 3),
            (2, 3),
            (3, 4),
            (3, 5),
            (0, 5),
            (5, 6),
            (2, 6),
            (6, 0),
        ];
        let edges = edges(&pairs);
        let layout = layout(&[SIZE; 7], &edges);
        for (index, one) in layout.boxes.iter().enumerate() {
            for other in &layout.boxes[..index] {
                let apart = one.column != other.column
                    || one.y + one.height < other.y
                    || other.y + other.height < one.y;
                assert!(apart, "{layout:?}");
            }
            assert!(one.x + one.width <= layout.width && one.y + one.height <= layout.height);
        }
        assert!(layout.boxes[3].height >= 45.0, "three edges of 15 enter it");
        for (edge, path) in edges.iter().zip(&layout.paths) {
            let (from, to) = match path {
                EdgePath::Forward(points) => (points[0], points[points.len() - 1]),
                EdgePath::Back { from, to, .. } => (*from, *to),
            };
            for (place, (_, y)) in [(layout.boxes[edge.from], from), (layout.boxes[edge.to], to)] {
                assert!(y >= place.y && y <= place.y + place.height, "{layout:?}");
            }
        }
    }

    #[test]
    fn an_edge_that_passes_a_column_goes_through_no_node() {
        // 0 -> 1 -> 2 and 0 -> 2.
        let layout = layout(&[SIZE; 3], &edges(&[(0, 1), (1, 2), (0, 2)]));
        let EdgePath::Forward(points) = &layout.paths[2] else {
            panic!("{layout:?}");
        };
        let passed = layout.boxes[1];
        assert_eq!(points.len(), 4);
        assert!(
            points[1..3]
                .iter()
                .all(|&(_, y)| y < passed.y || y > passed.y + passed.height)
        );
    }
}
