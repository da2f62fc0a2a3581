//! What a tree's owners decided: `oxds-api.yaml`, with the exceptions from rules as data.
//!
//! ```yaml
//! profile: policy
//! languages: [go, cpp]
//! roots: [shop]          # packages begin with one of these
//! folders: [contrib]     # below these, paths follow packages again
//! allow:
//! - rule: FIELD_RENAMED
//!   element: shop.v1.Order.id
//!   old: id
//!   new: order_id
//!   reason: nobody has generated code from v1 yet
//!   owner: shop-api
//!   expires: 2027-03-31
//! ```
//!
//! `rule` may be the name that buf has for it.
//!
//! An exception lets one finding pass, not a rule and not a file. One that lets nothing pass, or is
//! past its date, is an error itself: exceptions do not outlive what they were made for.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use jiff::civil::Date;
use serde::Deserialize;
use serde_saphyr::Spanned;

use crate::finding::{Finding, Language, Location, Severity};
use crate::model::Span;
use crate::rule::{self, Category, Compares, Profile, Profiles, Rule};
use crate::rules::Policy;

/// The name of the file, in the top folder of a tree.
pub const CONFIG_FILE: &str = "oxds-api.yaml";

/// Rules about exceptions themselves.
pub(crate) const RULES: &[&Rule] = &[&UNUSED, &EXPIRED];

const fn rule(id: &'static str, purpose: &'static str, why: &'static str) -> Rule {
    Rule {
        id,
        behaviours: &[],
        purpose,
        why,
        category: Category::Policy,
        profiles: Profiles::ERROR,
        compares: Compares::Pair,
        buf: &[],
    }
}

/// An exception that lets nothing pass.
pub const UNUSED: Rule = rule(
    "EXCEPTION_UNUSED",
    "Every exception lets a finding pass",
    "What it was made for is merged, undone or spelled differently. Left in place it would let the \
     next change of that kind pass unseen. Remove it.",
);

/// An exception past its date.
pub const EXPIRED: Rule = rule(
    "EXCEPTION_EXPIRED",
    "No exception is used after its date",
    "Whoever made it wanted it to be looked at again by now. Mend what it lets pass, or give it a \
     new date and say why.",
);

/// What `oxds-api.yaml` holds.
#[derive(Debug, Clone, Default)]
pub struct Config {
    /// Which set of rules applies, if the file says so.
    pub profile: Option<Profile>,
    /// The languages that matter; all when empty.
    pub languages: Vec<Language>,
    /// How packages and folders of this tree are named.
    pub policy: Policy,
    path: PathBuf,
    allow: Vec<Exception>,
}

/// Why the file cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {why}")]
pub struct ConfigError {
    /// The file, with line and column where they are known.
    pub place: String,
    /// What is wrong.
    pub why: String,
}

#[derive(Debug, Clone)]
struct Exception {
    entry: Entry,
    line: u32,
    column: u32,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    profile: Option<String>,
    #[serde(default)]
    languages: Vec<String>,
    #[serde(default)]
    roots: Vec<String>,
    #[serde(default)]
    folders: Vec<String>,
    #[serde(default)]
    allow: Vec<Spanned<Entry>>,
}

/// One exception. Without `old` and `new` it holds for any values.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    rule: String,
    element: String,
    old: Option<String>,
    new: Option<String>,
    reason: String,
    owner: String,
    expires: Option<String>,
}

impl Config {
    /// Reads the file; none when there is none.
    ///
    /// # Errors
    /// When it cannot be read, or is not as it should be: unknown keys, rules, languages, dates.
    pub fn read(path: &Path) -> Result<Option<Config>, ConfigError> {
        match std::fs::read_to_string(path) {
            Ok(text) => Config::parse(path, &text).map(Some),
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
    /// As [`Config::read`].
    pub fn parse(path: &Path, text: &str) -> Result<Config, ConfigError> {
        let place = |at: Option<(u64, u64)>| match at {
            Some((line, column)) => format!("{}:{line}:{column}", path.display()),
            None => path.display().to_string(),
        };
        let file: File = match text.trim() {
            "" => {
                return Ok(Config {
                    path: path.to_owned(),
                    ..Config::default()
                });
            }
            _ => serde_saphyr::from_str(text).map_err(|error| ConfigError {
                place: place(error.location().map(|at| (at.line(), at.column()))),
                why: error.without_snippet().to_string(),
            })?,
        };
        let wrong = |why: String| ConfigError {
            place: place(None),
            why,
        };
        let profile = file
            .profile
            .as_deref()
            .map(profile)
            .transpose()
            .map_err(wrong)?;
        let languages = file.languages.iter().map(|language| language.parse());
        let languages = languages.collect::<Result<_, _>>().map_err(wrong)?;
        let allow = file.allow.into_iter().map(|entry| {
            let (line, column) = (entry.referenced.line(), entry.referenced.column());
            check(&entry.value).map_err(|why| ConfigError {
                place: place(Some((line, column))),
                why,
            })?;
            Ok(Exception {
                entry: entry.value,
                line: line as u32,
                column: column as u32,
            })
        });
        Ok(Config {
            profile,
            languages,
            policy: Policy {
                roots: file.roots,
                folders: file.folders,
            },
            path: path.to_owned(),
            allow: allow.collect::<Result<_, _>>()?,
        })
    }

    /// Takes the findings that are excepted out of account. An expired exception lets nothing pass.
    pub fn except(&self, findings: &mut [Finding], today: Date) {
        let valid = |entry: &&Entry| entry.expires().is_none_or(|expires| expires >= today);
        for entry in self
            .allow
            .iter()
            .map(|exception| &exception.entry)
            .filter(valid)
        {
            for finding in findings.iter_mut().filter(|finding| entry.is_for(finding)) {
                finding.exempt = Some(format!("excepted: {}", entry.reason));
            }
        }
    }

    /// The exceptions that are unused or expired, as findings. `findings` must be all there are.
    #[must_use]
    pub fn left_over(&self, findings: &[Finding], today: Date) -> Vec<Finding> {
        let left_over = self.allow.iter().filter_map(|exception| {
            let entry = &exception.entry;
            let owner = &entry.owner;
            if let Some(expires) = entry.expires().filter(|expires| *expires < today) {
                let message = format!("expired on {expires}; {owner} owns it");
                return Some(self.finding(exception, &EXPIRED, message));
            }
            let used = findings.iter().any(|finding| entry.is_for(finding));
            let message = format!("lets no {} pass; {owner} owns it", entry.rule);
            (!used).then(|| self.finding(exception, &UNUSED, message))
        });
        left_over.collect()
    }

    fn finding(&self, exception: &Exception, rule: &'static Rule, message: String) -> Finding {
        let (line, column) = (exception.line, exception.column);
        Finding {
            rule,
            severity: Severity::Error,
            element: exception.entry.element.clone(),
            message,
            old_value: String::new(),
            new_value: String::new(),
            old: None,
            new: Some(Location {
                path: self.path.display().to_string(),
                span: Some(Span {
                    line,
                    column,
                    end_line: line,
                    end_column: column,
                }),
            }),
            languages: Default::default(),
            fix: None,
            exempt: None,
        }
    }
}

impl Entry {
    fn expires(&self) -> Option<Date> {
        self.expires.as_deref().and_then(|date| date.parse().ok())
    }

    fn is_for(&self, finding: &Finding) -> bool {
        let same =
            |wanted: &Option<String>, value: &str| wanted.as_deref().is_none_or(|w| w == value);
        finding.rule.is_called(&self.rule)
            && self.element == finding.element
            && same(&self.old, &finding.old_value)
            && same(&self.new, &finding.new_value)
    }
}

fn check(entry: &Entry) -> Result<(), String> {
    if rule::find(&entry.rule).is_none() && !rule::all().any(|rule| rule.is_called(&entry.rule)) {
        return Err(format!(
            "there is no rule {}: `oxds api explain` lists them",
            entry.rule
        ));
    }
    for (key, value) in [("reason", &entry.reason), ("owner", &entry.owner)] {
        if value.trim().is_empty() {
            return Err(format!(
                "{key} is empty: an exception says why, and who answers for it"
            ));
        }
    }
    match &entry.expires {
        Some(date) if entry.expires().is_none() => {
            Err(format!("expires: {date:?} is no date: 2027-03-31 is"))
        }
        _ => Ok(()),
    }
}

fn profile(name: &str) -> Result<Profile, String> {
    match name {
        "policy" => Ok(Profile::Policy),
        "envoy-today" => Ok(Profile::EnvoyToday),
        _ => Err(format!("profile: {name:?} is none of policy, envoy-today")),
    }
}

/// The text of `oxds-api.yaml` with an exception for each of `findings`, before those it has; all
/// else stays as it is.
#[must_use]
pub fn with_exceptions(text: &str, findings: &[&Finding], owner: &str, reason: &str) -> String {
    let mut entries = String::new();
    for finding in findings {
        let _ = write!(
            entries,
            "- rule: {}\n  element: {}\n  old: {}\n  new: {}\n  reason: {}\n  owner: {}\n",
            finding.rule.id,
            quoted(&finding.element),
            quoted(&finding.old_value),
            quoted(&finding.new_value),
            quoted(reason),
            quoted(owner),
        );
    }
    let mut out = String::with_capacity(text.len() + entries.len());
    let mut placed = false;
    for line in text.split_inclusive('\n') {
        let is_list = !placed && line.starts_with("allow:");
        if is_list {
            out.push_str("allow:\n");
            out.push_str(&entries);
            placed = true;
        } else {
            out.push_str(line);
        }
    }
    if !placed {
        if !out.is_empty() && !out.ends_with('\n') {
            out.push('\n');
        }
        out.push_str("allow:\n");
        out.push_str(&entries);
    }
    out
}

/// A JSON string, which YAML reads as it is.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
