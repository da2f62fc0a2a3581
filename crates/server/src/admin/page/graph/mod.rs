//! The graph of a listener: its routes, clusters, localities and endpoints, as a picture and as a list of links.

mod draw;
mod mark;
mod model;
mod path;
mod table;

use maud::html;
use oxds_types::ResourceType;

use super::layout::{Section, View};
use super::parts::{count, shown};
use super::url::{Query, url};
use crate::admin::state::Admin;
use model::Graph;

/// Listeners that are offered.
const LISTED: usize = 100;

/// Returns the graph of the listener that a query names, or of the first one.
pub(super) fn view(admin: &Admin, query: &Query) -> View {
    let snapshot = admin.context.cache.snapshot();
    let listeners = snapshot.of_type(&ResourceType::LISTENER).collection();
    let text = query.get("q").to_lowercase();
    let matching = listeners
        .iter()
        .filter(|one| one.name().to_lowercase().contains(&text));
    let offered: Vec<_> = matching.take(LISTED).collect();
    let wanted = match query.get("listener") {
        "" => offered.first().map_or("", |listener| listener.name()),
        name => name,
    };
    let listener = listeners.get(wanted);
    let (loads, _) = admin.load_reports.after(None, model::MAX_LOADS, |_| true);
    let mut graph = listener.map(|listener| Graph::of(&snapshot, listener, &loads));
    let explanation = listener.and_then(|_| path::explain(&snapshot, wanted, query));
    if let (Some(graph), Some(explanation)) = (&mut graph, &explanation) {
        mark::mark(graph, explanation);
    }
    let content = html! {
        h1 { "Graph " @if !wanted.is_empty() { span.soft { (shown(wanted)) } } }
        @if listeners.len() > 1 {
            form role="search" {
                label.wide { "Listener" input type="search" name="q" value=(query.get("q")); }
                button { "Find" }
            }
            ul.tabs { @for one in &offered {
                @let here = (**one.name() == *wanted).then_some("true");
                li { a href=(url("/graph", &[("q", query.get("q")), ("listener", one.name())])) aria-current=[here] { (shown(one.name())) } }
            } }
            @if offered.len() == LISTED { p.soft { "The first " (LISTED) " of " (count(listeners.len(), "listener")) "." } }
        }
        @match &graph {
            None => p.none { "No such listener is served." },
            Some(graph) => {
                (path::form(wanted, query))
                (draw::draw(graph))
                @if let Some(note) = capped_rates(admin.load_reports.count()) { p.soft { (note) } }
                @if let Some(explanation) = &explanation { (path::steps(explanation)) }
            },
        }
    };
    View {
        section: Section::Graph,
        title: "Graph".to_owned(),
        content,
    }
}

/// Returns that the request rates are not complete, if there are more loads than are summed.
fn capped_rates(loads: usize) -> Option<String> {
    const SUMMED: usize = model::MAX_LOADS;
    (loads > SUMMED).then(|| {
        format!("The request rates are sums of the first {SUMMED} of {loads} loads that clients report: they are too low.")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_says_when_request_rates_are_too_low() {
        assert_eq!(capped_rates(model::MAX_LOADS), None);
        let note = capped_rates(model::MAX_LOADS + 1);
        assert!(note.is_some_and(|note| note.contains("first 5000 of 5001")));
    }
}
