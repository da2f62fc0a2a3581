//! Collector of findings about one tree.

use std::collections::BTreeSet;

use crate::finding::{Finding, Location};
use crate::model::{File, FileId, FileSpan, Source, Tree};
use crate::rule::{Profile, Rule};

/// Collector of findings about one tree.
#[derive(Debug)]
pub(super) struct TreeFindings<'t> {
    pub(super) tree: &'t Tree,
    profile: Profile,
    pub(super) findings: Vec<Finding>,
}

impl<'t> TreeFindings<'t> {
    pub(super) fn new(tree: &'t Tree, profile: Profile) -> Self {
        TreeFindings {
            tree,
            profile,
            findings: Vec::new(),
        }
    }

    pub(super) fn file(&mut self, rule: &'static Rule, file: &File, message: String, value: &str) {
        let at = (file.id, &file.sources.package);
        self.add(rule, &file.path, at, message, value);
    }

    /// Adds a finding, unless the rule does not apply in the profile.
    pub(super) fn add(
        &mut self,
        rule: &'static Rule,
        element: &str,
        (file, source): (FileId, &Source),
        message: String,
        value: &str,
    ) {
        let span = source.name.or(source.span);
        let location = Location::of(self.tree, FileSpan { file, span });
        self.located(rule, element, location, message, value);
    }

    /// Adds a finding at a known location.
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
            old_element: None,
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
