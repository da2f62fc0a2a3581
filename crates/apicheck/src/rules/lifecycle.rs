//! The life of packages and elements: how many majors, when a new one, how long something may be
//! experimental or deprecated (V-7, V-16 … V-18, V-36, V-46).

use std::collections::{BTreeMap, BTreeSet};

use jiff::civil::Date;

use super::lint::Report;
use super::removal::DEPRECATED_REMOVED;
use crate::audit;
use crate::bump::frozen_by_status;
use crate::clock::{self, Phase, Schedule};
use crate::compare::Comparison;
use crate::finding::{Finding, Severity};
use crate::generate::pending;
use crate::ledger::Ledger;
use crate::model::{File, Tree};
use crate::package::{PackageName, Stage};
use crate::rule::{Category, Compares, Profile, Profiles, Rule};

const fn policy(
    id: &'static str,
    behaviours: &'static [&'static str],
    compares: Compares,
    profiles: Profiles,
    purpose: &'static str,
    why: &'static str,
) -> Rule {
    Rule {
        id,
        behaviours,
        purpose,
        why,
        category: Category::Policy,
        profiles,
        compares,
        buf: &[],
    }
}

/// Only the policy has majors that come and go.
const POLICY_ALONE: Profiles = Profiles {
    policy: Some(Severity::Error),
    envoy_today: None,
};

pub(super) static TOO_MANY_MAJORS: Rule = policy(
    "TOO_MANY_MAJORS",
    &["V-16"],
    Compares::Tree,
    POLICY_ALONE,
    "A package has at most three majors that live: two stable ones and the next",
    "Servers and clients carry each of them. Freeze the oldest: it stays in the tree, and nobody has to support it.",
);
pub(super) static ALPHA_UNNEEDED: Rule = policy(
    "ALPHA_UNNEEDED",
    &["V-17"],
    Compares::Tree,
    POLICY_ALONE,
    "The next major exists only when the stable one has something to break",
    "A major that changes nothing makes everybody migrate for nothing. Remove it; the next deprecation brings it back.",
);
pub(super) static ALPHA_MISSING: Rule = policy(
    "ALPHA_MISSING",
    &["V-17"],
    Compares::Tree,
    POLICY_ALONE,
    "What a stable major will break is done in the next one already",
    "It holds in trees that generate next majors: where one package has its next, those with something to break have theirs. Run `oxds api next-major`.",
);
pub(super) static EXPERIMENTAL_EXPIRED: Rule = policy(
    "EXPERIMENTAL_EXPIRED",
    &["V-7"],
    Compares::Tree,
    Profiles::ERROR,
    "What is experimental is promoted or removed after a bounded time",
    "Otherwise people rely on it for years without the promises of a stable API. The ledger says since which release, and how many it may stay.",
);
pub(super) static EXPERIMENTAL_EXPIRING: Rule = policy(
    "EXPERIMENTAL_EXPIRING",
    &["V-7"],
    Compares::Tree,
    Profiles::WARNING,
    "What is experimental has more than one release left",
    "This is its last release: decide whether to promote or to remove it before the next.",
);
pub(super) static LEDGER_INCOMPLETE: Rule = policy(
    "LEDGER_INCOMPLETE",
    &["V-7", "V-43", "V-46"],
    Compares::Tree,
    Profiles::WARNING,
    "The ledger knows everything that is deprecated or experimental",
    "Without a release the clock does not tick, and nobody learns what to use instead. Add `since`, and `replacement` or `no_replacement`.",
);
pub(super) static MAJOR_WITHOUT_EVENT: Rule = policy(
    "MAJOR_WITHOUT_EVENT",
    &["V-18"],
    Compares::Pair,
    POLICY_ALONE,
    "A new stable major comes at a release of the API",
    "Operators plan for one time a year. Add it to the `majors` of an event in the ledger, or leave it alpha until then.",
);

pub(super) const RULES: &[&Rule] = &[
    &TOO_MANY_MAJORS,
    &ALPHA_UNNEEDED,
    &ALPHA_MISSING,
    &EXPERIMENTAL_EXPIRED,
    &EXPERIMENTAL_EXPIRING,
    &LEDGER_INCOMPLETE,
    &MAJOR_WITHOUT_EVENT,
];

/// What no ledger is needed for.
pub(super) fn find(report: &mut Report<'_>) {
    let families = families(report.tree);
    majors(report, &families);
    alphas(report, &families);
}

/// How long things are experimental or deprecated, by the ledger.
#[must_use]
pub fn lifecycle(tree: &Tree, profile: Profile, ledger: &Ledger, today: Date) -> Vec<Finding> {
    let mut report = Report::new(tree, profile);
    for one in audit::experiments(tree, ledger, today) {
        let limit = ledger.experimental_releases;
        let (rule, message) = match one.age {
            None => (
                &LEDGER_INCOMPLETE,
                format!(
                    "is {}, and the ledger does not say since when",
                    one.maturity
                ),
            ),
            Some((since, made)) if made > limit => (
                &EXPERIMENTAL_EXPIRED,
                format!(
                    "is {} since {since}, for {made} more releases; {limit} are allowed",
                    one.maturity
                ),
            ),
            Some((since, made)) if made == limit => (
                &EXPERIMENTAL_EXPIRING,
                format!(
                    "is {} since {since}, and the next release is one too many",
                    one.maturity
                ),
            ),
            Some(_) => continue,
        };
        report.located(rule, &one.element, one.location, message, "");
    }
    for one in clock::clock(tree, ledger, Schedule::default(), today) {
        if one.replacement.is_none() {
            let message = "is deprecated, and the ledger does not say since when".to_owned();
            report.located(&LEDGER_INCOMPLETE, &one.element, one.location, message, "");
        }
    }
    report.findings
}

/// New stable majors without an event (V-18). A first major is no event.
#[must_use]
pub fn promotions(
    comparison: &Comparison<'_>,
    profile: Profile,
    ledger: &Ledger,
    today: Date,
) -> Vec<Finding> {
    let mut report = Report::new(comparison.new, profile);
    let old: BTreeSet<&str> = comparison
        .old
        .files
        .iter()
        .map(|file| &*file.package)
        .collect();
    for (_, packages) in families(comparison.new) {
        for (name, file) in &packages {
            let is_new = !old.contains(name.full) && is_stable(name);
            let later = packages
                .iter()
                .any(|(other, _)| is_stable(other) && major(other) < major(name));
            let event = ledger
                .events
                .iter()
                .find(|event| event.majors.iter().any(|one| one == name.full));
            let message = match event {
                _ if !(is_new && later) => continue,
                Some(event) if event.date <= today => continue,
                Some(event) => format!("comes before its event {} on {}", event.name, event.date),
                None => "is new, and no event in the ledger has it".to_owned(),
            };
            let at = (file.id, &file.package_source);
            report.add(&MAJOR_WITHOUT_EVENT, name.full, at, message, name.full);
        }
    }
    report.findings
}

/// Makes removals of what was deprecated errors, where the ledger says that the window is still open,
/// or does not say since when it was (V-36). Others stay notes.
pub fn windows(
    comparison: &Comparison<'_>,
    findings: &mut [Finding],
    ledger: &Ledger,
    schedule: Schedule,
    today: Date,
) {
    let removed = findings
        .iter_mut()
        .filter(|finding| *finding.rule == DEPRECATED_REMOVED);
    let before = clock::clock(comparison.old, ledger, schedule, today);
    for finding in removed {
        let Some(was) = before.iter().find(|was| was.element == finding.element) else {
            continue;
        };
        if was.phase == Phase::Removable {
            continue;
        }
        finding.severity = Severity::Error;
        finding.message = match was.dates.removable {
            Some(date) => format!("removed while {}; its window ends on {date}", was.phase),
            None => format!(
                "removed while {}, and nothing is planned that ends its window",
                was.phase
            ),
        };
    }
}

/// The packages of a tree that are judged, each with a file, by what their versions have in common.
type Families<'t> = BTreeMap<(&'t str, &'t str), Vec<(PackageName<'t>, &'t File)>>;

fn families(tree: &Tree) -> Families<'_> {
    let mut families = Families::new();
    for file in tree.targets() {
        let name = PackageName::of(&file.package);
        let versions = families.entry(name.family()).or_default();
        if name.version.is_some() && versions.iter().all(|(other, _)| *other != name) {
            versions.push((name, file));
        }
    }
    families
}

fn major(name: &PackageName<'_>) -> u32 {
    name.version.map_or(0, |version| version.major)
}

fn is_stable(name: &PackageName<'_>) -> bool {
    name.version
        .is_some_and(|version| version.stage == Stage::Stable)
}

/// Majors that are not frozen, beyond the two latest stable ones and the next. Where nothing is stable
/// yet there is nothing to support.
fn majors(report: &mut Report<'_>, families: &Families<'_>) {
    let frozen = frozen_by_status(report.tree);
    for packages in families.values() {
        let mut stable: Vec<u32> = packages
            .iter()
            .map(|(name, _)| name)
            .filter(|name| is_stable(name))
            .map(major)
            .collect();
        stable.sort_unstable();
        let Some(latest) = stable.last().copied() else {
            continue;
        };
        let oldest = stable.iter().rev().nth(1).copied().unwrap_or(latest);
        let next = packages
            .iter()
            .map(|(name, _)| major(name))
            .filter(|major| *major > latest)
            .min();
        for (name, file) in packages {
            let lives = match is_stable(name) {
                true => major(name) >= oldest,
                false => major(name) <= latest || Some(major(name)) == next,
            };
            if !lives && !frozen.contains(name.full) {
                let message = format!(
                    "is neither one of the two latest majors of {} nor the next, and not frozen",
                    name.base
                );
                let at = (file.id, &file.package_source);
                report.add(&TOO_MANY_MAJORS, name.full, at, message, name.full);
            }
        }
    }
}

/// Next majors without need, and needs without a next major.
fn alphas(report: &mut Report<'_>, families: &Families<'_>) {
    // The next major of something stable; a first major that is alpha still is none.
    let is_next = |name: &PackageName<'_>, packages: &[(PackageName<'_>, &File)]| {
        let latest = packages
            .iter()
            .map(|(other, _)| other)
            .filter(|other| is_stable(other))
            .map(major)
            .max();
        !is_stable(name) && latest.is_some_and(|latest| major(name) > latest)
    };
    let has_next = |packages: &[(PackageName<'_>, &File)]| {
        packages.iter().any(|(name, _)| is_next(name, packages))
    };
    if !families.values().any(|packages| has_next(packages)) {
        return;
    }
    let tree = report.tree;
    let pending = pending(tree);
    let waiting: BTreeSet<&str> = pending
        .keys()
        .filter_map(|name| Some(&*tree[file_of(tree, name)?].package))
        .collect();
    let waits = |packages: &[(PackageName<'_>, &File)], before: u32| {
        packages
            .iter()
            .any(|(name, _)| major(name) < before && waiting.contains(name.full))
    };
    for packages in families.values() {
        for (name, file) in packages {
            let at = (file.id, &file.package_source);
            if is_next(name, packages) && !waits(packages, major(name)) {
                let message = format!(
                    "is the next major, and no earlier one of {} has anything to break",
                    name.base
                );
                report.add(&ALPHA_UNNEEDED, name.full, at, message, name.full);
            }
            let newest = packages
                .iter()
                .all(|(other, _)| other.version <= name.version);
            if is_stable(name) && newest && waiting.contains(name.full) {
                let message = format!(
                    "has something to break, and there is no v{}alpha",
                    major(name) + 1
                );
                report.add(&ALPHA_MISSING, name.full, at, message, name.full);
            }
        }
    }
}

fn file_of(tree: &Tree, name: &str) -> Option<crate::model::FileId> {
    use crate::model::Symbol;
    Some(match tree.names.get(name)? {
        Symbol::Message(id) => tree[*id].file,
        Symbol::Enum(id) => tree[*id].file,
        Symbol::Service(id) => tree[*id].file,
    })
}
