//! The rules about one tree, together.

use std::collections::BTreeSet;

use super::{dependencies, lifecycle, packages};
use crate::finding::{Finding, Location};
use crate::model::{File, FileId, Place, Source, Tree};
use crate::rule::{Profile, Rule};

/// What the owners of a tree decide about it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Policy {
    /// The first components that packages may have: `envoy`, `udpa`. Any when empty.
    pub roots: Vec<String>,
    /// Folders below which paths follow packages again: `contrib`.
    pub folders: Vec<String>,
}

/// All that one tree breaks, by rule group, in the order of the tree.
#[must_use]
pub fn lint(tree: &Tree, profile: Profile, policy: &Policy) -> Vec<Finding> {
    let mut report = Report::new(tree, profile);
    packages::find(&mut report, policy);
    dependencies::find(&mut report);
    lifecycle::find(&mut report);
    report.findings
}

/// The packages whose uses hold two versions of one (V-12), alone.
#[must_use]
pub fn odr(tree: &Tree, profile: Profile) -> Vec<Finding> {
    let mut report = Report::new(tree, profile);
    dependencies::one_definition(&mut report);
    report.findings
}

/// Findings about a tree, as they come.
#[derive(Debug)]
pub(super) struct Report<'t> {
    pub(super) tree: &'t Tree,
    profile: Profile,
    pub(super) findings: Vec<Finding>,
}

impl<'t> Report<'t> {
    pub(super) fn new(tree: &'t Tree, profile: Profile) -> Self {
        Report {
            tree,
            profile,
            findings: Vec::new(),
        }
    }

    pub(super) fn file(&mut self, rule: &'static Rule, file: &File, message: String, value: &str) {
        let at = (file.id, &file.package_source);
        self.add(rule, &file.path, at, message, value);
    }

    /// One finding; none when the rule does not apply in the profile.
    pub(super) fn add(
        &mut self,
        rule: &'static Rule,
        element: &str,
        (file, source): (FileId, &Source),
        message: String,
        value: &str,
    ) {
        let span = source.name.or(source.span);
        let location = Location::of(self.tree, Place { file, span });
        self.located(rule, element, location, message, value);
    }

    /// One finding at a place that is known in words.
    pub(super) fn located(
        &mut self,
        rule: &'static Rule,
        element: &str,
        location: Location,
        message: String,
        value: &str,
    ) {
        let Some(severity) = rule.severity(self.profile) else {
            return;
        };
        self.findings.push(Finding {
            rule,
            severity,
            element: element.to_owned(),
            message,
            old_value: String::new(),
            new_value: value.to_owned(),
            old: None,
            new: Some(location),
            languages: BTreeSet::new(),
            fix: None,
            exempt: None,
        });
    }
}
