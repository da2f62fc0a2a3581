//! The clock of deprecation (V-43, V-46): how far each deprecated element is on its way out.
//!
//! ```text
//!   deprecated ──release──► warned about ──release──► refused by default ──majors──► may be removed
//! ```

use std::fmt;

use jiff::civil::Date;
use prost_reflect::Value;

use crate::finding::Location;
use crate::ledger::{Deprecated, Event, Ledger, Release};
use crate::model::{FileId, Options, Place, Source, Tree};
use crate::package::PackageName;

/// What drives the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Schedule {
    /// Refused from the second release on, removed when the major that deprecated it is no longer
    /// supported: at the second new major of its package.
    #[default]
    Policy,
    /// As before there were majors: removed with the third release.
    Releases,
    /// Refused only where an annotation says so, never removed.
    EnvoyToday,
}

/// How far something deprecated is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// No release has it deprecated yet.
    Announced,
    /// Its use is logged and counted.
    Warned,
    /// Its use fails, unless an override says otherwise.
    Refused,
    /// It may be removed.
    Removable,
    /// The ledger does not say since when it is deprecated.
    Unrecorded,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Phase::Announced => "announced",
            Phase::Warned => "warned about",
            Phase::Refused => "refused by default",
            Phase::Removable => "may be removed",
            Phase::Unrecorded => "not recorded",
        })
    }
}

/// The dates of something deprecated. A date that no release or event is planned for is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dates {
    /// The first release that has it deprecated.
    pub since: Option<Date>,
    /// From when on its use fails by default.
    pub refused: Option<Date>,
    /// From when on it may be removed.
    pub removable: Option<Date>,
}

/// Something deprecated, and how far it is.
#[derive(Debug, Clone)]
pub struct Deprecation {
    /// Its full name; that of a value of an enum is `shop.v1.Color.RED`.
    pub element: String,
    /// Where it stands.
    pub location: Location,
    /// How far it is.
    pub phase: Phase,
    /// When it came, or comes, to be so.
    pub dates: Dates,
    /// Until when it stays in this phase; none when nothing is planned that would end it.
    pub until: Option<Date>,
    /// The version of the API that an annotation says it was deprecated at: `3.0`.
    pub annotated: Option<String>,
    /// What to use instead, or why there is nothing; none when the ledger does not say.
    pub replacement: Option<Result<String, String>>,
    /// The runtime key that lets its use pass: `envoy.deprecated_features:…`. Messages and enums have
    /// none.
    pub key: Option<String>,
}

impl Deprecation {
    /// The layer of a bootstrap that lets its use pass, to be pasted.
    #[must_use]
    pub fn layer(&self) -> Option<String> {
        let key = self.key.as_deref()?;
        Some(format!(
            "layered_runtime:\n  layers:\n  - name: deprecated\n    static_layer:\n      \"{key}\": true\n"
        ))
    }
}

/// Everything deprecated in the files of a tree that are judged, in the order of the tree.
#[must_use]
pub fn clock(tree: &Tree, ledger: &Ledger, schedule: Schedule, today: Date) -> Vec<Deprecation> {
    let marked = marked(tree).into_iter();
    let judged = marked.filter(|one| tree[one.file].target);
    judged
        .map(|one| one.judge(tree, ledger, schedule, today))
        .collect()
}

/// The dates of an element that is deprecated in `package`; without its annotation.
#[must_use]
pub fn dates(ledger: &Ledger, schedule: Schedule, package: &str, element: &str) -> Dates {
    let mut dates = Dates {
        since: None,
        refused: None,
        removable: None,
    };
    let Some(entry) = ledger.deprecation(element) else {
        return dates;
    };
    let Some(since) = ledger.release(&entry.since) else {
        return dates;
    };
    dates.since = Some(since.date);
    if schedule != Schedule::EnvoyToday {
        dates.refused = ledger.after(since).next().map(|release| release.date);
        dates.removable = removable(ledger, schedule, package, entry, since);
    }
    dates
}

/// Without a replacement the window of releases doubles, and that of majors is one major longer:
/// about twelve months more either way.
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

/// Whether a newer major of that package becomes stable.
fn brings_newer(event: &Event, package: &PackageName<'_>) -> bool {
    event.majors.iter().any(|major| {
        let major = PackageName::of(major);
        let newer = major.version.map(|version| version.major) > package.version.map(|v| v.major);
        major.family() == package.family() && newer
    })
}

impl Dates {
    /// How far something is on a day, and until when.
    fn phase(&self, today: Date) -> (Phase, Option<Date>) {
        let past = |date: Option<Date>| date.is_some_and(|date| date <= today);
        if past(self.removable) {
            (Phase::Removable, None)
        } else if past(self.refused) {
            (Phase::Refused, self.removable)
        } else if past(self.since) {
            (Phase::Warned, self.refused)
        } else if self.since.is_some() {
            (Phase::Announced, self.since)
        } else {
            (Phase::Unrecorded, None)
        }
    }
}

/// Something with `deprecated = true`.
struct Marked<'t> {
    file: FileId,
    element: String,
    /// The name in runtime keys: a value of an enum has the scope of its enum.
    key: Option<String>,
    options: &'t Options,
    source: &'t Source,
}

impl Marked<'_> {
    fn judge(&self, tree: &Tree, ledger: &Ledger, schedule: Schedule, today: Date) -> Deprecation {
        let dates = dates(ledger, schedule, &tree[self.file].package, &self.element);
        let (mut phase, mut until) = dates.phase(today);
        let annotation = |name: &str| {
            let [field, value] = [name.to_owned(), format!("{name}_enum")]
                .map(|name| self.options.extension(&format!("envoy.annotations.{name}")));
            field.or(value)
        };
        let disallowed = annotation("disallowed_by_default").and_then(Value::as_bool);
        if disallowed == Some(true) && phase != Phase::Removable {
            (phase, until) = (Phase::Refused, dates.removable);
        }
        let annotated = annotation("deprecated_at_minor_version");
        let span = self.source.name.or(self.source.span);
        let entry = ledger.deprecation(&self.element);
        Deprecation {
            element: self.element.clone(),
            location: Location::of(
                tree,
                Place {
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

fn marked(tree: &Tree) -> Vec<Marked<'_>> {
    let mut marked = Vec::new();
    let mut add = |file, element: String, key, options, source| {
        if Options::deprecated(options) {
            marked.push(Marked {
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
    marked
}
