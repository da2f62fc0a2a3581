//! Findings in the forms that people and machines read.
//!
//! | form | for |
//! |---|---|
//! | text | people: a line that editors and `grep` understand, then the old and the new text |
//! | json, jsonl | programs; stable: fields are added, never renamed |
//! | sarif | code scanning (SARIF 2.1.0) |
//! | github | annotations of GitHub Actions |
//! | gitlab | GitLab's code quality |
//! | junit | test reports |
//!
//! The order is the same on every run: errors first, then by place.

mod github;
mod gitlab;
mod json;
mod junit;
mod sarif;
mod stats;
mod text;

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;

pub use text::Style;

use crate::finding::{Finding, Location, Severity};
use crate::model::{Name, Tree};
use crate::rule::Compares;

/// The form of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(missing_docs, reason = "the names are those of the forms")]
pub enum Format {
    #[default]
    Text,
    Json,
    Jsonl,
    Sarif,
    Github,
    Gitlab,
    Junit,
}

/// Findings, and what they are about.
#[derive(Debug, Default)]
pub struct Report {
    findings: Vec<Finding>,
    old_texts: HashMap<String, Name>,
    new_texts: HashMap<String, Name>,
    /// What was compared with what, in a line; none for rules about one tree.
    compared: Option<String>,
    /// How many files are judged.
    files: usize,
}

impl Report {
    /// A report in its order. The texts of the trees are shown where there are any.
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

    /// The findings in their order.
    #[must_use]
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// Those that count: not exempt.
    pub fn counted(&self) -> impl Iterator<Item = &Finding> {
        self.findings
            .iter()
            .filter(|finding| finding.exempt.is_none())
    }

    /// Whether something that counts is as bad as `severity`, or worse.
    #[must_use]
    pub fn fails_at(&self, severity: Severity) -> bool {
        self.counted().any(|finding| finding.severity >= severity)
    }

    /// The report in a form. `style` is for text.
    #[must_use]
    pub fn render(&self, format: Format, style: Style) -> String {
        match format {
            Format::Text => text::render(self, style),
            Format::Json => json::document(self),
            Format::Jsonl => json::lines(self),
            Format::Sarif => sarif::render(self),
            Format::Github => github::render(self),
            Format::Gitlab => gitlab::render(self),
            Format::Junit => junit::render(self),
        }
    }

    /// `3 breaking, 1 warning, 2 exempt (work in progress)`, or that there is nothing.
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
        let found = match parts.is_empty() {
            true => "no findings".to_owned(),
            false => parts.join(", "),
        };
        match &self.compared {
            Some(compared) => format!("{found}: {compared}"),
            None => found,
        }
    }
}

/// The texts of a tree, as its files are displayed.
fn texts(tree: &Tree) -> HashMap<String, Name> {
    let files = tree.files.iter();
    let texts = files.filter_map(|file| Some((file.display.to_string(), file.text.clone()?)));
    texts.collect()
}

/// Whether a finding is of a change that breaks others.
fn breaks(finding: &Finding) -> bool {
    finding.rule.compares == Compares::Pair
        && finding.rule.category != crate::rule::Category::Policy
}

/// Where a finding is shown: where it is now, or where it was.
fn place(finding: &Finding) -> Option<&Location> {
    finding.new.as_ref().or(finding.old.as_ref())
}

fn severity_word(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "note",
    }
}

/// The sentence, with the languages when that is the point.
fn sentence(finding: &Finding) -> String {
    let mut sentence = finding.message.clone();
    if !finding.languages.is_empty() {
        let languages: Vec<_> = finding.languages.iter().map(ToString::to_string).collect();
        let _ = write!(sentence, " [{}]", languages.join(", "));
    }
    sentence
}
