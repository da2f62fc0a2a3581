//! Contents of a folder and of a control plane, by versions: equal contents have equal versions (S-29).

use std::collections::BTreeMap;
use std::path::Path;

use oxds_core::group::Groups;
use oxds_core::snapshot::{ChangeSet, Snapshot};
use oxds_server::{Severity, dir};
use oxds_types::ResourceType;
use serde::Deserialize;

use super::super::args::lifecycle::FolderFieldArgs;
use super::super::control_plane::StatusPage;
use crate::exit::Failure;
use crate::table::one_line;

/// Versions of all resource types for nodes in no group, and of all groups.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Contents {
    /// By type URL; types without resources are not there.
    types: BTreeMap<String, String>,
    /// By name; empty if it is not known.
    groups: BTreeMap<String, String>,
}

/// The part of the status that has the versions, and how far the clients are.
#[derive(Debug, Default, Deserialize)]
struct Status {
    snapshot: Option<ServedSnapshot>,
    #[serde(default)]
    groups: Vec<ServedGroup>,
    #[serde(default)]
    page: Counts,
}

#[derive(Debug, Deserialize)]
struct ServedSnapshot {
    types: Vec<ServedType>,
}

#[derive(Debug, Deserialize)]
struct ServedType {
    type_url: String,
    version: String,
    resources: usize,
}

#[derive(Debug, Deserialize)]
struct ServedGroup {
    name: String,
    #[serde(default)]
    version: String,
}

#[derive(Debug, Default, Deserialize)]
struct Counts {
    #[serde(default)]
    behind: usize,
}

/// Returns how many clients have not answered the latest change; 0 if that is not known.
pub(super) fn behind(page: Option<&StatusPage>) -> usize {
    page.and_then(read).map_or(0, |status| status.page.behind)
}

fn read(page: &StatusPage) -> Option<Status> {
    serde_json::from_slice(&page.body).ok()
}

impl Contents {
    /// Reads a folder.
    ///
    /// # Errors
    /// It cannot be read, or has errors: then it would never be served as it is.
    pub(super) fn of_folder(folder: &Path, fields: &FolderFieldArgs) -> Result<Self, Failure> {
        let report = fields.load(folder, false, None)?;
        let mut errors = report.findings.iter();
        let error = errors.find(|finding| finding.severity == Severity::Error);
        if let Some(error) = error {
            let failure =
                Failure::negative(format_args!("{} has errors: {error}", folder.display()));
            return Err(failure.hint("`oxds validate` prints all of them"));
        }
        Ok(Self::of(&report))
    }

    fn of(report: &dir::Report) -> Self {
        let changes: ChangeSet = report.of_all_nodes().iter().cloned().collect();
        let (snapshot, _) = Snapshot::unloaded().apply(changes);
        let types = snapshot.types().map(|(resource_type, published)| {
            let version = published.collection().version().to_string();
            (resource_type.type_url().to_owned(), version)
        });
        let mut groups = Groups::default();
        groups.update(report.groups.clone());
        let versions = groups.versions();
        Self {
            types: types.collect(),
            groups: versions
                .map(|(name, version)| (name.to_string(), version.to_string()))
                .collect(),
        }
    }

    /// Returns what a control plane serves; `None` if its status does not say it.
    pub(super) fn of_page(page: &StatusPage) -> Option<Self> {
        let status = read(page)?;
        let types = status.snapshot?.types.into_iter();
        let types = types.filter(|of_type| of_type.resources > 0);
        let groups = status.groups.into_iter();
        Some(Self {
            types: types.map(|of| (of.type_url, of.version)).collect(),
            groups: groups.map(|group| (group.name, group.version)).collect(),
        })
    }

    /// Returns a line for each type and group whose served content differs.
    pub(super) fn differences(&self, served: &Self) -> Vec<String> {
        let types = differing(&self.types, &served.types).map(|(type_url, has, serves)| {
            let known = ResourceType::from_type_url(type_url);
            let name = known.map_or_else(|| type_url.to_owned(), |(known, _)| known.to_string());
            line(&name, has, serves)
        });
        let groups = differing(&self.groups, &served.groups);
        let groups = groups.map(|(name, has, serves)| line(&format!("group {name}"), has, serves));
        types.chain(groups).collect()
    }
}

/// Returns the keys whose versions differ, with both. An unknown version equals any.
fn differing<'a>(
    own: &'a BTreeMap<String, String>,
    served: &'a BTreeMap<String, String>,
) -> impl Iterator<Item = (&'a str, Option<&'a String>, Option<&'a String>)> {
    let keys = own
        .keys()
        .chain(served.keys().filter(|key| !own.contains_key(*key)));
    let pairs = keys.map(|key| (key.as_str(), own.get(key), served.get(key)));
    pairs.filter(|(_, own, served)| own != served && served.is_none_or(|served| !served.is_empty()))
}

fn line(what: &str, has: Option<&String>, serves: Option<&String>) -> String {
    let version =
        |of: Option<&String>| of.map_or("nothing".to_owned(), |of| format!("version {of}"));
    let (has, serves) = (version(has), version(serves));
    one_line(&format!(
        "{what}: the folder has {has}, the control plane serves {serves}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contents(types: &[(&str, &str)], groups: &[(&str, &str)]) -> Contents {
        let map = |pairs: &[(&str, &str)]| {
            let pairs = pairs.iter();
            pairs
                .map(|(key, version)| ((*key).to_owned(), (*version).to_owned()))
                .collect()
        };
        Contents {
            types: map(types),
            groups: map(groups),
        }
    }

    #[test]
    fn differences_name_types_and_groups() {
        const CDS: &str = "type.googleapis.com/envoy.config.cluster.v3.Cluster";
        const EDS: &str = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment";
        let folder = contents(&[(CDS, "1"), (EDS, "1")], &[("edge", "1"), ("eu", "1")]);
        assert!(folder.differences(&folder).is_empty());
        let served = contents(
            &[(CDS, "2"), ("x/shop.Own", "3")],
            &[("edge", ""), ("us", "1")],
        );
        assert_eq!(
            folder.differences(&served),
            [
                "cds: the folder has version 1, the control plane serves version 2",
                "eds: the folder has version 1, the control plane serves nothing",
                "shop.Own: the folder has nothing, the control plane serves version 3",
                "group eu: the folder has version 1, the control plane serves nothing",
                "group us: the folder has nothing, the control plane serves version 1",
            ]
        );
    }
}
