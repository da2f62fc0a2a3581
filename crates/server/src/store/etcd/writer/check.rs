//! The rules of folders, for the state of all lanes that a publish leads to (G-12, S-70 … S-72).

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use oxds_etcd::publisher::MergedState;
use oxds_etcd::{Entry, Segment, Stored};
use oxds_types::Position;

use super::entries::FolderEntries;
use crate::store::documents::{Document, DocumentOptions, Documents, Edits};
use crate::store::finding::Finding;

/// Root of the ids of documents. It is not a path of a file system.
const ROOT: &str = "etcd:";

/// The folder that is published.
struct Folder<'a> {
    path: &'a Path,
    lane: &'a Segment,
    entries: &'a FolderEntries,
}

/// Checks the state that a publish of this folder leads to: names, groups, references. Returns the errors and warnings.
///
/// A finding about an entry of the folder names its file and line, and any other the key, such as `etcd:l/main/r/…`.
/// With `strict`, a reference to nothing is an error.
#[must_use]
pub fn check(
    state: &MergedState,
    folder: &Path,
    lane: &Segment,
    entries: &FolderEntries,
    strict: bool,
) -> Vec<Finding> {
    let folder = Folder {
        path: folder,
        lane,
        entries,
    };
    let mut documents = Documents::new(
        Path::new(ROOT),
        DocumentOptions {
            strict,
            max_findings: usize::MAX,
            ..DocumentOptions::default()
        },
    );
    let (mut edits, mut places) = (Edits::default(), HashMap::new());
    let mut findings = Vec::new();
    for (lane, entry, stored) in &state.entries {
        let id = id(lane, entry);
        let place = folder.place(lane, entry);
        match document(&id, entry, stored) {
            Ok(document) => edits = edits.put(document),
            Err(reason) => findings.push(place.found(Finding::error("", reason))),
        }
        places.insert(id, place);
    }
    let found = documents.apply(edits).findings.into_iter();
    // An empty state has nothing wrong with it: that a folder is empty is a finding about the folder.
    let found = found.filter(|finding| finding.rule != "empty");
    findings.extend(found.map(|finding| match places.get(&finding.file) {
        Some(place) => place.found(finding),
        None => without_matcher(finding),
    }));
    findings.extend(
        state
            .unreadable
            .iter()
            .map(|(key, reason)| Finding::warning(format!("{ROOT}{key}"), reason.clone())),
    );
    findings.sort_by(|a, b| (&a.file, a.position).cmp(&(&b.file, b.position)));
    findings
}

/// Returns whether the state is that of a folder alone: what [`check`] finds in it shows in the check of the folder.
#[must_use]
pub fn is_of_folder(state: &MergedState, lane: &Segment, entries: &FolderEntries) -> bool {
    // Both are sorted by entry, as long as the state has one lane.
    let mut pairs = state.entries.iter().zip(entries);
    state.unreadable.is_empty()
        && state.entries.len() == entries.len()
        && pairs.all(|((of, entry, stored), (own_entry, own))| {
            of == lane && entry == own_entry && stored.is_same_content(own)
        })
}

fn document(id: &Path, entry: &Entry, stored: &Stored) -> Result<Document, String> {
    match entry {
        Entry::Matcher(group) => {
            let matcher = stored.matcher().map_err(|error| error.to_string())?;
            Ok(Document::of_group(id, group.shared(), matcher))
        }
        Entry::Resource(place) => {
            let resource = stored.resource(place).map_err(|error| error.to_string())?;
            Ok(Document::of_resource(id, Arc::new(resource)))
        }
    }
}

/// Returns the id of an entry as a document: `groups/<name>/` below the root makes it part of a group.
fn id(lane: &Segment, entry: &Entry) -> PathBuf {
    PathBuf::from(match (entry, entry.group()) {
        (Entry::Matcher(group), _) => format!("{ROOT}/groups/{group}/group.yaml"),
        (_, Some(group)) => format!("{ROOT}/groups/{group}/l/{lane}/{entry}"),
        (_, None) => format!("{ROOT}/l/{lane}/{entry}"),
    })
}

/// A resource of a group without a matcher is served to no node.
fn without_matcher(finding: Finding) -> Finding {
    let parts = finding.file.parent().and_then(Path::file_name);
    let group = parts.unwrap_or_default().to_string_lossy().into_owned();
    Finding {
        file: format!("{ROOT}g/{group}").into(),
        message: "no matcher: the group has no nodes, so its resources are not served".to_owned(),
        ..finding
    }
}

/// Place of an entry as the operator knows it.
struct ShownPlace {
    file: PathBuf,
    line: Option<u32>,
}

impl Folder<'_> {
    fn place(&self, lane: &Segment, entry: &Entry) -> ShownPlace {
        let key = || ShownPlace {
            file: format!("{ROOT}l/{lane}/{entry}").into(),
            line: None,
        };
        let own = self.entries.get(entry).filter(|_| lane == self.lane);
        let origin = own.and_then(|stored| stored.origin());
        origin.map_or_else(key, |origin| ShownPlace {
            file: self.path.join(&origin.file),
            line: Some(origin.line).filter(|line| *line > 0),
        })
    }
}

impl ShownPlace {
    fn found(&self, finding: Finding) -> Finding {
        Finding {
            file: self.file.clone(),
            position: self.line.map(|line| Position { line, column: 1 }),
            ..finding
        }
    }
}

#[cfg(test)]
mod tests {
    use oxds_core::snapshot::Resource;
    use oxds_etcd::publisher::Summary;
    use oxds_types::ResourceType;

    use super::*;

    fn stored(name: &str, text: &str) -> (Entry, Arc<Stored>) {
        let resource = Resource::new(ResourceType::CLUSTER, name, text.as_bytes());
        let entry = Entry::parse(&format!("r/envoy.config.cluster.v3.Cluster/{name}"));
        let stored = Stored::of_resource(&resource, None);
        (entry.expect("an entry"), Arc::new(stored))
    }

    /// given states of one and of several lanes / when they are compared with a folder / then only the state of the
    /// folder alone is its own.
    #[test]
    fn g12_only_the_state_of_the_folder_alone_is_its_own() {
        let lane = |name: &str| Segment::lane(name).expect("a name");
        let main = lane("main");
        let folder: FolderEntries = [stored("a", "1"), stored("b", "1")].into();
        let state = |entries: &[(&str, &str, &str)]| MergedState {
            entries: entries
                .iter()
                .map(|(of, name, text)| {
                    let (entry, stored) = stored(name, text);
                    (lane(of), entry, stored)
                })
                .collect(),
            unreadable: Vec::new(),
            summary: Summary::default(),
        };
        let (a, b) = (("main", "a", "1"), ("main", "b", "1"));
        let own = state(&[a, b]);
        assert!(is_of_folder(&own, &main, &folder));
        for other in [
            state(&[]),
            state(&[a]),
            state(&[a, ("main", "b", "2")]),
            state(&[a, b, ("main", "c", "1")]),
            state(&[a, b, ("other", "c", "1")]),
            state(&[a, ("other", "b", "1")]),
            MergedState {
                unreadable: vec![("l/other/r/x".to_owned(), "malformed".to_owned())],
                ..own
            },
        ] {
            assert!(!is_of_folder(&other, &main, &folder), "{other:?}");
        }
    }
}
