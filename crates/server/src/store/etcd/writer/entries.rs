//! A folder that was read, as entries of a lane.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use oxds_core::group::Definition;
use oxds_core::snapshot::Resource;
use oxds_etcd::{Entry, KeyError, Origin, Place, Segment, Stored};
use rayon::prelude::*;

use crate::store::dir::Report;
use crate::store::documents;

/// Resources that one task encodes: it takes about a millisecond.
const CHUNK: usize = 500;

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

/// Returns the entries of a folder: its resources, those of groups, and the matchers of groups. The origin of each is
/// its file, relative to the folder, and its line. A large folder is encoded on all processors.
///
/// # Errors
/// A group or a resource has a name that no key can have.
pub fn entries(folder: &Path, report: &Report) -> Result<FolderEntries, EntriesError> {
    let mut entries = encoded(folder, None, report.of_all_nodes())?;
    for group in &report.groups {
        let name = Segment::group(&group.name)?;
        entries.extend(encoded(folder, Some(&name), &group.changes.upserts)?);
        if let Definition::Set(matcher) = &group.definition {
            let origin = Origin {
                file: documents::group_definition(&group.name),
                ..Origin::default()
            };
            let stored = Stored::of_matcher(matcher, Some(origin));
            entries.push((Entry::Matcher(name), Arc::new(stored)));
        }
    }
    // A map of all is made faster than by an insertion for each.
    Ok(entries.into_iter().collect())
}

type Encoded = Vec<(Entry, Arc<Stored>)>;

fn encoded(
    folder: &Path,
    group: Option<&Segment>,
    resources: &[Arc<Resource>],
) -> Result<Encoded, EntriesError> {
    let chunks = resources.par_chunks(CHUNK).map(|resources| {
        let mut files = Files::new(folder);
        let entry = |resource| entry(&mut files, group, resource);
        resources.iter().map(entry).collect::<Result<Encoded, _>>()
    });
    let chunks: Vec<Encoded> = chunks.collect::<Result<_, _>>()?;
    Ok(chunks.into_iter().flatten().collect())
}

fn entry(
    files: &mut Files,
    group: Option<&Segment>,
    resource: &Arc<Resource>,
) -> Result<(Entry, Arc<Stored>), EntriesError> {
    if resource.name().is_empty() {
        let resource_type = resource.resource_type().to_string();
        return Err(EntriesError::NoName(resource_type));
    }
    let place = Place {
        group: group.cloned(),
        resource_type: resource.resource_type().clone(),
        name: Arc::clone(resource.name()),
    };
    let origin = resource.origin().map(|origin| Origin {
        file: files.name(&origin.document),
        line: origin.position.map_or(0, |at| at.line),
        text_hash: String::new(),
    });
    let stored = Stored::of_resource(resource, origin);
    Ok((place.into(), Arc::new(stored)))
}

/// Names of files, relative to the folder. Resources of one file mostly follow each other.
struct Files<'a> {
    folder: &'a Path,
    last: Option<(Arc<Path>, String)>,
}

impl<'a> Files<'a> {
    fn new(folder: &'a Path) -> Self {
        Self { folder, last: None }
    }

    fn name(&mut self, file: &Arc<Path>) -> String {
        let known = self.last.as_ref();
        if let Some((_, name)) = known.filter(|(known, _)| Arc::ptr_eq(known, file)) {
            return name.clone();
        }
        let name = file.strip_prefix(self.folder).unwrap_or(file);
        let name = name.to_string_lossy().into_owned();
        self.last = Some((Arc::clone(file), name.clone()));
        name
    }
}
