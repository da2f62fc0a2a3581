//! All checks of a change in one call (V-62): breaking changes, file versions, frozen packages, and
//! new violations of the rules about one tree.

use std::collections::{BTreeSet, HashSet};

use jiff::civil::Date;

use crate::bump::{Lock, VersionedTree, Versions};
use crate::clock::Schedule;
use crate::compare::Comparison;
use crate::finding::{Finding, Language};
use crate::hash::{Hashes, VERSION_OPTION};
use crate::ledger::Ledger;
use crate::model::Tree;
use crate::rule::Profile;
use crate::rules::validation::Mode;
use crate::rules::{self, Policy};

/// Options of a check.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Settings {
    /// Set of rules that applies.
    pub profile: Profile,
    /// Languages whose generated code matters; all languages if empty.
    pub languages: BTreeSet<Language>,
    /// Whether looser validation is an error, too (V-33).
    pub strict_validation: bool,
    /// Naming rules for packages and folders.
    pub policy: Policy,
}

/// Returns the findings of all rules: about the change, and about the new tree where the old tree
/// did not have the same violation.
#[must_use]
pub fn check(
    old: &Tree,
    new: &Tree,
    (old_lock, new_lock): (Option<&Lock>, Option<&Lock>),
    settings: &Settings,
) -> Vec<Finding> {
    let mut findings = breaking(old, new, settings);
    findings.extend(new_violations((old, old_lock), (new, new_lock), settings));
    let (old_hashes, new_hashes) = rayon::join(
        || Hashes::of(old, VERSION_OPTION),
        || Hashes::of(new, VERSION_OPTION),
    );
    let old_versions = Versions::of(old, VERSION_OPTION, old_lock);
    let new_versions = Versions::of(new, VERSION_OPTION, new_lock);
    let old = VersionedTree::new(old, &old_hashes, &old_versions);
    let new = VersionedTree::new(new, &new_hashes, &new_versions);
    findings.extend(rules::versions::find(old, new, new_lock, &findings));
    findings.extend(rules::versions::frozen(old, new, new_lock));
    findings
}

/// Applies the ledger to the findings of [`check`]: new majors without an event (V-18), removals
/// inside their deprecation window (V-36), and the grace period of a frozen major (V-14).
pub fn by_ledger(
    (old, new): (&Tree, &Tree),
    findings: &mut Vec<Finding>,
    settings: &Settings,
    ledger: &Ledger,
    today: Date,
) {
    let comparison = Comparison::of(old, new);
    let schedule = match settings.profile {
        Profile::Policy => Schedule::Policy,
        Profile::EnvoyToday => Schedule::EnvoyToday,
    };
    rules::check_removal_windows(&comparison, findings, ledger, schedule, today);
    let early = rules::majors_without_event(&comparison, settings.profile, ledger, today);
    findings.extend(early);
    rules::exempt_in_grace_period((old, new), findings, ledger, today);
}

/// Returns the violations of rules about one tree that the old tree did not have.
fn new_violations(
    old: (&Tree, Option<&Lock>),
    new: (&Tree, Option<&Lock>),
    settings: &Settings,
) -> Vec<Finding> {
    let lint = |(tree, lock)| rules::lint(tree, settings.profile, &settings.policy, lock);
    let (before, mut now) = rayon::join(|| lint(old), || lint(new));
    let key = |finding: &Finding| {
        (
            finding.rule.id,
            finding.element.clone(),
            finding.message.clone(),
        )
    };
    let before: HashSet<_> = before.iter().map(key).collect();
    now.retain(|finding| !before.contains(&key(finding)));
    now
}

/// Returns the display paths of the files of the new tree that are new or changed.
#[must_use]
pub fn changed_files(old: &Tree, new: &Tree) -> HashSet<String> {
    let changed = new.targets().filter(|file| {
        let earlier = old.file(&file.path);
        earlier.is_none_or(|earlier| earlier.text != file.text || file.text.is_none())
    });
    changed.map(|file| file.display.to_string()).collect()
}

/// Returns what a change breaks: wire format, JSON, generated code, validation.
#[must_use]
pub fn breaking(old: &Tree, new: &Tree, settings: &Settings) -> Vec<Finding> {
    let comparison = Comparison::of(old, new);
    let mode = if settings.strict_validation {
        Mode::Strict
    } else {
        Mode::ByMeaning
    };
    let mut findings = rules::breaking(&comparison, settings.profile);
    findings.extend(rules::validation::find(&comparison, settings.profile, mode));
    rules::exempt(&comparison, &mut findings);
    findings.retain(|finding| concerns(finding, &settings.languages));
    findings
}

/// Returns whether a finding matters for `languages`. Findings without languages always matter.
fn concerns(finding: &Finding, languages: &BTreeSet<Language>) -> bool {
    languages.is_empty()
        || finding.languages.is_empty()
        || !finding.languages.is_disjoint(languages)
}
