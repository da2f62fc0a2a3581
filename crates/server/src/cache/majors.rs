//! Older majors of a resource type, served from the resources of the newest one (V-54).
//!
//! ```text
//!   ChangeSet of v4 ──▶ OlderMajors ──┬── as it is ────────▶ v4 ─┐
//!                                     ├── Translator to v3 ──▶ v3 ─┼──▶ Snapshot ──▶ sessions, by requested type URL
//!                                     └── Translator to v2 ──▶ v2 ─┘
//! ```
//! A resource is translated and encoded once per major when it changes, however many clients there are. Each major is a
//! resource type with its own type URL, so a client gets the major of the type URL that it subscribes to. Resources
//! that a major cannot express are not in it, and are reported.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use oxds_core::snapshot::{ChangeSet, Resource, ResourceKey};
use oxds_types::translate::Translator;
use oxds_types::{Reference, ResourceType};
use tracing::warn;

/// Older majors beside the newest one. The versioning policy keeps no more than four alive.
const MAX_OLDER: usize = 3;

/// Resources that a major cannot express and that are shown. A limit for the memory of the report.
const MAX_REPORTED: usize = 10_000;

/// Resource types of one's own API that a cache serves in several majors: the newest, which the resources have, and up
/// to three older ones (V-54).
///
/// Give it to [`Cache::with_majors`](super::Cache::with_majors). Envoy's own types need none: clients of v2 are served
/// without it.
#[derive(Debug, Default)]
pub struct OlderMajors {
    /// By the type of the newest major, from older to oldest.
    older: HashMap<ResourceType, Vec<Older>>,
    /// All older types.
    derived: HashSet<ResourceType>,
    reported: Mutex<BTreeMap<ResourceKey, Arc<[String]>>>,
}

#[derive(Debug, Clone)]
struct Older {
    resource_type: ResourceType,
    translator: Arc<Translator>,
}

/// The reason why types cannot be served in several majors.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OlderMajorsError {
    /// There are too many translators.
    #[error("{0} older majors: expected at most {MAX_OLDER}")]
    TooMany(usize),
    /// The type is one of Envoy's API.
    #[error("{0} is a type of Envoy's API: its clients of v2 are served without a translator")]
    EnvoyType(ResourceType),
    /// No translator knows the type, or each leaves it as it is.
    #[error("{0} has no older major: expected it in the descriptors of a translator")]
    NoOlder(ResourceType),
}

impl OlderMajors {
    /// Serves these types, of the newest major, also in the majors of these translators. A type may be missing in some
    /// of the majors.
    ///
    /// # Errors
    /// There are more than three translators, or a type has no older major.
    pub fn new(
        types: impl IntoIterator<Item = ResourceType>,
        translators: impl IntoIterator<Item = Arc<Translator>>,
    ) -> Result<Self, OlderMajorsError> {
        let mut translators: Vec<_> = translators.into_iter().collect();
        if translators.len() > MAX_OLDER {
            return Err(OlderMajorsError::TooMany(translators.len()));
        }
        translators.sort_by_key(|translator| std::cmp::Reverse(translator.major()));
        let mut majors = Self::default();
        for newest in types {
            if newest.short_name().is_some() {
                return Err(OlderMajorsError::EnvoyType(newest));
            }
            let older = translators.iter().filter_map(|translator| {
                let message = translator.name(newest.message())?;
                let (resource_type, _) = ResourceType::from_message(message);
                let translator = Arc::clone(translator);
                (resource_type != newest).then_some(Older {
                    resource_type,
                    translator,
                })
            });
            let older: Vec<_> = older.collect();
            if older.is_empty() {
                return Err(OlderMajorsError::NoOlder(newest));
            }
            let types = older.iter().map(|older| older.resource_type.clone());
            majors.derived.extend(types);
            majors.older.insert(newest, older);
        }
        Ok(majors)
    }

    /// Adds the changes of the older majors. Changes of older majors themselves are dropped: they follow from the
    /// newest.
    pub(super) fn expand(&self, mut changes: ChangeSet) -> ChangeSet {
        if self.older.is_empty() {
            return changes;
        }
        changes
            .removals
            .retain(|(of, _)| !self.derived.contains(of));
        changes.upserts.retain(|resource| {
            let is_derived = self.derived.contains(resource.resource_type());
            if is_derived {
                warn!(
                    resource_type = %resource.resource_type(), name = %resource.name(),
                    "resource ignored: resources of an older major are translated from the newest"
                );
            }
            !is_derived
        });
        let mut reported = self.reported();
        let mut removals = Vec::new();
        for (newest, name) in &changes.removals {
            for older in self.older(newest) {
                let key = (older.resource_type.clone(), Arc::clone(name));
                reported.remove(&key);
                removals.push(key);
            }
        }
        changes.removals.extend(removals);
        for at in 0..changes.upserts.len() {
            let resource = Arc::clone(&changes.upserts[at]);
            for older in self.older(resource.resource_type()) {
                let key = (older.resource_type.clone(), Arc::clone(resource.name()));
                match self.translate(&resource, older) {
                    Ok(translated) => {
                        reported.remove(&key);
                        changes.upserts.push(Arc::new(translated));
                    }
                    Err(reasons) => {
                        report(&mut reported, &key, reasons);
                        changes.removals.push(key);
                    }
                }
            }
        }
        changes
    }

    fn older(&self, newest: &ResourceType) -> &[Older] {
        self.older.get(newest).map_or(&[], Vec::as_slice)
    }

    /// Returns the resource in an older major, or each field which that major lacks.
    fn translate(&self, resource: &Resource, older: &Older) -> Result<Resource, Vec<String>> {
        let message = resource.resource_type().message();
        let translated = older
            .translator
            .translate_strict(message, &resource.value());
        let translated = translated.map_err(|lacking| {
            lacking
                .0
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
        })?;
        let references = resource.references().iter().map(|reference| Reference {
            resource_type: self.in_major_of(older, &reference.resource_type),
            ..reference.clone()
        });
        let references: Vec<_> = references.collect();
        let name = Arc::clone(resource.name());
        let in_major = Resource::new(older.resource_type.clone(), name, &translated.value);
        let in_major = in_major.with_references(references);
        Ok(match resource.ttl() {
            Some(ttl) => in_major.with_ttl(ttl),
            None => in_major,
        })
    }

    /// Returns the type that a resource of this major refers to.
    fn in_major_of(&self, older: &Older, newest: &ResourceType) -> ResourceType {
        let same_major = |other: &&Older| other.translator.major() == older.translator.major();
        let found = self.older(newest).iter().find(same_major);
        found.map_or(newest, |other| &other.resource_type).clone()
    }

    /// Returns the resources that an older major cannot express: its type, the name, and what it lacks.
    pub(crate) fn not_representable(&self) -> Vec<(ResourceKey, Arc<[String]>)> {
        let reported = self.reported();
        let reported = reported.iter();
        reported
            .map(|(key, reasons)| (key.clone(), Arc::clone(reasons)))
            .collect()
    }

    fn reported(&self) -> MutexGuard<'_, BTreeMap<ResourceKey, Arc<[String]>>> {
        // Each insertion is complete in itself, so the map stays valid after a panic.
        self.reported.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Logs and keeps the reasons why a resource is missing in a major. It happens once per change, so each is logged.
fn report(
    reported: &mut BTreeMap<ResourceKey, Arc<[String]>>,
    key: &ResourceKey,
    reasons: Vec<String>,
) {
    let (resource_type, name) = key;
    let text = reasons.join("; ");
    warn!(%resource_type, %name, reasons = %text, "resource not representable in an older major, not sent to its clients");
    if reported.len() < MAX_REPORTED || reported.contains_key(key) {
        reported.insert(key.clone(), reasons.into());
    }
}
