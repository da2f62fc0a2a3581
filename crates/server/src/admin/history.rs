//! `/history.json`: the latest changes of the served resources, and how far the clients are with each.
//! `docs/status-json.md` describes it.

use oxds_core::rollout::{
    ChangedNames, Rollout, RolloutNack, RolloutPublish, RolloutSource, RolloutState, TypeContents,
};
use oxds_core::time::Instant;
use serde::Serialize;

use crate::cache::Convergence;

/// Changes of a page without `limit`, and the largest `limit`.
const DEFAULT_LIMIT: usize = 50;
const MAX_LIMIT: usize = 200;

/// The part of the history that a request asks for.
#[derive(Debug)]
pub(super) struct HistoryQuery {
    limit: usize,
    /// Only changes before this one.
    before: Option<u64>,
}

/// A parameter that is unknown or malformed.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum InvalidHistoryQuery {
    #[error("unknown parameter {0:?}: expected limit or before")]
    Unknown(String),
    #[error("invalid limit {0:?}: expected a number from 1 to {MAX_LIMIT}")]
    Limit(String),
    #[error("invalid number {0:?} in `before`: expected one of a change")]
    Before(String),
}

impl HistoryQuery {
    /// Parses the query of a URL.
    pub(super) fn parse(query: &str) -> Result<Self, InvalidHistoryQuery> {
        let clipped = |text: &str| text.chars().take(60).collect();
        let mut parsed = Self {
            limit: DEFAULT_LIMIT,
            before: None,
        };
        for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            match name {
                "limit" => {
                    let limit = value.parse().ok();
                    let limit = limit.filter(|limit| (1..=MAX_LIMIT).contains(limit));
                    parsed.limit =
                        limit.ok_or_else(|| InvalidHistoryQuery::Limit(clipped(value)))?;
                }
                "before" => {
                    let number = value.parse().ok();
                    let number =
                        number.ok_or_else(|| InvalidHistoryQuery::Before(clipped(value)))?;
                    parsed.before = Some(number);
                }
                _ => return Err(InvalidHistoryQuery::Unknown(clipped(name))),
            }
        }
        Ok(parsed)
    }
}

/// The content of the page.
#[derive(Serialize)]
pub(super) struct HistoryPage {
    /// The latest first.
    changes: Vec<ChangeStatus>,
    next: Option<String>,
}

#[derive(Serialize)]
struct ChangeStatus {
    number: u64,
    seconds_ago: f64,
    source: SourceStatus,
    types: Vec<TypeChanges>,
    #[serde(flatten)]
    clients: ClientsStatus,
    nacked: usize,
    nacks: Vec<ChangeNack>,
}

#[derive(Serialize)]
struct SourceStatus {
    store: String,
    documents: Vec<String>,
    more_documents: usize,
    publishes: Vec<PublishStatus>,
}

#[derive(Serialize)]
struct PublishStatus {
    lane: String,
    seq: u64,
    by: String,
    note: String,
}

#[derive(Serialize)]
struct TypeChanges {
    #[serde(rename = "type")]
    resource_type: String,
    added: NamesStatus,
    changed: NamesStatus,
    removed: NamesStatus,
}

#[derive(Serialize)]
struct NamesStatus {
    count: usize,
    first: Vec<NameStatus>,
}

#[derive(Serialize)]
struct NameStatus {
    name: String,
    group: Option<String>,
}

/// How far the clients are.
#[derive(Serialize)]
struct ClientsStatus {
    state: &'static str,
    clients: usize,
    answered_seconds: Option<f64>,
}

#[derive(Serialize)]
struct ChangeNack {
    node: String,
    #[serde(rename = "type")]
    resource_type: String,
    name: Option<String>,
    reason: String,
}

impl HistoryPage {
    /// Returns the page that a query asks for.
    pub(super) fn of(convergence: &Convergence, query: &HistoryQuery) -> Self {
        let now = convergence.now();
        // Copied, so that answers of clients do not wait until the page is made.
        let mut selected: Vec<Rollout> = {
            let rollouts = convergence.rollouts();
            let before = rollouts.before(query.before);
            before.take(query.limit + 1).cloned().collect()
        };
        let has_more = selected.len() > query.limit;
        selected.truncate(query.limit);
        let last = selected.last().filter(|_| has_more);
        let (limit, last) = (query.limit, last.map(|last| last.number));
        Self {
            next: last.map(|last| format!("/history.json?limit={limit}&before={last}")),
            changes: selected
                .iter()
                .map(|one| ChangeStatus::of(one, now))
                .collect(),
        }
    }
}

impl ChangeStatus {
    fn of(rollout: &Rollout, now: Instant) -> Self {
        let types = rollout.contents.types();
        let types = types.map(|(resource_type, contents)| {
            let TypeContents {
                added,
                changed,
                removed,
            } = contents;
            TypeChanges {
                resource_type: resource_type.to_string(),
                added: added.into(),
                changed: changed.into(),
                removed: removed.into(),
            }
        });
        Self {
            number: rollout.number,
            seconds_ago: now.saturating_since(rollout.at).as_secs_f64(),
            source: (&rollout.source).into(),
            types: types.collect(),
            clients: rollout.state.into(),
            nacked: rollout.nacked,
            nacks: rollout.nacks.iter().map(ChangeNack::from).collect(),
        }
    }
}

impl From<&RolloutSource> for SourceStatus {
    fn from(source: &RolloutSource) -> Self {
        let publishes = source.publishes.iter();
        Self {
            store: source.store.clone(),
            documents: source.documents.clone(),
            more_documents: source.more_documents,
            publishes: publishes.map(PublishStatus::from).collect(),
        }
    }
}

impl From<&RolloutPublish> for PublishStatus {
    fn from(publish: &RolloutPublish) -> Self {
        Self {
            lane: publish.lane.clone(),
            seq: publish.seq,
            by: publish.by.clone(),
            note: publish.note.clone(),
        }
    }
}

impl From<&ChangedNames> for NamesStatus {
    fn from(names: &ChangedNames) -> Self {
        let first = names.first.iter().map(|one| NameStatus {
            name: one.name.to_string(),
            group: one.group.as_ref().map(ToString::to_string),
        });
        Self {
            count: names.count,
            first: first.collect(),
        }
    }
}

impl From<RolloutState> for ClientsStatus {
    fn from(state: RolloutState) -> Self {
        let (text, clients, after) = match state {
            RolloutState::Waking => ("OPEN", 0, None),
            RolloutState::NoClient => ("NO_CLIENT", 0, None),
            RolloutState::Open { clients, .. } => ("OPEN", clients, None),
            RolloutState::Answered { clients, after } => ("ANSWERED", clients, Some(after)),
        };
        Self {
            state: text,
            clients,
            answered_seconds: after.map(|after| after.as_secs_f64()),
        }
    }
}

impl From<&RolloutNack> for ChangeNack {
    fn from(nack: &RolloutNack) -> Self {
        Self {
            node: nack.node.to_string(),
            resource_type: nack.resource_type.to_string(),
            name: nack.names.first().map(ToString::to_string),
            reason: nack.reason.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn history_queries_that_are_malformed_are_errors() {
        for (query, expected) in [
            (
                "limit=0",
                "invalid limit \"0\": expected a number from 1 to 200",
            ),
            (
                "limit=201",
                "invalid limit \"201\": expected a number from 1 to 200",
            ),
            (
                "before=x",
                "invalid number \"x\" in `before`: expected one of a change",
            ),
            (
                "page=2",
                "unknown parameter \"page\": expected limit or before",
            ),
        ] {
            let error = HistoryQuery::parse(query).unwrap_err();
            assert_eq!(error.to_string(), expected);
        }
        let query = HistoryQuery::parse("limit=7&before=12").unwrap();
        assert_eq!((query.limit, query.before), (7, Some(12)));
    }
}
