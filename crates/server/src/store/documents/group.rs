//! Groups of nodes in documents: `groups/<name>/…` and its definition, `groups/<name>/group.yaml` (S-74).
//!
//! ```yaml
//! match:                      # all of these must hold; at least one is present
//!   id: edge-*                # exact, or a pattern: * within a segment, ** across slashes
//!   cluster: checkout
//!   locality: {region: eu, zone: eu-1, sub_zone: a}
//!   metadata: {app.tier: gold}    # a path and its value
//!   user_agent: envoy 1.40.*  # name and version; the server warns of it
//! ```

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use oxds_core::group::NodeMatcher;
use oxds_settings::{Scalar, SettingsError};
use oxds_types::Glob;
use serde::Deserialize;

use crate::store::finding::Finding;

/// The folder of all groups, below the root.
const GROUPS: &str = "groups";
/// The name of the document that defines the nodes of a group.
const DEFINITION: &str = "group.yaml";

/// Returns the group that a document below `root` belongs to. `None`: all nodes see its resources.
pub(super) fn of(root: &Path, id: &Path) -> Option<Arc<str>> {
    let mut parts = id.strip_prefix(root).ok()?.components();
    let (first, name, rest) = (parts.next()?, parts.next()?, parts.next());
    // A document directly in `groups` belongs to no group.
    rest?;
    match (first, name) {
        (Component::Normal(first), Component::Normal(name)) if first == GROUPS => {
            Some(name.to_string_lossy().into())
        }
        _ => None,
    }
}

/// Returns the group whose nodes this document defines.
pub(super) fn defined_by(root: &Path, id: &Path) -> Option<Arc<str>> {
    let depth = id
        .strip_prefix(root)
        .map(|below| below.components().count());
    let is_definition = id.ends_with(DEFINITION) && depth == Ok(3);
    of(root, id).filter(|_| is_definition)
}

/// Returns the id of the document that defines the nodes of a group.
pub(super) fn definition(root: &Path, name: &str) -> PathBuf {
    root.join(GROUPS).join(name).join(DEFINITION)
}

/// Returns the path below the root of the document that defines the nodes of a group.
#[cfg(feature = "etcd")]
pub(crate) fn definition_file(name: &str) -> String {
    format!("{GROUPS}/{name}/{DEFINITION}")
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DefinitionFile {
    r#match: Conditions,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Conditions {
    id: Option<Glob>,
    cluster: Option<Glob>,
    user_agent: Option<Glob>,
    locality: LocalityConditions,
    metadata: BTreeMap<String, Scalar>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct LocalityConditions {
    region: Option<String>,
    zone: Option<String>,
    sub_zone: Option<String>,
}

/// Parses the definition of a group.
pub(super) fn parse(id: &Path, text: &[u8]) -> Result<NodeMatcher, Vec<Finding>> {
    let file: DefinitionFile =
        oxds_settings::read(text).map_err(|SettingsError { position, reason }| {
            vec![Finding {
                position,
                ..Finding::for_file(id, "group", &reason)
            }]
        })?;
    let Conditions {
        id: node_id,
        cluster,
        user_agent,
        locality,
        metadata,
    } = file.r#match;
    let metadata = metadata
        .into_iter()
        .map(|(path, Scalar(text))| (path, text));
    let matcher = NodeMatcher {
        id: node_id,
        cluster,
        user_agent,
        region: locality.region,
        zone: locality.zone,
        sub_zone: locality.sub_zone,
        metadata: metadata.collect(),
    };
    if matcher == NodeMatcher::default() {
        let empty = "match is empty: expected at least one condition; resources for all nodes lie outside of `groups`";
        return Err(vec![Finding::for_file(id, "group", empty)]);
    }
    Ok(matcher)
}
