//! `/runtime` and `/runtime_modify`: the keys of the runtime, and their changes, as Envoy's admin has them.

use std::borrow::Cow;
use std::net::IpAddr;

use axum::Json;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use oxds_types::runtime::{Entry, LayerState, ModifyError, Readers, Runtime, Source, Value};
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use serde::Serialize;
use serde::ser::{SerializeMap as _, Serializer};
use tracing::info;

use crate::calls::Peer;

/// Keys of a page without `limit`, and the largest `limit`.
const DEFAULT_LIMIT: usize = 1_000;
const MAX_LIMIT: usize = 10_000;
/// Keys in the status.
const STATUS_KEYS: usize = 100;
/// Characters of a value in the status.
const STATUS_VALUE: usize = 200;

/// Part of the keys that a request asks for.
#[derive(Debug)]
struct RuntimeQuery {
    limit: usize,
    /// Key after which the page begins.
    after: Option<String>,
    prefix: String,
}

impl RuntimeQuery {
    fn parse(query: &str) -> Result<Self, String> {
        let mut parsed = Self {
            limit: DEFAULT_LIMIT,
            after: None,
            prefix: String::new(),
        };
        for (name, value) in parameters(query) {
            match &*name {
                "limit" => {
                    let limit = value.parse().ok();
                    let limit = limit.filter(|limit| (1..=MAX_LIMIT).contains(limit));
                    parsed.limit = limit.ok_or_else(|| {
                        format!(
                            "invalid limit {value:.60?}: expected a number from 1 to {MAX_LIMIT}"
                        )
                    })?;
                }
                "after" => parsed.after = Some(value),
                "prefix" => parsed.prefix = value,
                _ => {
                    let known = "expected limit, after or prefix";
                    return Err(format!("unknown parameter {name:.60?}: {known}"));
                }
            }
        }
        Ok(parsed)
    }

    fn next(&self, after: &str) -> String {
        let encode = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
        let (limit, prefix, after) = (self.limit, encode(&self.prefix), encode(after));
        format!("/runtime?limit={limit}&prefix={prefix}&after={after}")
    }
}

/// Returns the decoded parameters of a query.
fn parameters(query: &str) -> impl Iterator<Item = (String, String)> {
    let decode = |text: &str| {
        let text = text.replace('+', " ");
        percent_decode_str(&text).decode_utf8_lossy().into_owned()
    };
    let parameters = query.split('&').filter(|parameter| !parameter.is_empty());
    parameters.map(move |parameter| {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        (decode(name), decode(value))
    })
}

/// A page of keys. `layers` and `entries` are those of Envoy's `/runtime`.
#[derive(Serialize)]
struct RuntimePage {
    layers: Vec<String>,
    entries: Entries,
    layer_states: Vec<LayerStatus>,
    /// Keys that were read and are not set.
    read_unset: Vec<ReadKey>,
    keys: usize,
    next: Option<String>,
}

/// Entries in the order of their keys.
struct Entries(Vec<(String, KeyStatus)>);

impl Serialize for Entries {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (key, status) in &self.0 {
            map.serialize_entry(key, status)?;
        }
        map.end()
    }
}

#[derive(Serialize)]
struct KeyStatus {
    /// Value in each layer, empty if the layer does not have the key.
    layer_values: Vec<String>,
    final_value: String,
    layer: String,
    read_by: Vec<&'static str>,
}

#[derive(Serialize)]
struct ReadKey {
    key: String,
    read_by: Vec<&'static str>,
}

#[derive(Serialize)]
struct LayerStatus {
    name: String,
    source: String,
    keys: usize,
    error: Option<String>,
}

impl From<LayerState> for LayerStatus {
    fn from(state: LayerState) -> Self {
        Self {
            name: state.layer.name().to_owned(),
            source: state.layer.source().to_string(),
            keys: state.layer.values().len(),
            error: state.error,
        }
    }
}

/// The runtime in `/status.json`: all layers, and the first keys.
#[derive(Serialize)]
pub(super) struct RuntimeStatus {
    layers: Vec<LayerStatus>,
    keys: usize,
    entries: Vec<RuntimeEntry>,
}

#[derive(Serialize)]
struct RuntimeEntry {
    key: String,
    value: String,
    layer: String,
    read_by: Vec<&'static str>,
}

impl RuntimeStatus {
    pub(super) fn of(runtime: &Runtime) -> Self {
        let snapshot = runtime.snapshot();
        let first = snapshot.entries().take(STATUS_KEYS);
        let entries = first.map(|entry| RuntimeEntry {
            value: clipped(&entry.value.to_string()).into_owned(),
            layer: entry.layer.name().to_owned(),
            read_by: runtime.readers().of(entry.key),
            key: entry.key.to_owned(),
        });
        Self {
            entries: entries.collect(),
            layers: layers(runtime),
            keys: snapshot.len(),
        }
    }
}

fn clipped(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(STATUS_VALUE) {
        Some((end, _)) => format!("{}…", &text[..end]).into(),
        None => text.into(),
    }
}

fn layers(runtime: &Runtime) -> Vec<LayerStatus> {
    let layers = runtime.layers().into_iter();
    layers.map(LayerStatus::from).collect()
}

/// Returns the page of `GET /runtime`.
pub(super) fn page(runtime: &Runtime, query: &str) -> Response {
    let query = match RuntimeQuery::parse(query) {
        Ok(query) => query,
        Err(invalid) => return (StatusCode::BAD_REQUEST, invalid).into_response(),
    };
    let (snapshot, readers) = (runtime.snapshot(), runtime.readers());
    let after = query.after.as_deref();
    let mut selected = snapshot.entries_after(&query.prefix, after);
    let shown: Vec<Entry<'_>> = selected.by_ref().take(query.limit).collect();
    let is_last = selected.next().is_none();
    let next = shown.last().filter(|_| !is_last);
    let next = next.map(|last| query.next(last.key));
    let entries = shown.iter().map(|entry| {
        let values = snapshot.layers().iter().map(|layer| {
            let value = layer.values().get(entry.key);
            value.map_or_else(String::new, Value::to_string)
        });
        let status = KeyStatus {
            layer_values: values.collect(),
            final_value: entry.value.to_string(),
            layer: entry.layer.name().to_owned(),
            read_by: readers.of(entry.key),
        };
        (entry.key.to_owned(), status)
    });
    let names = snapshot.layers().iter();
    Json(RuntimePage {
        entries: Entries(entries.collect()),
        layers: names.map(|layer| layer.name().to_owned()).collect(),
        layer_states: layers(runtime),
        read_unset: read_unset(readers, &query, |key| snapshot.get(key).is_none()),
        keys: snapshot.len(),
        next,
    })
    .into_response()
}

/// Returns the keys that were read and are not set. They are on the first page.
fn read_unset(
    readers: &Readers,
    query: &RuntimeQuery,
    is_unset: impl Fn(&str) -> bool,
) -> Vec<ReadKey> {
    if query.after.is_some() {
        return Vec::new();
    }
    let keys = readers.keys().into_iter();
    let selected = keys.filter(|key| key.starts_with(&query.prefix) && is_unset(key));
    let first = selected.take(query.limit).map(|key| ReadKey {
        read_by: readers.of(&key),
        key,
    });
    first.collect()
}

const USAGE: &str = "usage: /runtime_modify?key1=value1&key2=value2&keyN=valueN\n\
                     use an empty value to remove a previously added override\n";

/// Handles `POST /runtime_modify`: sets keys of the admin layer, or removes those with an empty value. All changes of a
/// request are made, or none.
pub(super) fn modify(runtime: &Runtime, peer: &Peer, headers: &HeaderMap, query: &str) -> Response {
    if !runtime.is_modifiable() {
        let off = "no admin layer: expected oxds serve --runtime-admin\n";
        return (StatusCode::FORBIDDEN, off).into_response();
    }
    if let Some(denied) = denial(peer.address.ip(), headers) {
        return (StatusCode::FORBIDDEN, denied).into_response();
    }
    let changes: Vec<_> = parameters(query)
        .map(|(key, value)| {
            let value = (!value.is_empty()).then(|| Value::from_text(&value));
            (key, value)
        })
        .collect();
    if changes.is_empty() {
        return (StatusCode::BAD_REQUEST, USAGE).into_response();
    }
    let keys: Vec<String> = changes.iter().map(|(key, _)| key.clone()).collect();
    match runtime.modify(changes) {
        Ok(()) => {
            let first: Vec<_> = keys.iter().take(10).map(String::as_str).collect();
            info!(peer = %peer.address, changed = keys.len(), keys = %first.join(","), "runtime modified");
            let hidden = overridden(runtime, &keys);
            (StatusCode::OK, format!("OK\n{hidden}")).into_response()
        }
        Err(error @ ModifyError::NoAdminLayer) => {
            (StatusCode::FORBIDDEN, format!("{error}\n")).into_response()
        }
        Err(error) => (StatusCode::BAD_REQUEST, format!("{error}\n")).into_response(),
    }
}

/// Returns the reason why a client may not modify the runtime, if there is one.
fn denial(client: IpAddr, headers: &HeaderMap) -> Option<&'static str> {
    // The port has no authentication, so only this machine may change anything. An IPv4 client of a socket that is
    // bound to `::` has a mapped address.
    if !client.to_canonical().is_loopback() {
        return Some("only this machine may modify the runtime: expected a loopback address\n");
    }
    // A page in a browser of this machine may not: browsers send the origin with every POST.
    if headers.contains_key(header::ORIGIN) {
        return Some("requests of browsers are denied: expected a request without `origin`\n");
    }
    None
}

/// Returns a line for each key that a later layer decides, so that the change has no effect.
fn overridden(runtime: &Runtime, keys: &[String]) -> String {
    let snapshot = runtime.snapshot();
    let layers = snapshot.layers();
    let admin = layers
        .iter()
        .position(|layer| *layer.source() == Source::Admin);
    let later = layers.iter().skip(admin.map_or(layers.len(), |at| at + 1));
    let mut lines = String::new();
    for layer in later {
        for key in keys.iter().filter(|key| layer.values().contains_key(*key)) {
            let name = layer.name();
            lines += &format!("{key}: the layer {name:?} decides\n");
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn v47_only_this_machine_modifies_the_runtime() {
        let of = |client: &str| denial(client.parse().unwrap(), &HeaderMap::new());
        for local in ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"] {
            assert_eq!(of(local), None, "{local}");
        }
        for remote in ["10.0.0.7", "2001:db8::1", "::ffff:10.0.0.7", "0.0.0.0"] {
            let reason = of(remote).unwrap_or_default();
            assert!(reason.contains("loopback"), "{remote}");
        }
    }

    #[test]
    fn v47_values_in_the_status_are_clipped() {
        assert_eq!(clipped("short"), "short");
        let long = "ü".repeat(STATUS_VALUE + 1);
        assert_eq!(clipped(&long).chars().count(), STATUS_VALUE + 1);
        assert!(clipped(&long).ends_with('…'));
    }
}
