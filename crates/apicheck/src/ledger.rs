//! `oxds-ledger.yaml`: facts that no proto file contains. It lists releases, events (new majors),
//! deprecations, experiments and owners.
//!
//! ```yaml
//! releases:
//! - {version: 1.20.0, date: 2021-10-05}
//! events:                       # releases of the API; new majors appear only here
//! - {name: "2021", date: 2021-06-30, majors: [shop.v2]}
//! experimental_releases: 4      # releases for which an element may stay experimental
//! grace_months: 3               # months in which a frozen major may still get an addition
//! experimental:
//! - {element: shop.v2.Order.color, since: 1.20.0}
//! deprecated:
//! - {element: shop.v2.Order.id, since: 1.20.0, replacement: shop.v2.Order.order_id}
//! - {element: shop.v2.Order.code, since: 1.20.0, no_replacement: never used}
//! - {element: shop.v2.Order.cents, since: 1.20.0, replacement: shop.v2.Order.price, translator: src/upgrade.rs}
//! owners:
//! - {path: shop/, team: shop-api}
//! ```
//!
//! Future dates are plans. The deprecation clock uses them like past ones.

use std::path::Path;

use jiff::civil::Date;
use oxds_settings::Located;
use serde::Deserialize;

use crate::config_file::{ConfigError, read_text};

/// Name of the ledger file in the top folder of a tree.
pub const LEDGER_FILE: &str = "oxds-ledger.yaml";

/// Default: a year of quarterly releases. The policy says "after N cycles" and gives no number.
const EXPERIMENTAL_RELEASES: u32 = 4;

/// Contents of the ledger.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ledger {
    /// Releases of the software that uses the API, by date.
    pub releases: Vec<Release>,
    /// Releases of the API itself, by date.
    pub events: Vec<Event>,
    /// Number of releases for which an element may stay experimental (V-7).
    pub experimental_releases: u32,
    /// Months after the next stable major in which a frozen major still accepts additions (V-14); 0
    /// allows none.
    pub grace_months: u32,
    /// Release since which each element is experimental.
    pub experimental: Vec<Experimental>,
    /// Release since which each element is deprecated.
    pub deprecated: Vec<Deprecated>,
    /// Owners of paths, the last match wins.
    pub owners: Vec<Owner>,
}

/// Release of the software that uses the API.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Release {
    /// Version of the release: `1.20.0`.
    pub version: String,
    /// Past or planned date.
    pub date: Date,
}

/// Release of the API.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event {
    /// Name of the event, usually its year.
    pub name: String,
    /// Past or planned date.
    pub date: Date,
    /// Packages that become stable at the event: `shop.v2`.
    pub majors: Vec<String>,
}

/// Entry for an experimental element.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Experimental {
    /// Full name, path of a file, or package.
    pub element: String,
    /// First release with the element.
    pub since: String,
}

/// Entry for a deprecated element.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Deprecated {
    /// Full name; an enum value is written `shop.v1.Color.RED`.
    pub element: String,
    /// First release with the deprecation.
    pub since: String,
    /// Replacement, or why the element has no replacement (V-46).
    pub replacement: Result<String, String>,
    /// Translation that a person wrote, such as its path, if no rule can fill the replacement.
    pub translator: Option<String>,
}

/// Team that reviews changes below a path.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Owner {
    /// Path prefix, matched against import paths.
    pub path: String,
    /// Name of the team.
    pub team: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct LedgerYaml {
    #[serde(default)]
    releases: Vec<Located<ReleaseEntry>>,
    #[serde(default)]
    events: Vec<Located<EventEntry>>,
    experimental_releases: Option<u32>,
    #[serde(default)]
    grace_months: u32,
    #[serde(default)]
    experimental: Vec<Located<Experimental>>,
    #[serde(default)]
    deprecated: Vec<Located<DeprecatedEntry>>,
    #[serde(default)]
    owners: Vec<Owner>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ReleaseEntry {
    version: String,
    date: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct EventEntry {
    name: String,
    date: String,
    majors: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct DeprecatedEntry {
    element: String,
    since: String,
    replacement: Option<String>,
    no_replacement: Option<String>,
    translator: Option<String>,
}

impl Ledger {
    /// Reads the file. Returns `None` if it does not exist.
    ///
    /// # Errors
    /// Fails if the file cannot be read or is invalid.
    pub fn read(path: &Path) -> Result<Option<Ledger>, ConfigError> {
        let text = read_text(path)?;
        text.map(|text| Ledger::parse(path, &text)).transpose()
    }

    /// Parses the text of the file. `path` is used in errors.
    ///
    /// # Errors
    /// Fails, with line and column, on unknown keys, malformed dates, duplicate entries, a `since`
    /// that is not a listed release, and a deprecation without `replacement` or `no_replacement`.
    pub fn parse(path: &Path, text: &str) -> Result<Ledger, ConfigError> {
        let file: Option<LedgerYaml> = oxds_settings::read(text.as_bytes())
            .map_err(|error| ConfigError::of_settings(path, &error))?;
        let file = file.unwrap_or_default();
        let entries = Entries { path };
        let mut releases = entries.read(file.releases, release)?;
        releases.sort_by_key(|release| release.date);
        let mut events = entries.read(file.events, event)?;
        events.sort_by_key(|event| event.date);
        let known = |since: &str| {
            if releases.iter().any(|one| one.version == since) {
                Ok(())
            } else {
                Err(format!(
                    "since: unknown release {since:?}: expected a version from `releases`"
                ))
            }
        };
        let experimental = entries.read(file.experimental, |entry| {
            known(&entry.since)?;
            Ok(entry)
        })?;
        let deprecated = entries.read(file.deprecated, |entry| {
            known(&entry.since)?;
            deprecated(entry)
        })?;
        Ok(Ledger {
            releases,
            events,
            experimental_releases: file.experimental_releases.unwrap_or(EXPERIMENTAL_RELEASES),
            grace_months: file.grace_months,
            experimental,
            deprecated,
            owners: file.owners,
        })
    }

    /// Returns the release of that version.
    #[must_use]
    pub fn release(&self, version: &str) -> Option<&Release> {
        self.releases.iter().find(|one| one.version == version)
    }

    /// Returns the later releases, by date.
    pub fn after(&self, release: &Release) -> impl Iterator<Item = &Release> {
        let date = release.date;
        self.releases.iter().filter(move |one| one.date > date)
    }

    /// Returns the last release on or before a day.
    #[must_use]
    pub fn last_release(&self, today: Date) -> Option<&Release> {
        self.releases.iter().rfind(|one| one.date <= today)
    }

    /// Returns the entry of a deprecated element.
    #[must_use]
    pub fn deprecation(&self, element: &str) -> Option<&Deprecated> {
        self.deprecated.iter().find(|one| one.element == element)
    }
}

/// Reader of list entries that reports errors with their positions.
struct Entries<'p> {
    path: &'p Path,
}

impl Entries<'_> {
    fn read<E, T>(
        &self,
        entries: Vec<Located<E>>,
        read: impl Fn(E) -> Result<T, String>,
    ) -> Result<Vec<T>, ConfigError>
    where
        T: NamedEntry,
    {
        let mut done: Vec<T> = Vec::with_capacity(entries.len());
        for Located { position, value } in entries {
            let wrong = |why| ConfigError::at(self.path, position, why);
            let one = read(value).map_err(wrong)?;
            if done.iter().any(|other| other.name() == one.name()) {
                return Err(wrong(format!("duplicate entry {}", one.name())));
            }
            done.push(one);
        }
        Ok(done)
    }
}

/// Entry with a name that is unique in its list.
trait NamedEntry {
    fn name(&self) -> &str;
}

impl NamedEntry for Release {
    fn name(&self) -> &str {
        &self.version
    }
}

impl NamedEntry for Event {
    fn name(&self) -> &str {
        &self.name
    }
}

impl NamedEntry for Experimental {
    fn name(&self) -> &str {
        &self.element
    }
}

impl NamedEntry for Deprecated {
    fn name(&self) -> &str {
        &self.element
    }
}

fn release(entry: ReleaseEntry) -> Result<Release, String> {
    Ok(Release {
        date: date(&entry.date)?,
        version: entry.version,
    })
}

fn event(entry: EventEntry) -> Result<Event, String> {
    Ok(Event {
        date: date(&entry.date)?,
        name: entry.name,
        majors: entry.majors,
    })
}

fn deprecated(entry: DeprecatedEntry) -> Result<Deprecated, String> {
    let replacement = match (entry.replacement, entry.no_replacement) {
        (Some(replacement), None) if !replacement.trim().is_empty() => Ok(replacement),
        (None, Some(why)) if !why.trim().is_empty() => Err(why),
        _ => {
            return Err(
                "missing replacement: expected `replacement`, or `no_replacement` with a reason"
                    .to_owned(),
            );
        }
    };
    Ok(Deprecated {
        element: entry.element,
        since: entry.since,
        replacement,
        translator: entry.translator,
    })
}

fn date(text: &str) -> Result<Date, String> {
    text.parse()
        .map_err(|_| format!("date: malformed date {text:?}: expected a date such as 2027-03-31"))
}
