//! One client: the state of each of its resource types.

use maud::{Markup, html};
use oxds_core::snapshot::Snapshot;

use super::layout::{Section, View};
use super::parts::{age, resource_link, shown, state};
use super::url::Query;
use crate::admin::state::Admin;
use crate::admin::status::{NodeKind, NodeStatus, Position};
use crate::discovery::Client;

/// Returns the page of the client at a position; `None` if it is gone.
pub(super) fn view(admin: &Admin, query: &Query) -> Option<View> {
    let Position::Client(cursor) = Position::parse(query.get("at"))? else {
        return None;
    };
    let context = &admin.context;
    let now = context.server.clock.now();
    let mut found = None;
    let mut see = |client: &Client<'_>, served: &Snapshot| {
        found = Some(NodeStatus::of(client, served, &context.cache, now));
    };
    context.clients.see_at(&context.cache, &cursor, &mut see);
    let node = found?;
    let title = match node.id.is_empty() {
        true => "(no node id)".to_owned(),
        false => shown(&node.id),
    };
    let worst = worst(&node);
    let content = html! {
        h1 { (title) " " (state(worst)) }
        dl {
            dt { "Cluster" } dd { (shown(&node.cluster)) }
            dt { "Client" } dd { (shown(&node.user_agent)) }
            dt { "Connected" } dd { (age(node.connected_seconds)) ", " (node.protocol)
                @if let Some(peer) = node.peer { ", from " (peer) } }
            @if !node.groups.is_empty() { dt { "Groups" } dd { (shown(&node.groups.join(", "))) } }
            @if !node.client_features.is_empty() { dt { "Features" } dd { (shown(&node.client_features.join(", "))) } }
        }
        (types(&node.kinds))
        @for kind in &node.kinds { (troubles(kind)) }
    };
    Some(View {
        section: Section::Clients,
        title,
        content,
    })
}

fn worst(node: &NodeStatus) -> &'static str {
    let order = ["SYNCED", "NOT_SENT", "STALE", "NACKED"];
    let rank = |kind: &&NodeKind| order.iter().position(|state| *state == kind.state);
    node.kinds
        .iter()
        .max_by_key(rank)
        .map_or("SYNCED", |kind| kind.state)
}

fn types(kinds: &[NodeKind]) -> Markup {
    html! {
        div.scroll { table {
            caption { "Resource types" }
            thead { tr {
                th scope="col" { "Type" } th scope="col" { "State" } th scope="col" { "Since" } th scope="col" { "Subscribed" }
                th scope="col" { "Sent" } th scope="col" { "Accepted" } th.num scope="col" { "ACKs" } th.num scope="col" { "NACKs" }
                th scope="col" { "Waiting for an answer" }
            } }
            tbody { @for kind in kinds { tr {
                th scope="row" { (kind.kind) @if kind.api == "v2" { " (v2)" } }
                td { (state(kind.state)) }
                td { @if let Some(since) = kind.since_seconds { (age(since)) } }
                td { @if kind.wildcard { "all" } @if kind.wildcard && kind.names > 0 { ", " }
                    @if kind.names > 0 || !kind.wildcard { (kind.names) " by name" } }
                td { code { (kind.sent.as_deref().unwrap_or_default()) } }
                td { code { (kind.acknowledged.as_deref().unwrap_or_default()) } }
                td.num { (kind.acks) }
                td.num { (kind.nacks) }
                td { @if let Some(waiting) = kind.waiting_seconds { (age(waiting)) } }
            } } }
        } }
    }
}

/// NACKs, held-back changes and isolation of a type.
fn troubles(kind: &NodeKind) -> Markup {
    html! {
        @if let Some(nack) = &kind.nack {
            h2 { (kind.kind) ": NACKed " span.more { (age(nack.seconds_ago)) " ago, version " code { (nack.version) } } }
            pre { (oxds_types::text::lines(&nack.reason)) }
        }
        @if !kind.rejected.is_empty() {
            h2 { (kind.kind) ": NACKed resources " span.more { (kind.rejected_total) } }
            div.scroll { table {
                caption { "NACKed resources of " (kind.kind) }
                thead { tr { th scope="col" { "Resource" } th scope="col" { "Version" } th scope="col" { "Since" } th scope="col" { "Reason" } } }
                tbody { @for one in &kind.rejected { tr {
                    th scope="row" { (resource_link(&kind.kind, &one.name, "")) @if one.removal { " (removal)" } }
                    td { code { (one.version) } }
                    td { (age(one.seconds_ago)) }
                    td.text { (shown(&one.reason)) }
                } } }
            } }
        }
        @if let Some(isolating) = &kind.isolating {
            h2 { (kind.kind) ": isolation of the invalid resource" }
            p { (isolating.suspects) " suspects after " (isolating.rounds) " rounds: "
                @for (at, name) in isolating.names.iter().enumerate() { @if at > 0 { ", " } (resource_link(&kind.kind, name, "")) } }
        }
        @if !kind.held_back.is_empty() {
            h2 { (kind.kind) ": held back " span.more { (kind.held) } }
            ul { @for held in &kind.held_back { li {
                (held.change) " "
                @if let Some(name) = &held.name { (resource_link(&kind.kind, name, "")) }
                ", for " (age(held.seconds)) ", "
                @match &held.waits_for {
                    None => "sent with the next response",
                    Some(waits) => {
                        "waits for " (waits.kind) " "
                        @if let Some(name) = &waits.name { (resource_link(&waits.kind, name, "")) }
                        @if waits.missing == Some(true) { " (does not exist)" }
                    }
                }
            } } }
        }
    }
}
