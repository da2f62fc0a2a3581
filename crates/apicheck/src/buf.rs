//! What a team told buf to leave out, honoured so that it can change over without writing
//! configuration: `ignore`, `ignore_only` and `except` of `buf.yaml`.
//!
//! ```yaml
//! breaking:
//!   ignore: [shop/internal]
//!   ignore_only: {FIELD_SAME_NAME: [shop/v1/draft.proto]}
//!   except: [FIELD_SAME_JSON_NAME]
//! lint: {}                        # the same keys, for rules about one tree
//! ```
//!
//! Findings left out are exempt and counted. `use` is not read: which rules there are is a matter of
//! the profile. `ignore_unstable_packages` needs no reading: unstable packages are exempt anyway.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::finding::Finding;
use crate::input::is_below;
use crate::rule::{Compares, Rule};

/// What `buf.yaml` leaves out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ignores {
    pub(crate) breaking: Vec<Ignore>,
    pub(crate) lint: Vec<Ignore>,
}

/// One thing left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ignore {
    /// A rule or category of buf; all rules when none.
    rule: Option<String>,
    /// What lies below, from the top of the tree.
    path: String,
}

/// `breaking` or `lint` of a `buf.yaml`.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Section {
    #[serde(default)]
    except: Vec<String>,
    #[serde(default)]
    ignore: Vec<String>,
    #[serde(default)]
    ignore_only: BTreeMap<String, Vec<String>>,
}

/// The categories of buf's rules about a pair. A rule of ours that buf has, too, is in all of them
/// as far as leaving out is concerned.
const CATEGORIES: &[&str] = &["FILE", "PACKAGE", "WIRE_JSON", "WIRE"];

impl Section {
    /// What it leaves out; its paths are from `folder`, and its `except` is about `scope`.
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
    /// Takes out of account what is left out. `within` gives the path of a finding's file from the
    /// top of its tree.
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
                finding.exempt = Some("left out in buf.yaml".to_owned());
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
