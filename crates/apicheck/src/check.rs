//! Everything in one call (V-62): what changed, what it breaks, whether versions follow, and what is
//! wrong with the tree as it is.

use std::collections::{BTreeSet, HashSet};

use crate::bump::{Lock, Side, Versions};
use jiff::civil::Date;

use crate::clock::Schedule;
use crate::compare::Comparison;
use crate::finding::{Finding, Language};
use crate::hash::{Hashes, VERSION_OPTION};
use crate::ledger::Ledger;
use crate::model::Tree;
use crate::rule::Profile;
use crate::rules::validation::Mode;
use crate::rules::{self, Policy};

/// What to look for.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Which set of rules applies.
    pub profile: Profile,
    /// The languages whose generated code matters; all when empty.
    pub languages: BTreeSet<Language>,
    /// Whether any change of validation is an error (V-33), not only a tighter one.
    pub strict_validation: bool,
    /// How packages and folders are named.
    pub policy: Policy,
}

/// What is wrong between two trees, and what the new one has brought that is wrong by itself.
#[must_use]
pub fn check(
    old: &Tree,
    new: &Tree,
    (old_lock, new_lock): (Option<&Lock>, Option<&Lock>),
    settings: &Settings,
) -> Vec<Finding> {
    let mut findings = breaking(old, new, settings);
    findings.extend(brought(old, new, settings));
    let (old_hashes, new_hashes) = rayon::join(
        || Hashes::of(old, VERSION_OPTION),
        || Hashes::of(new, VERSION_OPTION),
    );
    let old_versions = Versions::of(old, VERSION_OPTION, old_lock);
    let new_versions = Versions::of(new, VERSION_OPTION, new_lock);
    let old = Side {
        tree: old,
        hashes: &old_hashes,
        versions: &old_versions,
    };
    let new = Side {
        tree: new,
        hashes: &new_hashes,
        versions: &new_versions,
    };
    findings.extend(rules::versions::find(old, new, new_lock, &findings));
    findings.extend(rules::versions::frozen(old, new, new_lock));
    findings
}

/// What the ledger adds to what [`check`] found: majors without an event (V-18), removals inside
/// their window (V-36), and the grace of a frozen major (V-14).
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
    rules::windows(&comparison, findings, ledger, schedule, today);
    let early = rules::promotions(&comparison, settings.profile, ledger, today);
    findings.extend(early);
    rules::grace((old, new), findings, ledger, today);
}

/// What is wrong with a tree as it is, and was not wrong before.
fn brought(old: &Tree, new: &Tree, settings: &Settings) -> Vec<Finding> {
    let lint = |tree| rules::lint(tree, settings.profile, &settings.policy);
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

/// The files of the new tree that are new or changed, as they are displayed.
#[must_use]
pub fn changed_files(old: &Tree, new: &Tree) -> HashSet<String> {
    let changed = new.targets().filter(|file| {
        let was = old.file(&file.path);
        was.is_none_or(|was| was.text != file.text || file.text.is_none())
    });
    changed.map(|file| file.display.to_string()).collect()
}

/// What a change breaks: wire, JSON, generated code, validation.
#[must_use]
pub fn breaking(old: &Tree, new: &Tree, settings: &Settings) -> Vec<Finding> {
    let comparison = Comparison::of(old, new);
    let mode = match settings.strict_validation {
        true => Mode::Strict,
        false => Mode::ByMeaning,
    };
    let mut findings = rules::breaking(&comparison, settings.profile);
    findings.extend(rules::validation::find(&comparison, settings.profile, mode));
    rules::exempt(&comparison, &mut findings);
    findings.retain(|finding| concerns(finding, &settings.languages));
    findings
}

/// A finding about generated code alone concerns those who generate code in its languages.
fn concerns(finding: &Finding, languages: &BTreeSet<Language>) -> bool {
    languages.is_empty()
        || finding.languages.is_empty()
        || !finding.languages.is_disjoint(languages)
}
