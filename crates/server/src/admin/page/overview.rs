//! The overview: what is served, how far the clients are, and what is wrong.

use maud::{Markup, html};
use oxds_core::session::Progress;

use super::clients::{address, name};
use super::fleet::Fleet;
use super::layout::{Section, View};
use super::parts::{age, count, place, resource_link, shown};
use super::url::url;
use crate::admin::state::Admin;
use crate::admin::status::{
    ConnectionStatus, ReplicaStatus, RollbackStatus, SnapshotStatus, StoreStatus, rollbacks,
};
use crate::not_representable;

/// Entries of each list; other views have all of them.
const LISTED: usize = 20;

/// Returns the overview.
pub(super) fn view(admin: &Admin, fleet: &Fleet) -> View {
    let context = &admin.context;
    let not_representable = not_representable::all(&context.cache);
    let snapshot = SnapshotStatus::of(&context.cache.snapshot(), &not_representable);
    let store = StoreStatus::of(&admin.health);
    let rolled_back = rollbacks(context);
    let errors = admin.health.counts().errors;
    let resources: usize = snapshot.types.iter().map(|of_type| of_type.resources).sum();
    let content = html! {
        h1 { "Overview" }
        ul.tiles {
            (tile("/clients?state=synced", fleet.synced, "clients in sync", "ok"))
            (tile("/clients?state=pending", fleet.pending, "clients pending", "wait"))
            (tile("/clients?state=nacked", fleet.nacked, "clients NACKing", "bad"))
            (tile("#errors", errors, "store errors", "bad"))
            (tile("#held", fleet.held, "held back", "wait"))
            (tile("#rollbacks", rolled_back.len(), "rollbacks", "wait"))
            (tile("/resources", resources, "resources", ""))
        }
        (nacks(fleet))
        (findings(&store))
        (held(fleet))
        (rolled(&rolled_back))
        @if let Some(connection) = &store.connection { (replicas(connection)) }
        (served(&snapshot))
    };
    View {
        section: Section::Overview,
        title: "Overview".to_owned(),
        content,
    }
}

fn tile(href: &str, number: usize, text: &str, class: &str) -> Markup {
    let class = if number > 0 { class } else { "" };
    html! { li.(class) { a href=(href) { b { (number) } span { (text) } } } }
}

fn served(snapshot: &SnapshotStatus) -> Markup {
    html! {
        h2 { "Served" }
        @if !snapshot.loaded { p.none { "No configuration is loaded yet: clients wait." } }
        @else if snapshot.types.is_empty() { p.none { "An empty configuration is served." } }
        @else { div.scroll { table {
            caption { "Resource types that are served" }
            thead { tr { th scope="col" { "Type" } th scope="col" { "Message" } th.num scope="col" { "Resources" }
                th scope="col" { "Version" } th.num scope="col" { "Not representable in v2" } } }
            tbody { @for of_type in &snapshot.types { tr {
                th scope="row" { a href=(url("/resources", &[("type", &of_type.resource_type)])) { (of_type.resource_type) } }
                td.text { span.soft { (of_type.type_url.trim_start_matches("type.googleapis.com/")) } }
                td.num { (of_type.resources) }
                td { code { (of_type.version) } }
                td.num { @if !of_type.not_representable.is_empty() { (of_type.not_representable.len()) } }
            } } }
        } } }
    }
}

fn findings(store: &StoreStatus) -> Markup {
    html! {
        h2 #errors { "Store" span.more { " · " (count(store.updates as usize, "update")) ", latest took "
            (format!("{:.0}", store.load_seconds * 1000.0)) " ms" } }
        @if store.findings.is_empty() { p.none { "No errors and no warnings." } }
        @else { div.scroll { table {
            caption { "Errors and warnings of the store" }
            thead { tr { th scope="col" { "Severity" } th scope="col" { "Place" } th scope="col" { "Resource" } th scope="col" { "Message" } } }
            tbody { @for finding in store.findings.iter().take(LISTED * 5) {
                @let class = if finding.severity == "error" { "bad" } else { "wait" };
                tr {
                    td { span.badge.(class) { (finding.severity) } }
                    td.text { (place(&finding.file, finding.line, finding.column)) }
                    td { @if let Some(name) = &finding.resource { (shown(name)) } }
                    td.text { @if !finding.path.is_empty() { code { (shown(&finding.path)) } ": " } (shown(&finding.message)) }
                }
            } }
        } } }
        @let more = store.findings.len().saturating_sub(LISTED * 5) + store.more_findings.errors + store.more_findings.warnings;
        @if more > 0 { p.soft { "and " (more) " more" } }
    }
}

/// The servers that follow the same configuration, as they describe themselves in the store.
fn replicas(connection: &ConnectionStatus) -> Markup {
    let all = &connection.replicas;
    html! {
        @if !all.is_empty() {
            h2 #replicas { "Replicas" span.more { " · " (all.len()) } }
            @if !connection.connected {
                p.notice { "This server does not follow the store"
                    @if let Some(since) = connection.since_seconds { ": the table is " (age(since)) " old" }
                    @if let Some(cause) = &connection.cause { ", " (shown(cause)) } "." }
            }
            div.scroll { table {
                caption { "Servers of the same configuration" }
                thead { tr { th scope="col" { "Replica" } th scope="col" { "State" } th scope="col" { "Serves" }
                    th.num scope="col" { "Streams" } th.num scope="col" { "In sync" } th.num scope="col" { "NACKing" }
                    th scope="col" { "Build" } th scope="col" { "Up" } th scope="col" { "Reported" } } }
                tbody { @for one in all { tr {
                    th scope="row" { (shown(&one.id)) @if one.this { " " span.badge { "this server" } } }
                    td { (replica_state(one)) }
                    td.text { @for (at, lane) in one.lanes.iter().enumerate() {
                        @if at > 0 { ", " } (shown(&lane.lane)) " " (lane.seq)
                        @if lane.lag > 0 { " (" (lane.lag) " behind)" }
                    } }
                    td.num { (one.streams) } td.num { (one.in_sync) } td.num { (one.nacked) }
                    td { (shown(&one.build)) } td { (age(one.uptime_seconds)) } td { (age(one.since_seconds)) " ago" }
                } } }
            } }
        }
    }
}

fn replica_state(replica: &ReplicaStatus) -> Markup {
    let (class, text) = match () {
        () if replica.held => ("bad", "held"),
        () if replica.lanes.iter().any(|lane| lane.lag > 0) => ("wait", "behind"),
        () if replica.nacked > 0 => ("bad", "NACKs"),
        () if replica.in_sync < replica.streams => ("wait", "pending"),
        () => ("ok", "in sync"),
    };
    html! { span.badge.(class) { (text) } }
}

fn nacks(fleet: &Fleet) -> Markup {
    let all = fleet
        .rows
        .iter()
        .filter(|row| row.state == Progress::Nacked);
    html! {
        @if fleet.nacked > 0 {
            h2 { "NACKs" span.more { " · " (count(fleet.nacked, "client"))
                @if fleet.isolating > 0 { ", " (fleet.isolating) " with isolation of the invalid resource" } } }
            div.scroll { table {
                caption { "Clients that NACK" }
                thead { tr { th scope="col" { "Node" } th scope="col" { "Type" } th scope="col" { "Reason" } } }
                tbody { @for row in all.take(LISTED) { tr {
                    th scope="row" { a.name href=(address(row)) { (name(row)) } }
                    td { @if let Some((of_type, _)) = &row.nack { (of_type) } }
                    td.text { @match &row.nack { Some((_, reason)) => (reason), None => "the client has accepted no later content of a NACKed resource" } }
                } } }
            } }
        }
    }
}

fn held(fleet: &Fleet) -> Markup {
    let all = fleet.rows.iter().filter(|row| row.held > 0);
    html! {
        @if fleet.held > 0 {
            h2 #held { "Held back" span.more { " · make-before-break" } }
            ul { @for row in all.take(LISTED) {
                li { a.name href=(address(row)) { (name(row)) } ": " (count(row.held, "change")) }
            } }
        }
    }
}

fn rolled(rollbacks: &[RollbackStatus]) -> Markup {
    html! {
        @if !rollbacks.is_empty() {
            h2 #rollbacks { "Rollbacks" span.more { " · " (count(rollbacks.len(), "resource")) } }
            div.scroll { table {
                caption { "Resources that were rolled back" }
                thead { tr { th scope="col" { "Resource" } th scope="col" { "NACKed version" } th scope="col" { "Served" }
                    th scope="col" { "Since" } th scope="col" { "NACKed by" } th scope="col" { "Reason" } } }
                tbody { @for one in rollbacks.iter().take(LISTED * 5) { tr {
                    th scope="row" { (one.resource_type) " " (resource_link(&one.resource_type, &one.name, one.group.as_deref().unwrap_or_default())) }
                    td { @if one.version.is_empty() { "removed" } @else { code { (one.version) } } }
                    td { @if one.rolled_back_to.is_empty() { "not served" } @else { code { (one.rolled_back_to) } } }
                    td { (age(one.seconds_ago)) }
                    td.text { (shown(&one.nodes_text())) }
                    td.text { (shown(&one.reason)) }
                } } }
            } }
        }
    }
}
