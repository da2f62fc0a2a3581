//! The history: the latest changes, and one change with the clients that have not answered it.

use maud::{Markup, html};
use oxds_core::rollout::{
    ChangedNames, Rollout, RolloutContents, RolloutSource, RolloutState, TypeContents,
};
use oxds_core::snapshot::Snapshot;
use oxds_core::time::Instant;
use oxds_types::ResourceType;

use super::layout::{Section, View};
use super::parts::{age, count, pager, resource_link, shown};
use super::url::{Query, url};
use crate::admin::state::Admin;
use crate::admin::status::Position;
use crate::clients::{Client, ClientCursor};

/// Changes of a page.
const PER_PAGE: usize = 50;
/// Names of a change in the list, and documents of its source.
const NAMED: usize = 3;
/// Clients that are listed by name.
const LISTED: usize = 50;
/// Clients after which other tasks run.
const BATCH: usize = 64;

/// Returns the list of changes.
pub(super) fn list(admin: &Admin, query: &Query) -> View {
    let convergence = admin.context.cache.convergence();
    let now = convergence.now();
    let page = query.page();
    let (shown, total) = {
        let rollouts = convergence.rollouts();
        let latest = rollouts.before(None);
        let of_page = latest.skip(page.saturating_mul(PER_PAGE)).take(PER_PAGE);
        // Copied, so that answers of clients do not wait until the page is made.
        (of_page.cloned().collect::<Vec<_>>(), rollouts.len())
    };
    let content = html! {
        h1 { "History" }
        @if shown.is_empty() { p.none { "Nothing has changed since the start." } }
        @else { div.scroll { table {
            caption { (count(total, "change")) ", the latest first" }
            thead { tr {
                th scope="col" { "Change" } th scope="col" { "When" } th scope="col" { "Resources" } th scope="col" { "From" }
                th scope="col" { "Clients" } th scope="col" { "NACKs" }
            } }
            tbody { @for rollout in &shown { (line(rollout, now)) } }
        } } }
        (pager("/history", &[], page, PER_PAGE, total))
    };
    View {
        section: Section::History,
        title: "History".to_owned(),
        content,
    }
}

fn line(rollout: &Rollout, now: Instant) -> Markup {
    html! {
        tr {
            th scope="row" { a href=(address(rollout.number)) { "#" (rollout.number) } }
            td { (age(now.saturating_since(rollout.at).as_secs_f64())) " ago" }
            td.text { (summary(&rollout.contents)) }
            td.text { (source(&rollout.source, NAMED)) }
            td { (clients(rollout.state)) }
            td.text { @if let Some(nack) = rollout.nacks.first() {
                span.badge.bad { (count(rollout.nacked, "client")) } " " (shown(&nack.reason))
            } }
        }
    }
}

fn address(number: u64) -> String {
    url("/change", &[("number", &number.to_string())])
}

/// The numbers of a change, and its first names.
fn summary(contents: &RolloutContents) -> Markup {
    let numbers = contents.counts();
    let total: usize = numbers.iter().sum();
    let words = ["added", "changed", "removed"];
    let numbers = numbers.iter().zip(words).filter(|(number, _)| **number > 0);
    let numbers: Vec<String> = numbers
        .map(|(number, word)| format!("{number} {word}"))
        .collect();
    let names = contents.types().flat_map(|(of, contents)| {
        let names = contents.sorts().into_iter().flat_map(|names| &names.first);
        names.map(move |one| (of, one))
    });
    let named: Vec<_> = names.take(NAMED).collect();
    html! {
        (numbers.join(", "))
        @for (resource_type, one) in &named {
            " " span.soft { (resource_type) "/" (shown(&one.name)) }
        }
        @if total > named.len() { " " span.soft { "and " (total - named.len()) " more" } }
    }
}

/// Where a change comes from: the store, its publishes, and up to `named` documents.
fn source(source: &RolloutSource, named: usize) -> Markup {
    let more = source.documents.len().saturating_sub(named) + source.more_documents;
    html! {
        @if source.store.is_empty() { "the program" } @else { (shown(&source.store)) }
        @for publish in &source.publishes {
            "; " (shown(&publish.lane)) " publish " (publish.seq)
            @if !publish.by.is_empty() { " by " (shown(&publish.by)) }
            @if !publish.note.is_empty() { ": " (shown(&publish.note)) }
        }
        @for (at, document) in source.documents.iter().take(named).enumerate() {
            (if at == 0 { ": " } else { ", " }) code { (shown(document)) }
        }
        @if more > 0 { " and " (more) " more" }
    }
}

/// How far the clients are, as a label with a colour and a text.
fn clients(state: RolloutState) -> Markup {
    let (class, text) = match state {
        RolloutState::Waking => ("wait", "being sent".to_owned()),
        RolloutState::NoClient => ("", "concerned no stream".to_owned()),
        RolloutState::Open { clients, .. } => (
            "wait",
            format!(
                "{} concerned, not all have answered",
                count(clients, "client")
            ),
        ),
        RolloutState::Answered { clients, after } => (
            "ok",
            format!(
                "{} after {} s",
                count(clients, "client"),
                seconds(after.as_secs_f64())
            ),
        ),
    };
    html! { span.badge.(class) { (text) } }
}

/// Returns seconds with three digits: answers take from a millisecond to minutes.
fn seconds(seconds: f64) -> String {
    match seconds {
        ..10.0 => format!("{seconds:.3}"),
        10.0..100.0 => format!("{seconds:.1}"),
        _ => format!("{seconds:.0}"),
    }
}

/// The clients that have not answered a change.
#[derive(Debug, Default)]
struct Owing {
    total: usize,
    /// The first ones: position and node id.
    first: Vec<(ClientCursor, String)>,
}

impl Owing {
    /// Looks at all clients. Cancel-safe; other tasks run in between.
    async fn of(admin: &Admin, number: u64) -> Self {
        let context = &admin.context;
        let (mut owing, mut cursor, mut seen) = (Self::default(), ClientCursor::default(), 0);
        loop {
            let mut found = None;
            let mut see = |client: &Client<'_>, _: &Snapshot| {
                let answers = client.answers.as_ref();
                if answers.is_some_and(|answers| answers.is_pending(number)) {
                    found = Some(client.node.map(|node| shown(&node.id)).unwrap_or_default());
                }
            };
            let Some(next) = context.clients.see_next(&context.cache, cursor, &mut see) else {
                break;
            };
            if let Some(id) = found {
                owing.total += 1;
                if owing.first.len() < LISTED {
                    owing.first.push((next.clone(), id));
                }
            }
            cursor = next;
            seen += 1;
            if seen % BATCH == 0 {
                tokio::task::yield_now().await;
            }
        }
        owing
    }

    fn list(&self) -> Markup {
        html! {
            @if self.total > 0 {
                h2 { "Without an answer" span.more { " · " (count(self.total, "client")) } }
                ul.tabs { @for (cursor, id) in &self.first {
                    @let at = Position::Client(cursor.clone()).to_string();
                    li { a href=(url("/client", &[("at", &at)])) {
                        @if id.is_empty() { "(no node id)" } @else { (id) }
                    } }
                } }
                @if self.total > self.first.len() { p.soft { "and " (self.total - self.first.len()) " more" } }
            }
        }
    }
}

/// Returns the page of one change; `None` if it is not kept any more.
pub(super) async fn change(admin: &Admin, query: &Query) -> Option<View> {
    let number: u64 = query.get("number").parse().ok()?;
    let convergence = admin.context.cache.convergence();
    let rollout = convergence.rollouts().get(number)?.clone();
    let owing = match rollout.state {
        RolloutState::Open { .. } => Owing::of(admin, number).await,
        _ => Owing::default(),
    };
    let now = convergence.now();
    let title = format!("Change #{number}");
    let content = html! {
        h1 { (title) }
        dl {
            dt { "When" } dd { (age(now.saturating_since(rollout.at).as_secs_f64())) " ago" }
            dt { "From" } dd { (source(&rollout.source, LISTED)) }
            dt { "Clients" } dd { (clients(rollout.state)) }
            @if let RolloutState::Open { lost, .. } = rollout.state && lost > 0 {
                dt { "Not followed" } dd { (count(lost, "client")) ", too many changes behind" }
            }
        }
        (nacks(&rollout))
        (owing.list())
        @for (resource_type, contents) in rollout.contents.types() { (names(resource_type, contents)) }
    };
    Some(View {
        section: Section::History,
        title,
        content,
    })
}

fn nacks(rollout: &Rollout) -> Markup {
    html! {
        @if !rollout.nacks.is_empty() {
            h2 { "NACKs" span.more { " · " (count(rollout.nacked, "client")) } }
            div.scroll { table {
                caption { "The first NACKs" }
                thead { tr { th scope="col" { "Node" } th scope="col" { "Resource" } th scope="col" { "Reason" } } }
                tbody { @for nack in &rollout.nacks { tr {
                    th scope="row" { a.name href=(url("/clients", &[("q", &nack.node)])) { (shown(&nack.node)) } }
                    td { (nack.resource_type) @if let Some(name) = nack.names.first() { " " (shown(name)) } }
                    td.text { (shown(&nack.reason)) }
                } } }
            } }
        }
    }
}

fn names(resource_type: &ResourceType, contents: &TypeContents) -> Markup {
    let words = ["added", "changed", "removed"];
    let sorts = contents.sorts().into_iter().zip(words);
    let type_name = resource_type.to_string();
    html! {
        @for (names, word) in sorts.filter(|(names, _)| names.count > 0) {
            h2 { (type_name) " " (word) span.more { " · " (count(names.count, "resource")) } }
            (name_list(&type_name, names))
        }
    }
}

fn name_list(type_name: &str, names: &ChangedNames) -> Markup {
    html! {
        ul.tabs { @for one in &names.first {
            @let group = one.group.as_deref().unwrap_or_default();
            li { (resource_link(type_name, &one.name, group)) @if !group.is_empty() { " " span.soft { "group " (shown(group)) } } }
        } }
        @if names.count > names.first.len() { p.soft { "and " (names.count - names.first.len()) " more" } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_times_of_changes_have_three_digits() {
        for (number, text) in [(0.0012, "0.001"), (12.34, "12.3"), (123.4, "123")] {
            assert_eq!(seconds(number), text);
        }
    }
}
