//! The messages that replaced each other from major to major.

use std::collections::{BTreeMap, HashMap, HashSet};

use prost_reflect::{DescriptorPool, DynamicMessage, ExtensionDescriptor, MessageDescriptor};

use super::correction::Correction;
use super::major::Major;
use super::report::{TreeError, TreeErrorCause};

/// Predecessors and successors of messages, by full name.
#[derive(Debug, Default)]
pub(super) struct Lineage {
    previous: HashMap<Box<str>, Box<str>>,
    /// Successors with their majors, of which there is one each.
    next: HashMap<Box<str>, Vec<Successor>>,
}

/// Major and full name of a message.
type Successor = (Option<Major>, Box<str>);

impl Lineage {
    /// Reads the annotations of both pools. A message without annotation replaced the message of the same name in the
    /// closest earlier version of its package.
    pub(super) fn read(
        pools: &[&DescriptorPool],
        corrections: &[Correction],
        errors: &mut Vec<TreeError>,
    ) -> Lineage {
        let mut messages: BTreeMap<String, MessageDescriptor> = BTreeMap::new();
        for pool in pools {
            for message in pool.all_messages().filter(|one| !one.is_map_entry()) {
                messages.insert(message.full_name().to_owned(), message);
            }
        }
        let annotations: Vec<_> = pools
            .iter()
            .filter_map(|pool| pool.get_extension_by_name("udpa.annotations.versioning"))
            .collect();
        let mut lineage = Lineage::default();
        let mut plain = Vec::new();
        for (name, message) in &messages {
            match annotated(message, &annotations, corrections) {
                // A message that the descriptors lack says nothing about those that they have.
                Some(previous) if !messages.contains_key(&previous) => {}
                Some(previous) => lineage.add(&previous, name, message, errors),
                None => plain.push((name, message)),
            }
        }
        let by_name = same_names(&messages);
        for (name, message) in plain {
            let Some(major) = Major::of_package(message.package_name()) else {
                continue;
            };
            let versions = by_name.get(&family(message)).into_iter().flatten();
            let earlier = versions.filter(|(other, _)| *other < major);
            let Some((_, previous)) = earlier.max() else {
                continue;
            };
            // An annotation has more weight than a name.
            let claimed = lineage.next.get(previous.as_str());
            if claimed.is_none_or(|next| next.iter().all(|(of, _)| *of != Some(major))) {
                lineage.add(previous, name, message, errors);
            }
        }
        lineage
    }

    fn add(
        &mut self,
        previous: &str,
        name: &str,
        message: &MessageDescriptor,
        errors: &mut Vec<TreeError>,
    ) {
        let mut error = |cause| {
            errors.push(TreeError {
                file: message.parent_file().name().to_owned(),
                element: name.to_owned(),
                cause,
            });
        };
        let major = Major::of_package(message.package_name());
        // The full name has the version of the package: names of messages are not versions.
        if Major::of_package(previous) >= major {
            let previous = previous.to_owned();
            return error(TreeErrorCause::NotOlder { previous });
        }
        let next = self.next.entry(previous.into()).or_default();
        if let Some((_, other)) = next.iter().find(|(of, _)| *of == major) {
            return error(TreeErrorCause::TwoSuccessors {
                previous: previous.to_owned(),
                other: other.to_string(),
                major: major.map(|major| major.to_string()).unwrap_or_default(),
            });
        }
        next.push((major, name.into()));
        self.previous.insert(name.into(), previous.into());
    }

    /// Returns the message that a message replaced.
    pub(super) fn previous(&self, name: &str) -> Option<&str> {
        self.previous.get(name).map(|name| &**name)
    }

    /// Returns the newest direct successor that is not newer than `limit`.
    pub(super) fn next(&self, name: &str, limit: Major) -> Option<&str> {
        let next = self.next.get(name)?.iter();
        let fits = next.filter(|(major, _)| *major <= Some(limit));
        fits.max_by_key(|(major, _)| *major)
            .map(|(_, name)| &**name)
    }

    /// Returns all messages with a predecessor.
    pub(super) fn successors(&self) -> impl Iterator<Item = &str> {
        self.previous.keys().map(|name| &**name)
    }

    /// Returns all messages with a successor that is not newer than `limit`.
    pub(super) fn replaced(&self, limit: Major) -> impl Iterator<Item = &str> {
        let names = self.next.keys();
        names
            .map(|name| &**name)
            .filter(move |name| self.next(name, limit).is_some())
    }
}

/// Returns the predecessor that a correction or an annotation names.
fn annotated(
    message: &MessageDescriptor,
    annotations: &[ExtensionDescriptor],
    corrections: &[Correction],
) -> Option<String> {
    let corrected = corrections.iter().find_map(|one| match one {
        Correction::Previous {
            message: of,
            previous,
            ..
        } if *of == message.full_name() => Some((*previous).to_owned()),
        _ => None,
    });
    if corrected.is_some() || message.descriptor_proto().options.is_none() {
        return corrected;
    }
    let versioning = annotations.iter();
    let versioning = versioning.filter(|one| one.parent_pool() == message.parent_pool());
    text(&message.options(), versioning, "previous_message_type")
}

/// Returns a text in an annotation; `None` if it is empty.
pub(super) fn text<'a>(
    options: &DynamicMessage,
    annotations: impl Iterator<Item = &'a ExtensionDescriptor>,
    field: &str,
) -> Option<String> {
    annotations
        .filter(|annotation| options.has_extension(annotation))
        .find_map(|annotation| {
            let record = options.get_extension(annotation);
            let value = record.as_message()?.get_field_by_name(field)?;
            let text = value.as_str().filter(|text| !text.is_empty())?;
            Some(text.to_owned())
        })
}

/// Package without version, and name within the package: equal for the versions of a message.
fn family(message: &MessageDescriptor) -> (String, String) {
    let package = message.package_name();
    let name = message.full_name();
    let inner = name.strip_prefix(package).unwrap_or(name);
    (
        Major::base(package),
        inner.trim_start_matches('.').to_owned(),
    )
}

type Versions = HashMap<(String, String), HashSet<(Major, String)>>;

/// Returns the versions of each message that has the same name in several versions of its package.
fn same_names(messages: &BTreeMap<String, MessageDescriptor>) -> Versions {
    let mut versions = Versions::new();
    for (name, message) in messages {
        if let Some(major) = Major::of_package(message.package_name()) {
            let same = versions.entry(family(message)).or_default();
            same.insert((major, name.clone()));
        }
    }
    versions
}
