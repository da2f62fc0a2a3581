//! `oxds-ledger.yaml`: what no proto file says. When releases were made, when majors came, since when
//! something is deprecated or experimental, and who owns what.
//!
//! ```yaml
//! releases:
//! - {version: 1.20.0, date: 2021-10-05}
//! events:                       # releases of the API: the only time for a new major
//! - {name: "2021", date: 2021-06-30, majors: [shop.v2]}
//! experimental_releases: 4      # how many releases something may stay experimental
//! grace_months: 3               # how long what is added to both may enter a frozen major
//! experimental:
//! - {element: shop.v2.Order.color, since: 1.20.0}
//! deprecated:
//! - {element: shop.v2.Order.id, since: 1.20.0, replacement: shop.v2.Order.order_id}
//! - {element: shop.v2.Order.code, since: 1.20.0, no_replacement: nobody knows what it meant}
//! owners:
//! - {path: shop/, team: shop-api}
//! ```
//!
//! Dates to come are plans, and count as such: the clock tells what they will bring.

use std::path::Path;

use jiff::civil::Date;
use serde::Deserialize;
use serde_saphyr::Spanned;

use crate::exception::ConfigError;

/// The name of the file, in the top folder of a tree.
pub const LEDGER_FILE: &str = "oxds-ledger.yaml";

/// A year of quarterly releases: the policy says "after N cycles" and gives no number.
const EXPERIMENTAL_RELEASES: u32 = 4;

/// What the file holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ledger {
    /// Releases of what speaks the API, in order of date.
    pub releases: Vec<Release>,
    /// Releases of the API itself, in order of date.
    pub events: Vec<Event>,
    /// How many releases something may stay experimental (V-7).
    pub experimental_releases: u32,
    /// For how many months after the next major became stable a frozen one may still be added to
    /// (V-14); none when 0.
    pub grace_months: u32,
    /// Since when what is experimental.
    pub experimental: Vec<Experimental>,
    /// Since when what is deprecated.
    pub deprecated: Vec<Deprecated>,
    /// Who owns what.
    pub owners: Vec<Owner>,
}

/// A release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release {
    /// Its name: `1.20.0`.
    pub version: String,
    /// When it was, or will be.
    pub date: Date,
}

/// A release of the API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Its name.
    pub name: String,
    /// When it was, or will be.
    pub date: Date,
    /// The packages that became stable at it: `shop.v2`.
    pub majors: Vec<String>,
}

/// Something experimental.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experimental {
    /// Its full name, or the path of a file, or a package.
    pub element: String,
    /// The first release that had it.
    pub since: String,
}

/// Something deprecated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deprecated {
    /// Its full name; that of a value is `shop.v1.Color.RED`.
    pub element: String,
    /// The first release that had it deprecated.
    pub since: String,
    /// What to use instead; else why there is nothing (V-46).
    pub replacement: Result<String, String>,
}

/// Who is asked about changes below a path.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Owner {
    /// Paths that begin so.
    pub path: String,
    /// The team.
    pub team: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    releases: Vec<Spanned<ReleaseEntry>>,
    #[serde(default)]
    events: Vec<Spanned<EventEntry>>,
    experimental_releases: Option<u32>,
    #[serde(default)]
    grace_months: u32,
    #[serde(default)]
    experimental: Vec<Spanned<Experimental>>,
    #[serde(default)]
    deprecated: Vec<Spanned<DeprecatedEntry>>,
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
}

impl Ledger {
    /// Reads the file; none when there is none.
    ///
    /// # Errors
    /// When it cannot be read, or is not as it should be.
    pub fn read(path: &Path) -> Result<Option<Ledger>, ConfigError> {
        match std::fs::read_to_string(path) {
            Ok(text) => Ledger::parse(path, &text).map(Some),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(ConfigError {
                place: path.display().to_string(),
                why: error.to_string(),
            }),
        }
    }

    /// Reads its text.
    ///
    /// # Errors
    /// With line and column: unknown keys, no dates, two releases of one name, a `since` that is no
    /// release, something deprecated that says nothing about its replacement.
    pub fn parse(path: &Path, text: &str) -> Result<Ledger, ConfigError> {
        let place = |line: u64, column: u64| format!("{}:{line}:{column}", path.display());
        let file: File = serde_saphyr::from_str(text).map_err(|error| {
            let at = error.location().map(|at| place(at.line(), at.column()));
            ConfigError {
                place: at.unwrap_or_else(|| path.display().to_string()),
                why: error.without_snippet().to_string(),
            }
        })?;
        let entries = Entries { place: &place };
        let mut releases = entries.read(file.releases, release)?;
        releases.sort_by_key(|release| release.date);
        let mut events = entries.read(file.events, event)?;
        events.sort_by_key(|event| event.date);
        let known = |since: &str| match releases.iter().any(|one| one.version == since) {
            true => Ok(()),
            false => Err(format!(
                "since: there is no release {since:?} in `releases`"
            )),
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

    /// The release of that name.
    #[must_use]
    pub fn release(&self, version: &str) -> Option<&Release> {
        self.releases.iter().find(|one| one.version == version)
    }

    /// The releases after one, in order.
    pub fn after(&self, release: &Release) -> impl Iterator<Item = &Release> {
        let date = release.date;
        self.releases.iter().filter(move |one| one.date > date)
    }

    /// What it says of a deprecated element.
    #[must_use]
    pub fn deprecation(&self, element: &str) -> Option<&Deprecated> {
        self.deprecated.iter().find(|one| one.element == element)
    }
}

/// Entries of lists, whose mistakes are told at their places.
struct Entries<'p> {
    place: &'p dyn Fn(u64, u64) -> String,
}

impl Entries<'_> {
    fn read<E, T>(
        &self,
        entries: Vec<Spanned<E>>,
        read: impl Fn(E) -> Result<T, String>,
    ) -> Result<Vec<T>, ConfigError>
    where
        T: Named,
    {
        let mut done: Vec<T> = Vec::with_capacity(entries.len());
        for entry in entries {
            let at = (entry.referenced.line(), entry.referenced.column());
            let wrong = |why| ConfigError {
                place: (self.place)(at.0, at.1),
                why,
            };
            let one = read(entry.value).map_err(wrong)?;
            if done.iter().any(|other| other.name() == one.name()) {
                return Err(wrong(format!("{} stands here twice", one.name())));
            }
            done.push(one);
        }
        Ok(done)
    }
}

/// What has a name that stands once in its list.
trait Named {
    fn name(&self) -> &str;
}

impl Named for Release {
    fn name(&self) -> &str {
        &self.version
    }
}

impl Named for Event {
    fn name(&self) -> &str {
        &self.name
    }
}

impl Named for Experimental {
    fn name(&self) -> &str {
        &self.element
    }
}

impl Named for Deprecated {
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
                "says either what is the `replacement`, or in `no_replacement` why there is none"
                    .to_owned(),
            );
        }
    };
    Ok(Deprecated {
        element: entry.element,
        since: entry.since,
        replacement,
    })
}

fn date(text: &str) -> Result<Date, String> {
    text.parse()
        .map_err(|_| format!("date: {text:?} is no date: 2027-03-31 is"))
}
