//! The query of `/status.json`: which part of the lists a page has.
//!
//! ```text
//!   /status.json?limit=500&node=edge-*   ──▶ the first 500 entries, and `page.next`
//!   /status.json?limit=500&node=edge-*&after=stream:41 ──▶ the next ones
//!   /status.json?limit=0 ──▶ no entries: everything else, however many clients there are
//! ```
//! A server may have 100,000 clients, and a client may report any number of loads, so a page without a bound is a way
//! to take its memory. A position names an entry, not a number: entries that come and go between two pages move no
//! other entry past it.

use std::borrow::Cow;

use oxds_types::Glob;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use crate::clients::{ClientCursor, PollKind};
use crate::load::LoadKey;

/// Entries of a page without `limit`, and the largest `limit`.
const DEFAULT_LIMIT: usize = 1_000;
const MAX_LIMIT: usize = 10_000;
/// Characters of a position that a URL may have as they are.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b':');
/// Separates the names of a load. Names of clusters are text without control characters.
const SEPARATOR: char = '\u{1f}';

/// The part of the lists that a request asks for.
#[derive(Debug)]
pub(crate) struct StatusQuery {
    /// Largest number of clients and loads; with 0 the lists are not asked for.
    pub(super) limit: usize,
    /// Position after which the page begins.
    pub(super) after: Position,
    /// Pattern of the node ids.
    pub(super) node: Option<Glob>,
}

/// A position in the list of clients, or in the list of loads after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Position {
    Client(ClientCursor),
    /// After this load; before the first one without.
    Load(Option<LoadKey>),
}

/// A parameter that is unknown or malformed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InvalidQuery {
    #[error("unknown parameter {0:?}: expected limit, after or node")]
    Unknown(String),
    #[error("invalid limit {0:?}: expected a number up to {MAX_LIMIT}")]
    Limit(String),
    #[error("invalid position {0:?} in `after`: expected one that `page.next` had")]
    Position(String),
}

impl Default for StatusQuery {
    fn default() -> Self {
        Self {
            limit: DEFAULT_LIMIT,
            after: Position::Client(ClientCursor::Start),
            node: None,
        }
    }
}

impl StatusQuery {
    /// Parses the query of a URL.
    pub(crate) fn parse(query: &str) -> Result<Self, InvalidQuery> {
        let mut parsed = Self::default();
        for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            let value: Cow<'_, str> = percent_decode_str(value).decode_utf8_lossy();
            match name {
                "limit" => {
                    let limit = value.parse().ok();
                    let limit = limit.filter(|limit| *limit <= MAX_LIMIT);
                    parsed.limit = limit.ok_or_else(|| InvalidQuery::Limit(clipped(&value)))?;
                }
                "after" => {
                    let position = Position::parse(&value);
                    parsed.after =
                        position.ok_or_else(|| InvalidQuery::Position(clipped(&value)))?;
                }
                "node" => parsed.node = Some(Glob::new(&value)),
                _ => return Err(InvalidQuery::Unknown(clipped(name))),
            }
        }
        Ok(parsed)
    }

    /// Returns path and query of the page after `position`.
    pub(super) fn next(&self, position: &Position) -> String {
        let encode = |text: &str| utf8_percent_encode(text, PLAIN).to_string();
        let node = self.node.as_ref().map(|node| encode(&node.to_string()));
        let node = node.map_or_else(String::new, |node| format!("&node={node}"));
        let (limit, after) = (self.limit, encode(&position.to_string()));
        format!("/status.json?limit={limit}{node}&after={after}")
    }

    /// Returns whether the page may have a client or a load of this node.
    pub(super) fn selects(&self, node: &str) -> bool {
        self.node
            .as_ref()
            .is_none_or(|pattern| pattern.matches(node))
    }
}

fn clipped(text: &str) -> String {
    text.chars().take(60).collect()
}

impl Position {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (of, rest) = text.split_once(':').unwrap_or((text, ""));
        Some(match of {
            "stream" => Self::Client(ClientCursor::Stream(rest.parse().ok()?)),
            "fetch" => Self::Client(ClientCursor::Poll(rest.to_owned(), PollKind::Fetch)),
            "rest" => Self::Client(ClientCursor::Poll(rest.to_owned(), PollKind::Rest)),
            "loads" => Self::Load(None),
            "load" => {
                let mut names = rest.split(SEPARATOR).map(str::to_owned);
                let (node, cluster, service) = (names.next()?, names.next()?, names.next()?);
                Self::Load(Some(LoadKey {
                    node,
                    cluster,
                    service,
                }))
            }
            _ => return None,
        })
    }
}

impl std::fmt::Display for Position {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            // Never a page's end: a page has at least one entry.
            Self::Client(ClientCursor::Start) => f.write_str("stream:0"),
            Self::Client(ClientCursor::Stream(id)) => write!(f, "stream:{id}"),
            Self::Client(ClientCursor::Poll(id, kind)) => write!(f, "{}:{id}", kind.as_str()),
            Self::Load(None) => f.write_str("loads"),
            Self::Load(Some(key)) => {
                let LoadKey {
                    node,
                    cluster,
                    service,
                } = key;
                write!(f, "load:{node}{SEPARATOR}{cluster}{SEPARATOR}{service}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_survive_the_url() {
        for position in [
            Position::Client(ClientCursor::Stream(41)),
            Position::Client(ClientCursor::Poll("a&b=c %/ü".into(), PollKind::Rest)),
            Position::Client(ClientCursor::Poll(String::new(), PollKind::Fetch)),
            Position::Load(None),
            Position::Load(Some(LoadKey {
                node: "n:1".into(),
                cluster: "c".into(),
                service: String::new(),
            })),
        ] {
            let query = StatusQuery::parse("limit=7&node=edge-*").unwrap();
            let next = query.next(&position);
            let (path, query) = next.split_once('?').unwrap();
            assert_eq!(path, "/status.json");
            let query = StatusQuery::parse(query).unwrap();
            assert_eq!((query.limit, &query.after), (7, &position), "{next}");
            assert!(
                query.selects("edge-7") && !query.selects("core-7"),
                "{next}"
            );
        }
    }

    #[test]
    fn malformed_status_queries_are_errors() {
        for (query, expected) in [
            (
                "limit=-1",
                "invalid limit \"-1\": expected a number up to 10000",
            ),
            (
                "limit=99999",
                "invalid limit \"99999\": expected a number up to 10000",
            ),
            (
                "after=7",
                "invalid position \"7\" in `after`: expected one that `page.next` had",
            ),
            (
                "after=load:a",
                "invalid position \"load:a\" in `after`: expected one that `page.next` had",
            ),
            (
                "page=2",
                "unknown parameter \"page\": expected limit, after or node",
            ),
        ] {
            let error = StatusQuery::parse(query).unwrap_err();
            assert_eq!(error.to_string(), expected);
        }
        assert_eq!(StatusQuery::parse("").unwrap().limit, DEFAULT_LIMIT);
    }
}
