//! The keys `use`, `ignore`, `ignore_only` and `except` of `buf.yaml`, so that a team can migrate from
//! buf without new configuration.
//!
//! ```yaml
//! breaking:
//!   use: [WIRE_JSON]
//!   ignore: [shop/internal]
//!   ignore_only: {FIELD_SAME_NAME: [shop/v1/draft.proto]}
//!   except: [FIELD_SAME_JSON_NAME]
//! lint: {}                        # the same keys, for rules about one tree
//! ```
//!
//! Ignored findings are exempt and counted. `breaking.use` selects rules about breaking changes, by
//! category or by id; it does not concern rules of the versioning policy and of validation, which buf
//! does not have. `lint.use` is not read: the profile selects those rules.
//! `ignore_unstable_packages` is not read either: unstable packages are always exempt.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::finding::Finding;
use crate::paths::{clean, is_below, join};
use crate::rule::{Category, Compares, Rule};
use crate::rules;

/// Ignored rules and paths of a `buf.yaml`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ignores {
    pub(crate) breaking: Vec<Ignore>,
    pub(crate) lint: Vec<Ignore>,
    pub(crate) used: Vec<Used>,
}

/// Selection `breaking.use` for the files below a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Used {
    /// Path prefix from the top of the tree.
    path: String,
    /// Rules and categories of buf; at least one is known.
    names: Vec<String>,
}

/// One ignored rule, path, or both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ignore {
    /// Rule or category of buf; `None` for all rules.
    rule: Option<String>,
    /// Path prefix from the top of the tree.
    path: String,
}

/// Section `breaking` or `lint` of a `buf.yaml`.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Section {
    #[serde(default, rename = "use")]
    used: Vec<String>,
    #[serde(default)]
    except: Vec<String>,
    #[serde(default)]
    ignore: Vec<String>,
    #[serde(default)]
    ignore_only: BTreeMap<String, Vec<String>>,
}

/// Categories of buf's breaking rules. Each counterpart of a buf rule counts as a member of all of
/// them.
const CATEGORIES: &[&str] = &["FILE", "PACKAGE", "WIRE_JSON", "WIRE"];

/// Breaking rules of buf that are only in the category `FILE`.
const FILE_ONLY: &[&str] = &[
    "ENUM_NO_DELETE",
    "EXTENSION_NO_DELETE",
    "FILE_NO_DELETE",
    "MESSAGE_NO_DELETE",
    "SERVICE_NO_DELETE",
];

/// Returns whether a category of buf contains a rule.
fn contains(category: &str, rule: &Rule) -> bool {
    match category {
        "WIRE" => rule.is_wire(),
        "WIRE_JSON" => rule.is_wire() || rule.category == Category::Json,
        "PACKAGE" => rule.buf.is_empty() || rule.buf.iter().any(|name| !FILE_ONLY.contains(name)),
        _ => category == "FILE",
    }
}

/// Returns whether buf has the rule, or would have it: rules of the policy and of validation are
/// ours alone.
fn concerns_use(rule: &Rule) -> bool {
    let is_compatibility = match rule.category {
        Category::Wire | Category::Json | Category::Source => true,
        Category::Validation => false,
        Category::Policy => !rule.buf.is_empty(),
    };
    rule.compares == Compares::Pair && is_compatibility
}

impl Section {
    /// Returns the selection of rules below `scope`, if there is one. Unknown names, such as those of
    /// plugins, are ignored.
    pub(crate) fn used(&self, scope: &str) -> Option<Used> {
        let is_known = |name: &&String| {
            CATEGORIES.contains(&name.as_str()) || rules::all().any(|rule| rule.is_called(name))
        };
        let names: Vec<_> = self.used.iter().filter(is_known).cloned().collect();
        (!names.is_empty()).then(|| Used {
            path: scope.to_owned(),
            names,
        })
    }

    /// Returns the ignored rules and paths. Paths are relative to `folder`; `except` applies below
    /// `scope`.
    pub(crate) fn ignores(&self, folder: &str, scope: &str) -> Vec<Ignore> {
        let below = |path: &String| join(folder, &clean(path));
        let whole = self.except.iter().map(|rule| Ignore {
            rule: Some(rule.clone()),
            path: scope.to_owned(),
        });
        let paths = self.ignore.iter().map(|path| Ignore {
            rule: None,
            path: below(path),
        });
        let single = self.ignore_only.iter().flat_map(|(rule, paths)| {
            paths.iter().map(|path| Ignore {
                rule: Some(rule.clone()),
                path: below(path),
            })
        });
        whole.chain(paths).chain(single).collect()
    }
}

impl Ignores {
    /// Exempts the ignored findings. `within` maps a finding to the path of its file from the top
    /// of its tree.
    pub fn except(&self, findings: &mut [Finding], within: impl Fn(&Finding) -> Option<String>) {
        if *self == Ignores::default() {
            return;
        }
        let counted = findings
            .iter_mut()
            .filter(|finding| finding.exempt.is_none());
        for finding in counted {
            let ignores = match finding.rule.compares {
                Compares::Pair => &self.breaking,
                Compares::Tree => &self.lint,
            };
            let Some(path) = within(finding) else {
                continue;
            };
            let mut ignores = ignores.iter();
            if ignores.any(|ignore| ignore.is_for(finding.rule, &path)) {
                finding.exempt = Some("ignored by buf.yaml".to_owned());
            } else if !self.uses(finding.rule, &path) {
                finding.exempt = Some("not in breaking.use of buf.yaml".to_owned());
            }
        }
    }

    /// Returns whether `breaking.use` selects a rule for a file.
    fn uses(&self, rule: &Rule, path: &str) -> bool {
        let used = self.used.iter().filter(|used| is_below(path, &used.path));
        // The innermost module decides.
        let Some(used) = used.max_by_key(|used| used.path.len()) else {
            return true;
        };
        let selects = |name: &String| rule.is_called(name) || contains(name, rule);
        !concerns_use(rule) || used.names.iter().any(selects)
    }
}

impl Ignore {
    fn is_for(&self, rule: &Rule, path: &str) -> bool {
        let same = |id: &String| {
            rule.is_called(id) || (CATEGORIES.contains(&id.as_str()) && !rule.buf.is_empty())
        };
        is_below(path, &self.path) && self.rule.as_ref().is_none_or(same)
    }
}
