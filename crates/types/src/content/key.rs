//! Natural keys: the part of an item by which people find it in a list again.

use std::collections::HashSet;

use serde_json::Value;

use super::node::{Content, Entry};

/// Longest key in bytes. A longer one would make paths that no one can read.
const MAX_KEY: usize = 300;

/// Ways to find the key of an item, the best one first.
const WAYS: [fn(&Content) -> Option<String>; 12] = [
    scalar,
    |item| text(item, "name"),
    endpoint,
    |item| item.get("address").map(address),
    |item| brief_of(item, "locality"),
    |item| {
        let priority = item.get("priority").map_or("0".to_owned(), brief);
        Some(format!(
            "{} priority {priority}",
            brief_of(item, "locality")?
        ))
    },
    |item| brief_of(item, "match"),
    |item| text(item, "key"),
    |item| text(item.get("header")?, "key"),
    |item| brief_of(item, "domains"),
    |item| brief_of(item, "filter_chain_match"),
    |item| item.type_url().map(str::to_owned),
];

/// Returns the keys of the items of two versions of a list: all by the first way in which every item of both has a key,
/// and each item of one list another key.
pub(super) fn keys(old: &[Content], new: &[Content]) -> Option<(Vec<String>, Vec<String>)> {
    let mut ways = WAYS.iter();
    ways.find_map(|way| Some((unique(old, way)?, unique(new, way)?)))
}

fn unique(items: &[Content], way: &impl Fn(&Content) -> Option<String>) -> Option<Vec<String>> {
    let keys: Option<Vec<String>> = items
        .iter()
        .map(|item| way(item).filter(|key| !key.is_empty() && key.len() <= MAX_KEY))
        .collect();
    let keys = keys?;
    let mut seen = HashSet::new();
    keys.iter().all(|key| seen.insert(&**key)).then_some(keys)
}

fn scalar(item: &Content) -> Option<String> {
    matches!(item, Content::Scalar(_)).then(|| brief(item))
}

fn text(item: &Content, field: &str) -> Option<String> {
    item.get(field)?.as_text().map(str::to_owned)
}

/// Returns the address of an endpoint, or its name.
fn endpoint(item: &Content) -> Option<String> {
    match item.get("endpoint") {
        Some(endpoint) => endpoint.get("address").map(address),
        None => text(item, "endpoint_name"),
    }
}

/// Returns an address as people write it: `10.0.0.1:80`.
fn address(address: &Content) -> String {
    let socket = || {
        let socket = address.get("socket_address")?;
        let host = socket.get("address")?.as_text()?;
        let port = socket
            .get("port_value")
            .or_else(|| socket.get("named_port"))?;
        let protocol = socket.get("protocol").and_then(Content::as_text);
        let protocol = protocol.filter(|protocol| *protocol != "TCP");
        let protocol = protocol.map(|protocol| format!(" {protocol}"));
        Some(format!(
            "{host}:{}{}",
            brief(port),
            protocol.unwrap_or_default()
        ))
    };
    socket().unwrap_or_else(|| brief(address))
}

fn brief_of(item: &Content, field: &str) -> Option<String> {
    let value = item.get(field)?;
    let inner = brief(value);
    // The braces of the outermost object say nothing.
    let trimmed = inner.strip_prefix('{').and_then(|s| s.strip_suffix('}'));
    Some(trimmed.map_or(inner.clone(), str::to_owned))
}

/// Returns a value in one line: `{prefix: /a, headers: [{name: x}]}`. Different values have different texts, unless
/// they are hidden; `unique` finds those.
fn brief(content: &Content) -> String {
    match content {
        Content::Scalar(Value::String(text)) => text.clone(),
        Content::Scalar(value) => value.to_string(),
        Content::Hidden(hidden) => hidden.text().to_owned(),
        Content::List(items) => {
            let items: Vec<_> = items.iter().map(brief).collect();
            format!("[{}]", items.join(", "))
        }
        Content::Message(entries) | Content::Map(entries) => {
            let entry = |Entry { name, value }: &Entry| format!("{name}: {}", brief(value));
            let entries: Vec<_> = entries.iter().map(entry).collect();
            format!("{{{}}}", entries.join(", "))
        }
    }
}
