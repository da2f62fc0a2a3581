//! A folder that was read, as entries of a lane.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use oxds_core::etcd::{Entry, KeyError, Origin, Place, Segment, Stored};
use oxds_core::group::Definition;
use oxds_core::snapshot::Resource;

use crate::store::dir::Report;
use crate::store::documents;

/// Entries by their places.
pub type FolderEntries = BTreeMap<Entry, Arc<Stored>>;

/// Reason why a folder cannot be published.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EntriesError {
    /// The name of a group cannot be a part of a key.
    #[error(transparent)]
    Group(#[from] KeyError),
    /// A resource has no name, so it has no key.
    #[error("a resource of type {0} has no name: expected one, because its key ends with it")]
    NoName(String),
}

/// Returns the entries of a folder: its resources, those of groups, and the matchers of groups. The origin of each is its file,
/// relative to the folder, and its line.
///
/// # Errors
/// A group or a resource has a name that no key can have.
pub fn entries(folder: &Path, report: &Report) -> Result<FolderEntries, EntriesError> {
    let mut entries = FolderEntries::new();
    for resource in report.of_all_nodes() {
        add(&mut entries, folder, None, resource)?;
    }
    for group in &report.groups {
        let name = Segment::group(&group.name)?;
        if let Definition::Set(matcher) = &group.definition {
            let origin = Origin {
                file: documents::group_definition(&group.name),
                ..Origin::default()
            };
            let stored = Stored::of_matcher(matcher, Some(origin));
            entries.insert(Entry::Matcher(name.clone()), Arc::new(stored));
        }
        for resource in &group.changes.upserts {
            add(&mut entries, folder, Some(&name), resource)?;
        }
    }
    Ok(entries)
}

fn add(
    entries: &mut FolderEntries,
    folder: &Path,
    group: Option<&Segment>,
    resource: &Resource,
) -> Result<(), EntriesError> {
    if resource.name().is_empty() {
        let resource_type = resource.resource_type().to_string();
        return Err(EntriesError::NoName(resource_type));
    }
    let place = Place {
        group: group.cloned(),
        resource_type: resource.resource_type().clone(),
        name: Arc::clone(resource.name()),
    };
    let origin = resource.origin().map(|origin| {
        let document = &*origin.document;
        let file = document.strip_prefix(folder).unwrap_or(document);
        Origin {
            file: file.to_string_lossy().into_owned(),
            line: origin.position.map_or(0, |at| at.line),
            text_hash: String::new(),
        }
    });
    let stored = Stored::of_resource(resource, origin);
    entries.insert(place.into(), Arc::new(stored));
    Ok(())
}
