//! The table of clients: filtered, sorted, and in pages of the server.

use std::sync::Arc;

use maud::{Markup, html};
use oxds_core::session::Progress;
use oxds_core::time::Instant;

use super::fleet::{Fleet, Row, is_pending};
use super::layout::{Section, View};
use super::parts::{age, count, pager, state};
use super::url::{Query, url};
use crate::admin::status::Position;

/// Clients of a page.
const PER_PAGE: usize = 100;
/// Columns to sort by, with their titles.
const COLUMNS: [(&str, &str); 7] = [
    ("id", "Node"),
    ("state", "State"),
    ("cluster", "Cluster"),
    ("agent", "Client"),
    ("protocol", "Protocol"),
    ("address", "Address"),
    ("since", "Connected"),
];
const STATES: [(&str, &str); 4] = [
    ("", "all"),
    ("synced", "in sync"),
    ("pending", "pending"),
    ("nacked", "NACKing"),
];

/// Returns the table that a query asks for.
pub(super) fn view(fleet: &Fleet, query: &Query, now: Instant) -> View {
    let text = query.get("q").to_lowercase();
    let wanted = query.get("state");
    let selects = |row: &&Arc<Row>| {
        let is_wanted = match wanted {
            "synced" => row.state == Progress::Synced,
            "pending" => is_pending(row.state),
            "nacked" => row.state == Progress::Nacked,
            _ => true,
        };
        is_wanted && (text.is_empty() || row.matches(&text))
    };
    let rows = fleet.rows.iter().filter(selects);
    let mut rows: Vec<&Row> = rows.map(|row| &**row).collect();
    let (sort, descending) = order(query);
    rows.sort_by(|a, b| {
        if descending {
            b.compare(a, sort)
        } else {
            a.compare(b, sort)
        }
    });
    let (page, total) = (query.page(), rows.len());
    let shown = rows
        .into_iter()
        .skip(page.saturating_mul(PER_PAGE))
        .take(PER_PAGE);
    let shown: Vec<&Row> = shown.collect();
    let parameters = [
        ("q", query.get("q")),
        ("state", wanted),
        ("sort", query.get("sort")),
    ];
    let content = html! {
        h1 { "Clients " span.soft { (fleet.rows.len()) } }
        (filter(query))
        @if shown.is_empty() {
            p.none { @if fleet.rows.is_empty() { "No client is connected." } @else { "No client matches." } }
        } @else {
            div.scroll {
                table {
                    caption { (count(total, "client")) }
                    thead { tr {
                        @for (column, title) in COLUMNS { (heading(query, column, title, sort, descending)) }
                        th { "Types" }
                    } }
                    tbody { @for row in shown { (line(row, now)) } }
                }
            }
        }
        (pager("/clients", &parameters, page, PER_PAGE, total))
    };
    View {
        section: Section::Clients,
        title: "Clients".to_owned(),
        content,
    }
}

/// Returns the column to sort by, and whether in descending order: `-COLUMN`. Without one, the worst state comes first.
fn order(query: &Query) -> (&str, bool) {
    match query.get("sort") {
        "" => ("state", false),
        sort => match sort.strip_prefix('-') {
            Some(column) => (column, true),
            None => (sort, false),
        },
    }
}

fn filter(query: &Query) -> Markup {
    html! {
        form role="search" {
            label.wide { "Node, cluster, client or address"
                input type="search" name="q" value=(query.get("q")); }
            label { "State"
                select name="state" {
                    @for (value, title) in STATES {
                        option value=(value) selected[value == query.get("state")] { (title) }
                    }
                } }
            @if !query.get("sort").is_empty() { input type="hidden" name="sort" value=(query.get("sort")); }
            button { "Filter" }
        }
    }
}

fn heading(query: &Query, column: &str, title: &str, sort: &str, descending: bool) -> Markup {
    let is_sorted = column == sort;
    let next = if is_sorted && !descending {
        format!("-{column}")
    } else {
        column.to_owned()
    };
    let parameters = [
        ("q", query.get("q")),
        ("state", query.get("state")),
        ("sort", &*next),
    ];
    let order = is_sorted.then_some(if descending {
        "descending"
    } else {
        "ascending"
    });
    html! {
        th scope="col" aria-sort=[order] {
            a href=(url("/clients", &parameters)) {
                (title)
                @if is_sorted { span aria-hidden="true" { (if descending { " ▾" } else { " ▴" }) } }
            }
        }
    }
}

/// Returns the address of a client's own page.
pub(super) fn address(row: &Row) -> String {
    let position = Position::Client(row.cursor.clone()).to_string();
    url("/client", &[("at", &position)])
}

/// Returns the name of a client, also if it has not sent one.
pub(super) fn name(row: &Row) -> &str {
    if row.id.is_empty() {
        "(no node id)"
    } else {
        &row.id
    }
}

fn line(row: &Row, now: Instant) -> Markup {
    html! {
        tr {
            th scope="row" { a.name href=(address(row)) { (name(row)) } }
            td { (state(row.state.as_str())) }
            td { (row.cluster) }
            td { (row.user_agent) }
            td { (row.protocol) }
            td { @if let Some(peer) = row.peer { (peer) } }
            td { (age((now - row.since).as_secs_f64())) }
            td { span.badges { @for (resource_type, progress) in &row.types { (type_badge(resource_type, *progress)) } } }
        }
    }
}

/// A short label of a type, whose colour is its state, with the state as text for screen readers and on hover.
fn type_badge(resource_type: &str, progress: Progress) -> Markup {
    let class = match progress {
        Progress::Synced => "ok",
        Progress::Nacked => "bad",
        _ => "wait",
    };
    let label = format!("{resource_type}: {}", progress.as_str());
    html! { span.badge.(class) role="img" aria-label=(label) title=(label) { (resource_type) } }
}
