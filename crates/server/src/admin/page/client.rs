//! One client: the state of each of its resource types.

use std::sync::Arc;

use maud::{Markup, html};
use oxds_core::rollback::RolledBack;
use oxds_core::snapshot::Snapshot;

use super::layout::{Section, View};
use super::parts::{age, count, resource_link, shown, state};
use super::url::Query;
use crate::admin::state::Admin;
use crate::admin::status::{NodeStatus, NodeType, Position, RollbackStatus, rollback};
use crate::clients::Client;

/// Returns the page of the client at a position; `None` if it is gone.
pub(super) fn view(admin: &Admin, query: &Query) -> Option<View> {
    let Position::Client(cursor) = Position::parse(query.get("at"))? else {
        return None;
    };
    let context = &admin.context;
    let now = context.server.clock.now();
    // Before the client is locked: a rollback locks the clients.
    let rolled_back = context.rollback.rolled_back();
    let mut found = None;
    let mut see = |client: &Client<'_>, served: &Snapshot| {
        let node = NodeStatus::of(client, served, &context.cache, now);
        let concerned = rolled_back
            .iter()
            .filter(|one| concerns(one, client, &node));
        let concerned: Vec<RollbackStatus> = concerned.map(|one| rollback(one, now)).collect();
        found = Some((node, concerned));
    };
    context.clients.see_at(&context.cache, &cursor, &mut see);
    let (node, rolled_back) = found?;
    let title = if node.id.is_empty() {
        "(no node id)".to_owned()
    } else {
        shown(&node.id)
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
        (types(&node.types))
        (rollbacks(&rolled_back, &node.id))
        @for of_type in &node.types { (troubles(of_type)) }
    };
    Some(View {
        section: Section::Clients,
        title,
        content,
    })
}

/// Whether a client is served another version because of a rollback: it subscribes to the resource, and no group hides
/// it.
fn concerns(rolled_back: &RolledBack, client: &Client<'_>, node: &NodeStatus) -> bool {
    let key = &rolled_back.key;
    let is_member = |group: &Arc<str>| node.groups.iter().any(|of| **of == **group);
    key.group.as_ref().is_none_or(is_member)
        && client.resource(&key.resource_type, &key.name).is_some()
}

/// Rollbacks of resources that the client subscribes to.
fn rollbacks(all: &[RollbackStatus], node: &str) -> Markup {
    html! {
        @if !all.is_empty() {
            h2 { "Rolled back" span.more { " · " (count(all.len(), "resource")) } }
            p { "The client gets the last version that all clients had accepted, until the store changes these resources again." }
            div.scroll { table {
                caption { "Resources of this client that were rolled back" }
                thead { tr { th scope="col" { "Resource" } th scope="col" { "NACKed version" } th scope="col" { "Served" }
                    th scope="col" { "Since" } th scope="col" { "NACKed by" } th scope="col" { "Reason" } } }
                tbody { @for one in all { tr {
                    th scope="row" { (one.resource_type) " " (resource_link(&one.resource_type, &one.name, one.group.as_deref().unwrap_or_default())) }
                    td { @if one.version.is_empty() { "removed" } @else { code { (one.version) } } }
                    td { @if one.rolled_back_to.is_empty() { "not served" } @else { code { (one.rolled_back_to) } } }
                    td { (age(one.seconds_ago)) }
                    td.text { @if one.nacked_by.iter().any(|by| by == node) { b { "this client" } ", " } (shown(&one.nodes_text())) }
                    td.text { (one.nacked.resource_type) " " (shown(&one.nacked.name)) ": " (shown(&one.reason)) }
                } } }
            } }
        }
    }
}

fn worst(node: &NodeStatus) -> &'static str {
    let order = ["SYNCED", "NOT_SENT", "STALE", "NACKED"];
    let rank = |of_type: &&NodeType| order.iter().position(|state| *state == of_type.state);
    node.types
        .iter()
        .max_by_key(rank)
        .map_or("SYNCED", |of_type| of_type.state)
}

fn types(all: &[NodeType]) -> Markup {
    html! {
        div.scroll { table {
            caption { "Resource types" }
            thead { tr {
                th scope="col" { "Type" } th scope="col" { "State" } th scope="col" { "Since" } th scope="col" { "Subscribed" }
                th scope="col" { "Sent" } th scope="col" { "ACKed" } th.num scope="col" { "ACKs" } th.num scope="col" { "NACKs" }
                th scope="col" { "Waiting for an answer" }
            } }
            tbody { @for of_type in all { tr {
                th scope="row" { (of_type.resource_type) @if of_type.api == "v2" { " (v2)" } }
                td { (state(of_type.state)) }
                td { @if let Some(since) = of_type.since_seconds { (age(since)) } }
                td { @if of_type.wildcard { "all" } @if of_type.wildcard && of_type.names > 0 { ", " }
                    @if of_type.names > 0 || !of_type.wildcard { (of_type.names) " by name" } }
                td { code { (of_type.sent.as_deref().unwrap_or_default()) } }
                td { code { (of_type.acked.as_deref().unwrap_or_default()) } }
                td.num { (of_type.acks) }
                td.num { (of_type.nacks) }
                td { @if let Some(waiting) = of_type.waiting_seconds { (age(waiting)) } }
            } } }
        } }
    }
}

/// NACKs, held-back changes and isolation of a type.
fn troubles(of_type: &NodeType) -> Markup {
    html! {
        @if let Some(nack) = &of_type.nack {
            h2 { (of_type.resource_type) ": NACKed " span.more { (age(nack.seconds_ago)) " ago, version " code { (nack.version) } } }
            pre { (oxds_types::text::lines(&nack.reason)) }
        }
        @if !of_type.nacked.is_empty() {
            h2 { (of_type.resource_type) ": NACKed resources " span.more { (of_type.nacked_total) } }
            p { "The server does not send these versions again until their content changes. It sends all other resources." }
            div.scroll { table {
                caption { "NACKed resources of " (of_type.resource_type) }
                thead { tr { th scope="col" { "Resource" } th scope="col" { "Version" } th scope="col" { "Since" } th scope="col" { "Reason" } } }
                tbody { @for one in &of_type.nacked { tr {
                    th scope="row" { (resource_link(&of_type.resource_type, &one.name, "")) @if one.removal { " (removal)" } }
                    td { code { (one.version) } }
                    td { (age(one.seconds_ago)) }
                    td.text { (shown(&one.reason)) }
                } } }
            } }
        }
        @if let Some(isolating) = &of_type.isolating {
            h2 { (of_type.resource_type) ": isolation of the invalid resource" }
            p { "The NACK names no resource, so the server sends the resources of the response again, in parts. Until the invalid one is found, the client may lack valid resources." }
            p { (isolating.suspects) " suspects after " (isolating.rounds) " rounds: "
                @for (at, name) in isolating.names.iter().enumerate() { @if at > 0 { ", " } (resource_link(&of_type.resource_type, name, "")) } }
        }
        @if !of_type.held_back.is_empty() {
            h2 { (of_type.resource_type) ": held back " span.more { (of_type.held_back_total) } }
            ul { @for held in &of_type.held_back { li {
                (held.change) " "
                @if let Some(name) = &held.name { (resource_link(&of_type.resource_type, name, "")) }
                ", for " (age(held.seconds)) ", "
                @match &held.waits_for {
                    None => "sent with the next response",
                    Some(waits) => {
                        "waits for " (waits.resource_type) " "
                        @if let Some(name) = &waits.name { (resource_link(&waits.resource_type, name, "")) }
                        @if waits.missing == Some(true) { " (does not exist)" }
                    }
                }
            } } }
        }
    }
}
