//! The deprecation clock (V-43, V-46): the phase of each deprecated element on its way to removal.
//!
//! ```text
//!   deprecated ──release──► warned ──release──► fails by default ──majors──► may be removed
//! ```

use std::fmt;

use jiff::civil::Date;
use prost_reflect::Value;

use crate::finding::Location;
use crate::ledger::{Deprecated, Event, Ledger, Release};
use crate::model::{FileId, FileSpan, Options, Source, Tree};
use crate::package::PackageName;

/// Events that advance the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Schedule {
    /// Use fails by default from the second release on. Removal is allowed when the major that
    /// deprecated the element is no longer supported: at the second new major of its package.
    #[default]
    Policy,
    /// Schedule from before there were majors: removal is allowed from the third release on.
    Releases,
    /// Use fails by default only where an annotation says so; removal is never allowed.
    EnvoyToday,
}

/// Phase of a deprecated element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// No release contains the deprecation yet.
    Announced,
    /// Use is logged and counted.
    Warned,
    /// Use fails, unless a runtime override allows it. Envoy's annotation is
    /// `disallowed_by_default`.
    Disallowed,
    /// The element may be removed.
    Removable,
    /// The ledger has no release for the deprecation.
    Unrecorded,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Phase::Announced => "announced",
            Phase::Warned => "warned about",
            Phase::Disallowed => "disallowed by default",
            Phase::Removable => "may be removed",
            Phase::Unrecorded => "not recorded",
        })
    }
}

/// Dates of a deprecated element. A date is `None` if no release or event is planned for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Dates {
    /// Date of the first release with the deprecation.
    pub since: Option<Date>,
    /// First day on which use fails by default.
    pub disallowed: Option<Date>,
    /// First day on which the element may be removed.
    pub removable: Option<Date>,
}

/// A deprecated element and its phase.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Deprecation {
    /// Full name; an enum value is written `shop.v1.Color.RED`.
    pub element: String,
    /// Location in the tree.
    pub location: Location,
    /// Phase on the given day.
    pub phase: Phase,
    /// Dates of all phases.
    pub dates: Dates,
    /// Last day of this phase; `None` if no planned release or event ends it.
    pub until: Option<Date>,
    /// API version of the deprecation according to its annotation: `3.0`.
    pub annotated: Option<String>,
    /// Replacement, or why the element has no replacement; `None` if the ledger has no entry.
    pub replacement: Option<Result<String, String>>,
    /// Runtime key that allows its use: `envoy.deprecated_features:…`. `None` for messages and
    /// enums.
    pub key: Option<String>,
}

impl Deprecation {
    /// Returns a bootstrap layer that allows the use of this element, ready to paste.
    #[must_use]
    pub fn layer(&self) -> Option<String> {
        let key = self.key.as_deref()?;
        Some(format!(
            "layered_runtime:\n  layers:\n  - name: deprecated\n    static_layer:\n      \"{key}\": true\n"
        ))
    }
}

/// Returns all deprecated elements in the target files of a tree, in the order of the tree.
#[must_use]
pub fn clock(tree: &Tree, ledger: &Ledger, schedule: Schedule, today: Date) -> Vec<Deprecation> {
    let deprecated_elements = deprecated_elements(tree).into_iter();
    let targets = deprecated_elements.filter(|one| tree[one.file].target);
    targets
        .map(|one| one.deprecation(tree, ledger, schedule, today))
        .collect()
}

/// Returns the dates of an element that is deprecated in `package`, without its annotation.
#[must_use]
pub fn dates(ledger: &Ledger, schedule: Schedule, package: &str, element: &str) -> Dates {
    let mut dates = Dates {
        since: None,
        disallowed: None,
        removable: None,
    };
    let Some(entry) = ledger.deprecation(element) else {
        return dates;
    };
    let Some(since) = ledger.release(&entry.since) else {
        return dates;
    };
    dates.since = Some(since.date);
    // Stable-API policy: warn in the first release, fail by default from the second (V-43).
    if schedule != Schedule::EnvoyToday {
        dates.disallowed = ledger.after(since).next().map(|release| release.date);
        dates.removable = removable(ledger, schedule, package, entry, since);
    }
    dates
}

/// Returns the first day on which removal is allowed. Without a replacement the window of releases
/// doubles, and the window of majors is one major longer: about twelve months more in both cases
/// (V-46).
fn removable(
    ledger: &Ledger,
    schedule: Schedule,
    package: &str,
    entry: &Deprecated,
    since: &Release,
) -> Option<Date> {
    let replaced = entry.replacement.is_ok();
    if schedule == Schedule::Releases {
        let third = if replaced { 1 } else { 3 };
        return ledger.after(since).nth(third).map(|release| release.date);
    }
    let second = if replaced { 1 } else { 2 };
    let package = PackageName::of(package);
    let ends = |event: &&Event| event.date > since.date && brings_newer(event, &package);
    let event = ledger.events.iter().filter(ends).nth(second)?;
    Some(event.date)
}

/// Returns whether a newer stable major of the package arrives at this event.
fn brings_newer(event: &Event, package: &PackageName<'_>) -> bool {
    event.majors.iter().any(|major| {
        let major = PackageName::of(major);
        let newer = major.version.map(|version| version.major) > package.version.map(|v| v.major);
        major.family() == package.family() && newer
    })
}

impl Dates {
    /// Returns the phase on a day, and the first day of the next one, if it is planned.
    #[must_use]
    pub fn phase(&self, today: Date) -> (Phase, Option<Date>) {
        let past = |date: Option<Date>| date.is_some_and(|date| date <= today);
        if past(self.removable) {
            (Phase::Removable, None)
        } else if past(self.disallowed) {
            (Phase::Disallowed, self.removable)
        } else if past(self.since) {
            (Phase::Warned, self.disallowed)
        } else if self.since.is_some() {
            (Phase::Announced, self.since)
        } else {
            (Phase::Unrecorded, None)
        }
    }
}

/// Element with `deprecated = true`.
struct DeprecatedElement<'t> {
    file: FileId,
    element: String,
    /// Name in runtime keys. An enum value has the scope of its enum there.
    key: Option<String>,
    options: &'t Options,
    source: &'t Source,
}

impl DeprecatedElement<'_> {
    fn deprecation(
        &self,
        tree: &Tree,
        ledger: &Ledger,
        schedule: Schedule,
        today: Date,
    ) -> Deprecation {
        let dates = dates(ledger, schedule, &tree[self.file].package, &self.element);
        let (mut phase, mut until) = dates.phase(today);
        let annotation = |name: &str| {
            let [field, value] = [name.to_owned(), format!("{name}_enum")]
                .map(|name| self.options.extension(&format!("envoy.annotations.{name}")));
            field.or(value)
        };
        let disallowed = annotation("disallowed_by_default").and_then(Value::as_bool);
        // Envoy `disallowed_by_default`: use fails now, whatever the releases are (V-43).
        if disallowed == Some(true) && phase != Phase::Removable {
            (phase, until) = (Phase::Disallowed, dates.removable);
        }
        let annotated = annotation("deprecated_at_minor_version");
        let span = self.source.name.or(self.source.span);
        let entry = ledger.deprecation(&self.element);
        Deprecation {
            element: self.element.clone(),
            location: Location::of(
                tree,
                FileSpan {
                    file: self.file,
                    span,
                },
            ),
            phase,
            dates,
            until,
            annotated: annotated.and_then(|value| Some(value.as_str()?.to_owned())),
            replacement: entry.map(|entry| entry.replacement.clone()),
            key: (self.key.as_ref()).map(|name| format!("envoy.deprecated_features:{name}")),
        }
    }
}

fn deprecated_elements(tree: &Tree) -> Vec<DeprecatedElement<'_>> {
    let mut deprecated_elements = Vec::new();
    let mut add = |file, element: String, key, options, source| {
        if Options::deprecated(options) {
            deprecated_elements.push(DeprecatedElement {
                file,
                element,
                key,
                options,
                source,
            });
        }
    };
    for message in tree.messages.iter().filter(|message| !message.map_entry) {
        let (file, name) = (message.file, &message.name);
        add(
            file,
            name.to_string(),
            None,
            &message.options,
            &message.source,
        );
        for field in &message.fields {
            let full = format!("{name}.{}", field.name);
            add(
                file,
                full.clone(),
                Some(full),
                &field.options,
                &field.source,
            );
        }
    }
    for one in &tree.enums {
        let (file, name) = (one.file, &one.name);
        add(file, name.to_string(), None, &one.options, &one.source);
        let scope = name.rsplit_once('.').map_or("", |(scope, _)| scope);
        for value in &one.values {
            let key = format!("{scope}.{}", value.name);
            let key = key.trim_start_matches('.').to_owned();
            let full = format!("{name}.{}", value.name);
            add(file, full, Some(key), &value.options, &value.source);
        }
    }
    deprecated_elements
}
