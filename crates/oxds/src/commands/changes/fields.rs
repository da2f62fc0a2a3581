//! The fields of a change: paths, old and new values.

use std::collections::{BTreeMap, BTreeSet};

use oxds_core::group::NodeMatcher;
use oxds_core::preview::Change;
use oxds_core::snapshot::Resource;
use oxds_types::content::{self, Content, FieldChange, ValueChange};
use oxds_types::discovery::Any;
use serde::Serialize;
use serde_json::Value;

use crate::table::one_line;

/// Longest value that is printed as text, in characters.
const MAX_VALUE: usize = 160;

/// A field that differs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct FieldRow {
    pub(super) path: String,
    /// `added`, `changed`, `removed` or `order`.
    pub(super) change: &'static str,
    /// Value before; of an order, the keys of the items.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) old: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) new: Option<Value>,
}

/// The fields of a change.
#[derive(Debug, Default)]
pub(super) struct Fields {
    pub(super) rows: Vec<FieldRow>,
    /// Why the rows do not say everything.
    pub(super) note: Option<String>,
}

impl Fields {
    /// Compares the contents of a changed resource, or the nodes of a group. Added and removed resources have no rows.
    pub(super) fn of(change: &Change) -> Self {
        if let Some(nodes) = &change.nodes {
            let rows = nodes_rows(nodes.0.as_ref(), nodes.1.as_ref());
            return Self { rows, note: None };
        }
        let (Some(old), Some(new)) = (&change.old, &change.new) else {
            return Self::default();
        };
        let mut fields = match (read(old), read(new)) {
            (Ok(old), Ok(new)) => {
                let found = content::compare(&old, &new);
                let rows = found.into_iter().map(FieldRow::from);
                Self {
                    rows: rows.collect(),
                    note: None,
                }
            }
            (Err(reason), _) | (_, Err(reason)) => Self {
                rows: Vec::new(),
                note: Some(format!(
                    "the content differs, and cannot be shown: {reason}"
                )),
            },
        };
        if old.ttl() != new.ttl() {
            let seconds = |of: &Resource| of.ttl().map(|ttl| Value::from(ttl.as_secs_f64()));
            fields.rows.push(row("ttl", seconds(old), seconds(new)));
        }
        if fields.rows.is_empty() && fields.note.is_none() {
            fields.note = Some("equal fields, encoded differently".to_owned());
        }
        fields
    }
}

fn read(resource: &Resource) -> Result<Content, String> {
    let any = Any {
        type_url: resource.resource_type().type_url().to_owned(),
        value: resource.value(),
    };
    content::read(&any).map_err(|error| error.to_string())
}

fn row(path: &str, old: Option<Value>, new: Option<Value>) -> FieldRow {
    let change = match (&old, &new) {
        (None, _) => "added",
        (_, None) => "removed",
        _ => "changed",
    };
    FieldRow {
        path: path.to_owned(),
        change,
        old,
        new,
    }
}

impl From<FieldChange> for FieldRow {
    fn from(change: FieldChange) -> Self {
        // A content is plain data, so it is always a value.
        let value = |content: &Content| serde_json::to_value(content).ok();
        let path = change.path();
        match &change.change {
            ValueChange::Added(new) => row(&path, None, value(new)),
            ValueChange::Removed(old) => row(&path, value(old), None),
            ValueChange::Changed { old, new } => row(&path, value(old), value(new)),
            ValueChange::Order { old, new } => Self {
                path,
                change: "order",
                old: Some(old.clone().into()),
                new: Some(new.clone().into()),
            },
        }
    }
}

impl FieldRow {
    /// Returns the row as a line of text.
    pub(super) fn line(&self) -> String {
        let path = &self.path;
        let value = |value: &Option<Value>| clipped(value.as_ref().unwrap_or(&Value::Null));
        let line = match self.change {
            "order" => format!(
                "~ {path}: order {} -> {}",
                value(&self.old),
                value(&self.new)
            ),
            "changed" => format!("~ {path}: {} -> {}", value(&self.old), value(&self.new)),
            change => {
                let (mark, one) = match change {
                    "added" => ('+', &self.new),
                    _ => ('-', &self.old),
                };
                let text = value(one);
                // An item of a list of texts is its own key.
                if path.ends_with(&format!("[{text}]")) {
                    format!("{mark} {path}")
                } else {
                    format!("{mark} {path}: {text}")
                }
            }
        };
        one_line(&line)
    }
}

fn clipped(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(MAX_VALUE) {
        Some((end, _)) => format!("{}… ({} bytes)", &text[..end], text.len()),
        None => text,
    }
}

/// Compares the conditions of two matchers.
fn nodes_rows(old: Option<&NodeMatcher>, new: Option<&NodeMatcher>) -> Vec<FieldRow> {
    let (old, new) = (conditions(old), conditions(new));
    let paths: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let paths = paths
        .into_iter()
        .filter(|path| old.get(*path) != new.get(*path));
    let value = |of: &BTreeMap<String, String>, path: &str| of.get(path).cloned().map(Value::from);
    paths
        .map(|path| row(path, value(&old, path), value(&new, path)))
        .collect()
}

/// Returns the conditions of a matcher, by their paths in `group.yaml`.
fn conditions(matcher: Option<&NodeMatcher>) -> BTreeMap<String, String> {
    let Some(matcher) = matcher else {
        return BTreeMap::new();
    };
    let NodeMatcher {
        id,
        cluster,
        user_agent,
        region,
        zone,
        sub_zone,
        metadata,
    } = matcher;
    let globs = [("id", id), ("cluster", cluster), ("user_agent", user_agent)];
    let globs = globs.map(|(name, glob)| (name, glob.as_ref().map(ToString::to_string)));
    let locality = [
        ("locality.region", region),
        ("locality.zone", zone),
        ("locality.sub_zone", sub_zone),
    ];
    let locality = locality.map(|(name, text)| (name, text.clone()));
    let conditions = globs.into_iter().chain(locality);
    let conditions = conditions
        .filter_map(|(name, text)| Some((format!("match.{name}"), text?)))
        .chain(
            metadata
                .iter()
                .map(|(path, text)| (format!("match.metadata[{path:?}]"), text.clone())),
        );
    conditions.collect()
}
