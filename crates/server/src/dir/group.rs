//! `groups/<name>/group.yaml`: which nodes a group is for (S-74).
//!
//! ```yaml
//! match:                      # all of these must hold; at least one is there
//!   id: edge-*                # exact, or a pattern: * within a segment, ** across slashes
//!   cluster: checkout
//!   locality: {region: eu, zone: eu-1, sub_zone: a}
//!   metadata: {app.tier: gold}    # a path and its value
//! ```

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use oxds_core::group::NodeMatcher;
use oxds_types::settings::{self, Scalar, SettingsError};
use oxds_types::{Glob, codec};
use serde::Deserialize;

use super::file::{self, finding};
use crate::store::Finding;

/// The folder of groups, and the file in each that says whom it is for.
const GROUPS: &str = "groups";
const FILE: &str = "group.yaml";

/// The group that a file below `root` belongs to; none: all nodes see what is in it.
pub(super) fn of(root: &Path, path: &Path) -> Option<Arc<str>> {
    let mut parts = path.strip_prefix(root).ok()?.components();
    let (first, name, rest) = (parts.next()?, parts.next()?, parts.next());
    // A file that lies in `groups` itself is in no group.
    rest?;
    match (first, name) {
        (Component::Normal(first), Component::Normal(name)) if first == GROUPS => {
            Some(name.to_string_lossy().into())
        }
        _ => None,
    }
}

/// Whether the file says whom its group is for.
pub(super) fn is_definition(root: &Path, path: &Path) -> bool {
    let depth = path
        .strip_prefix(root)
        .map(|path| path.components().count());
    path.ends_with(FILE) && depth == Ok(3) && of(root, path).is_some()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    r#match: Conditions,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Conditions {
    id: Option<Glob>,
    cluster: Option<Glob>,
    locality: Locality,
    metadata: BTreeMap<String, Scalar>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Locality {
    region: Option<String>,
    zone: Option<String>,
    sub_zone: Option<String>,
}

/// Where it must be said whom a group is for.
pub(super) fn definition(root: &Path, name: &str) -> PathBuf {
    root.join(GROUPS).join(name).join(FILE)
}

/// Reads a definition, which is no larger than a resource file may be.
pub(super) fn read(path: &Path, options: &codec::Options) -> Result<NodeMatcher, Vec<Finding>> {
    let bytes = file::bytes(path, options)?;
    parse(path, &bytes)
}

fn parse(path: &Path, text: &[u8]) -> Result<NodeMatcher, Vec<Finding>> {
    let file: File = settings::read(text).map_err(|SettingsError { position, reason }| {
        vec![Finding {
            position,
            ..finding(path, "group", &reason)
        }]
    })?;
    let Conditions {
        id,
        cluster,
        locality,
        metadata,
    } = file.r#match;
    let metadata = metadata
        .into_iter()
        .map(|(path, Scalar(text))| (path, text));
    let matcher = NodeMatcher {
        id,
        cluster,
        region: locality.region,
        zone: locality.zone,
        sub_zone: locality.sub_zone,
        metadata: metadata.collect(),
    };
    if matcher == NodeMatcher::default() {
        let nothing = "match says nothing: what all nodes see lies outside of `groups`";
        return Err(vec![finding(path, "group", nothing)]);
    }
    Ok(matcher)
}
