//! A report: sorted findings, their texts, and the summary.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;

use crate::finding::{Finding, Location, Severity};
use crate::model::{Name, Tree};
use crate::rule::{Category, Compares};

/// Findings with the texts and the base of the comparison.
#[derive(Debug, Default)]
pub struct Report {
    findings: Vec<Finding>,
    pub(super) old_texts: HashMap<String, Name>,
    pub(super) new_texts: HashMap<String, Name>,
    /// Description of the comparison in one line; `None` for rules about one tree.
    pub(super) compared: Option<String>,
    /// Number of target files.
    pub(super) files: usize,
}

impl Report {
    /// Creates a sorted report. The texts of the trees are used for snippets.
    #[must_use]
    pub fn new(
        mut findings: Vec<Finding>,
        old: Option<&Tree>,
        new: Option<&Tree>,
        compared: Option<String>,
    ) -> Report {
        let place = |finding: &Finding| finding.new.clone().or_else(|| finding.old.clone());
        findings.sort_by(|a, b| {
            let key = |f: &Finding| (f.exempt.is_some(), std::cmp::Reverse(f.severity));
            key(a)
                .cmp(&key(b))
                .then_with(|| place(a).cmp(&place(b)))
                .then_with(|| (a.rule.id, &a.element).cmp(&(b.rule.id, &b.element)))
        });
        Report {
            findings,
            old_texts: old.map(texts).unwrap_or_default(),
            new_texts: new.map(texts).unwrap_or_default(),
            compared,
            files: new.map_or(0, |tree| tree.targets().count()),
        }
    }

    /// Returns all findings in order.
    #[must_use]
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// Returns the findings that are not exempt.
    pub fn counted(&self) -> impl Iterator<Item = &Finding> {
        self.findings
            .iter()
            .filter(|finding| finding.exempt.is_none())
    }

    /// Returns whether a counted finding has at least this severity.
    #[must_use]
    pub fn fails_at(&self, severity: Severity) -> bool {
        self.counted().any(|finding| finding.severity >= severity)
    }

    /// Returns a summary such as `3 breaking, 1 warning, 2 exempt (work in progress)` or `no
    /// findings`.
    #[must_use]
    pub fn summary(&self) -> String {
        let errors = self.counted().filter(|f| f.severity == Severity::Error);
        let (breaking, others): (Vec<_>, Vec<_>) = errors.partition(|f| breaks(f));
        let count = |severity| self.counted().filter(|f| f.severity == severity).count();
        let mut parts = Vec::new();
        let mut part = |count: usize, one: &str, many: &str| {
            if count > 0 {
                parts.push(format!("{count} {}", if count == 1 { one } else { many }));
            }
        };
        part(breaking.len(), "breaking", "breaking");
        part(others.len(), "error", "errors");
        part(count(Severity::Warning), "warning", "warnings");
        part(count(Severity::Note), "note", "notes");
        let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
        for reason in self.findings.iter().filter_map(|f| f.exempt.as_deref()) {
            *reasons.entry(reason).or_default() += 1;
        }
        if !reasons.is_empty() {
            let all: usize = reasons.values().sum();
            let mut list = String::new();
            for (reason, count) in &reasons {
                let comma = if list.is_empty() { "" } else { ", " };
                let _ = match reasons.len() {
                    1 => write!(list, "{reason}"),
                    _ => write!(list, "{comma}{count} {reason}"),
                };
            }
            parts.push(format!("{all} exempt ({list})"));
        }
        let found = if parts.is_empty() {
            "no findings".to_owned()
        } else {
            parts.join(", ")
        };
        match &self.compared {
            Some(compared) => format!("{found}: {compared}"),
            None => found,
        }
    }
}

/// Returns the texts of a tree by display path.
fn texts(tree: &Tree) -> HashMap<String, Name> {
    let files = tree.files.iter();
    let texts = files.filter_map(|file| Some((file.display.to_string(), file.text.clone()?)));
    texts.collect()
}

/// Returns whether a finding is about a breaking change. Removals are, too: the policy decides when
/// they are allowed, but buf has a counterpart for them.
fn breaks(finding: &Finding) -> bool {
    let rule = finding.rule;
    rule.compares == Compares::Pair && (rule.category != Category::Policy || !rule.buf.is_empty())
}

/// Returns the displayed location of a finding: in the new tree if possible, else in the old tree.
pub(super) fn place(finding: &Finding) -> Option<&Location> {
    finding.new.as_ref().or(finding.old.as_ref())
}

pub(super) fn severity_word(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "note",
    }
}

/// Returns the message, followed by the affected languages if there are any.
pub(super) fn sentence(finding: &Finding) -> String {
    let mut sentence = finding.message.clone();
    if !finding.languages.is_empty() {
        let languages: Vec<_> = finding.languages.iter().map(ToString::to_string).collect();
        let _ = write!(sentence, " [{}]", languages.join(", "));
    }
    sentence
}
