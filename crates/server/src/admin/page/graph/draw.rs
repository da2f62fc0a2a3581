//! The picture of a graph: SVG of a bounded size, made of the same colours as the page.

use maud::{Markup, html};

use super::model::{Edge, Graph, GraphNode};
use crate::admin::page::parts::shown;

const WIDTH: usize = 190;
const HEIGHT: usize = 42;
const GAP: usize = 10;
/// From the left edge of a column to that of the next: five columns fit the width of the page.
const STEP: usize = 232;
/// Height of the titles.
const TOP: usize = 26;
const TITLES: [&str; 5] = ["Listener", "Routes", "Clusters", "Localities", "Endpoints"];
/// Characters of a line in a node.
const FITS: usize = 28;

/// Returns the picture. Its nodes are links where they are resources of their own.
pub(super) fn draw(graph: &Graph) -> Markup {
    let rows = |column: usize| graph.columns[column].len() + usize::from(graph.more[column] > 0);
    let tallest = (0..5).map(rows).max().unwrap_or_default().max(1);
    let used = (0..5)
        .rev()
        .find(|column| rows(*column) > 0)
        .unwrap_or_default()
        + 1;
    let width = (used - 1) * STEP + WIDTH + 2;
    let height = TOP + tallest * (HEIGHT + GAP);
    // Each column is centred, so that a listener stands before the middle of its routes.
    let y = |column: usize, row: usize| {
        TOP + row * (HEIGHT + GAP) + (tallest - rows(column).min(tallest)) * (HEIGHT + GAP) / 2
    };
    html! {
        div.scroll.graph tabindex="0" role="region" aria-label="Graph, scrolls sideways" {
            svg width=(width) height=(height) viewBox=(format!("0 0 {width} {height}")) role="group"
                aria-label="Listener, routes, clusters, localities and endpoints" {
                @for edge in &graph.edges { (line(edge, y)) }
                @for (column, nodes) in graph.columns.iter().enumerate() {
                    @if rows(column) > 0 { text.col x=(column * STEP + 2) y="14" { (TITLES[column]) } }
                    @for (row, node) in nodes.iter().enumerate() { (shape(node, column * STEP + 1, y(column, row))) }
                    @if graph.more[column] > 0 {
                        text.sub x=(column * STEP + 10) y=(y(column, nodes.len()) + 24) { "and " (graph.more[column]) " more" }
                    }
                }
            }
        }
    }
}

fn line(edge: &Edge, y: impl Fn(usize, usize) -> usize) -> Markup {
    let (x1, y1) = (
        edge.from.0 * STEP + WIDTH + 1,
        y(edge.from.0, edge.from.1) + HEIGHT / 2,
    );
    let (x2, y2) = (edge.to.0 * STEP + 1, y(edge.to.0, edge.to.1) + HEIGHT / 2);
    let middle = x1.midpoint(x2);
    html! {
        path.on[edge.is_on] d=(format!("M{x1} {y1}C{middle} {y1} {middle} {y2} {x2} {y2}")) {}
        @if !edge.label.is_empty() {
            // A line that comes from above passes through the place above its end.
            @let label_y = if y2 > y1 { y2 + 13 } else { y2 - 5 };
            text.sub x=(x2 - 6) y=(label_y) text-anchor="end" { (edge.label) }
        }
    }
}

fn shape(node: &GraphNode, x: usize, y: usize) -> Markup {
    let class = match (node.is_on, node.is_bad) {
        (true, _) => "on",
        (false, true) => "bad",
        (false, false) => "node",
    };
    let inner = html! {
        title { (shown(&node.label)) @if !node.detail.is_empty() { ": " (shown(&node.detail)) } }
        rect x=(x) y=(y) width=(WIDTH) height=(HEIGHT) rx="6" {}
        @let is_single = node.detail.is_empty();
        text x=(x + 10) y=(y + if is_single { 26 } else { 18 }) { (fitting(&node.label)) }
        @if !is_single { text.sub x=(x + 10) y=(y + 33) { (fitting(&node.detail)) } }
    };
    html! {
        g.(class) {
            @if node.href.is_empty() { (inner) } @else { a href=(node.href) { (inner) } }
        }
    }
}

/// Returns the beginning and the end of a text that is too long: names differ at both.
fn fitting(text: &str) -> String {
    let text = shown(text);
    let length = text.chars().count();
    if length <= FITS {
        return text;
    }
    let begin: String = text.chars().take(FITS - 12).collect();
    let end: String = text.chars().skip(length - 11).collect();
    format!("{begin}…{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(label: &str) -> GraphNode {
        GraphNode {
            label: label.to_owned(),
            href: "/resource".to_owned(),
            ..GraphNode::default()
        }
    }

    #[test]
    fn page_graph_escapes_names_and_cuts_them() {
        let mut graph = Graph::default();
        graph.columns[0].push(node("<script>alert(1)</script>"));
        graph.columns[1].push(node(&"x".repeat(1000)));
        graph.more[1] = 7;
        graph.edges.push(Edge {
            from: (0, 0),
            to: (1, 0),
            label: "<b>".to_owned(),
            is_on: true,
        });
        let svg = draw(&graph).into_string();
        assert!(!svg.contains("<script") && !svg.contains("<b>"), "{svg}");
        assert!(svg.contains("and 7 more") && svg.len() < 3000, "{svg}");
    }
}
