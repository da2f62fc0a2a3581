//! Configuration of a tree: `oxds-api.yaml`, with the exceptions from rules.
//!
//! ```yaml
//! profile: policy
//! languages: [go, cpp]
//! roots: [shop]          # allowed first components of packages
//! folders: [contrib]     # below these folders, paths follow packages again
//! allow:
//! - rule: FIELD_RENAMED
//!   element: shop.v1.Order.id
//!   old: id
//!   new: order_id
//!   reason: no generated code uses v1 yet
//!   owner: shop-api
//!   expires: 2027-03-31
//! ```
//!
//! `rule` may also be the id of the counterpart in buf.
//!
//! An exception exempts one finding, not a rule and not a file. Exceptions do not outlive their
//! reason: one that is past its expiry date is an error, and so is a new one that matches no finding.
//! After the change was merged, it matches nothing more. Then it lives until its expiry date, or
//! without one until the next release of the ledger.

use std::fmt::Write as _;
use std::path::Path;

use jiff::civil::Date;
use oxds_settings::{Located, Position};
use serde::Deserialize;

pub use crate::config_file::ConfigError;
use crate::config_file::read_text;

use crate::finding::{Finding, Language};
use crate::rule::Profile;
use crate::rules::exceptions::{Exception, Exceptions};
use crate::rules::{self, Policy};

/// Name of the configuration file in the top folder of a tree.
pub const CONFIG_FILE: &str = "oxds-api.yaml";

/// Contents of the file `oxds-api.yaml`.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Config {
    /// Profile, if the file sets one.
    pub profile: Option<Profile>,
    /// Languages whose generated code matters; all languages if empty.
    pub languages: Vec<Language>,
    /// Naming rules for packages and folders of this tree.
    pub policy: Policy,
    exceptions: Exceptions,
}

/// Earlier states of a configuration. They show how long an exception has been merged.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct Earlier<'a> {
    /// Configuration of the base of the comparison; `None` if it is unknown.
    pub base: Option<&'a Config>,
    /// Version of the last release, and the configuration at its date; `None` if unknown.
    pub release: Option<(&'a str, &'a Config)>,
}

/// Serialised form of `oxds-api.yaml`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ConfigYaml {
    profile: Option<Located<String>>,
    #[serde(default)]
    languages: Vec<Located<String>>,
    #[serde(default)]
    roots: Vec<String>,
    #[serde(default)]
    folders: Vec<String>,
    #[serde(default)]
    allow: Vec<Located<ExceptionYaml>>,
}

/// Serialised form of one exception. Without `old` and `new` it matches any values.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExceptionYaml {
    rule: String,
    element: String,
    old: Option<String>,
    new: Option<String>,
    reason: String,
    owner: String,
    expires: Option<String>,
}

impl Config {
    /// Reads the file. Returns `None` if it does not exist.
    ///
    /// # Errors
    /// Fails if the file cannot be read, or has an unknown key, rule, language or date.
    pub fn read(path: &Path) -> Result<Option<Config>, ConfigError> {
        let text = read_text(path)?;
        text.map(|text| Config::parse(path, &text)).transpose()
    }

    /// Parses the text of the file. `path` is used in errors.
    ///
    /// # Errors
    /// As [`Config::read`].
    pub fn parse(path: &Path, text: &str) -> Result<Config, ConfigError> {
        let file: Option<ConfigYaml> = oxds_settings::read(text.as_bytes())
            .map_err(|error| ConfigError::of_settings(path, &error))?;
        let file = file.unwrap_or_default();
        let wrong = |at: Position| move |why| ConfigError::at(path, at, why);
        let profile = file
            .profile
            .map(|name| profile(&name.value).map_err(wrong(name.position)));
        let languages = file
            .languages
            .iter()
            .map(|name| name.value.parse().map_err(wrong(name.position)));
        let allow = file.allow.into_iter().map(|entry| {
            let position = entry.position;
            exception(entry).map_err(wrong(position))
        });
        Ok(Config {
            profile: profile.transpose()?,
            languages: languages.collect::<Result<_, _>>()?,
            policy: Policy {
                roots: file.roots,
                folders: file.folders,
            },
            exceptions: Exceptions {
                path: path.to_owned(),
                list: allow.collect::<Result<_, _>>()?,
            },
        })
    }

    /// Exempts the findings that match an exception. An expired exception matches nothing.
    pub fn except(&self, findings: &mut [Finding], today: Date) {
        self.exceptions.except(findings, today);
    }

    /// Returns the unused and the expired exceptions as findings. `findings` must be complete.
    #[must_use]
    pub fn left_over(
        &self,
        findings: &[Finding],
        today: Date,
        earlier: Earlier<'_>,
    ) -> Vec<Finding> {
        let base = earlier.base.map(|base| &base.exceptions);
        let release = earlier.release.map(|(name, then)| (name, &then.exceptions));
        self.exceptions.left_over(findings, today, base, release)
    }
}

/// Checks an exception.
fn exception(entry: Located<ExceptionYaml>) -> Result<Exception, String> {
    let Located {
        position,
        value: entry,
    } = entry;
    let is_known =
        rules::find(&entry.rule).is_some() || rules::all().any(|rule| rule.is_called(&entry.rule));
    if !is_known {
        return Err(format!(
            "unknown rule {}: `oxds api explain` lists all rules",
            entry.rule
        ));
    }
    for (key, value) in [("reason", &entry.reason), ("owner", &entry.owner)] {
        if value.trim().is_empty() {
            return Err(format!(
                "empty {key}: an exception needs a reason and an owner"
            ));
        }
    }
    let expires = entry.expires.map(|date| {
        date.parse().map_err(|_| {
            format!("expires: malformed date {date:?}: expected a date such as 2027-03-31")
        })
    });
    Ok(Exception {
        rule: entry.rule,
        element: entry.element,
        old: entry.old,
        new: entry.new,
        reason: entry.reason,
        owner: entry.owner,
        expires: expires.transpose()?,
        position,
    })
}

fn profile(name: &str) -> Result<Profile, String> {
    match name {
        "policy" => Ok(Profile::Policy),
        "envoy-today" => Ok(Profile::EnvoyToday),
        _ => Err(format!(
            "unknown profile {name:?}: expected policy or envoy-today"
        )),
    }
}

/// Returns the text of `oxds-api.yaml` with a new exception for each of `findings`, in front of the
/// existing ones. The rest of the text is unchanged.
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

/// Returns a JSON string, which is also valid YAML.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
