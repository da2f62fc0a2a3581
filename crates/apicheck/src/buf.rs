//! The keys `ignore`, `ignore_only` and `except` of `buf.yaml`, so that a team can migrate from buf
//! without new configuration.
//!
//! ```yaml
//! breaking:
//!   ignore: [shop/internal]
//!   ignore_only: {FIELD_SAME_NAME: [shop/v1/draft.proto]}
//!   except: [FIELD_SAME_JSON_NAME]
//! lint: {}                        # the same keys, for rules about one tree
//! ```
//!
//! Ignored findings are exempt and counted. `use` is not read: the profile selects the rules.
//! `ignore_unstable_packages` is not read either: unstable packages are always exempt.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::finding::Finding;
use crate::input::is_below;
use crate::rule::{Compares, Rule};

/// Ignored rules and paths of a `buf.yaml`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ignores {
    pub(crate) breaking: Vec<Ignore>,
    pub(crate) lint: Vec<Ignore>,
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

impl Section {
    /// Returns the ignored rules and paths. Paths are relative to `folder`; `except` applies below
    /// `scope`.
    pub(crate) fn ignores(&self, folder: &str, scope: &str) -> Vec<Ignore> {
        let below = |path: &String| crate::input::join(folder, &crate::input::clean(path));
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
        if self.breaking.is_empty() && self.lint.is_empty() {
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
            }
        }
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
