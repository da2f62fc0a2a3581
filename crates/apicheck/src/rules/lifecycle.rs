//! Life cycle of packages and elements: number of majors, date of new majors, duration of
//! experiments and deprecations (V-7, V-16 … V-18, V-36, V-46).

use std::collections::{BTreeMap, BTreeSet};

use jiff::civil::Date;

use super::breaking::DEPRECATED_REMOVED;
use super::collector::TreeFindings;
use super::replacement::obstacle;
use crate::bump::{Lock, frozen_by_status};
use crate::clock::{self, Phase, Schedule};
use crate::compare::Comparison;
use crate::experiment::experiments;
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

/// Severity of rules about majors: the profile `envoy-today` has no new majors.
const POLICY_ALONE: Profiles = Profiles {
    policy: Some(Severity::Error),
    envoy_today: None,
};

/// Rules of this file.
pub(super) const RULES: &[&Rule] = &[
    &TOO_MANY_MAJORS,
    &ALPHA_UNNEEDED,
    &ALPHA_MISSING,
    &EXPERIMENTAL_EXPIRED,
    &EXPERIMENTAL_EXPIRING,
    &LEDGER_INCOMPLETE,
    &REPLACEMENT_UNFILLABLE,
    &MAJOR_WITHOUT_EVENT,
];

/// Reports violations that need no ledger.
pub(super) fn find(report: &mut TreeFindings<'_>, lock: Option<&Lock>) {
    let families = families(report.tree);
    majors(report, &families, lock);
    alphas(report, &families);
}

static EXPERIMENTAL_EXPIRED: Rule = policy(
    "EXPERIMENTAL_EXPIRED",
    &["V-7"],
    Compares::Tree,
    Profiles::ERROR,
    "An experimental element is promoted or removed after a limited time",
    "Otherwise users rely on it for years without the guarantees of a stable API. The ledger has its first release and the allowed number of releases.",
);

static EXPERIMENTAL_EXPIRING: Rule = policy(
    "EXPERIMENTAL_EXPIRING",
    &["V-7"],
    Compares::Tree,
    Profiles::WARNING,
    "An experimental element has more than one release left",
    "This is its last release. Promote or remove it before the next one.",
);

static LEDGER_INCOMPLETE: Rule = policy(
    "LEDGER_INCOMPLETE",
    &["V-7", "V-43", "V-46"],
    Compares::Tree,
    Profiles::WARNING,
    "The ledger lists every deprecated and experimental element",
    "Without an entry the deprecation clock does not start, and users do not learn about the replacement. Add `since`, and `replacement` or `no_replacement`.",
);

static REPLACEMENT_UNFILLABLE: Rule = policy(
    "REPLACEMENT_UNFILLABLE",
    &["V-46"],
    Compares::Tree,
    Profiles::WARNING,
    "A translator can fill the replacement of a deprecated element",
    "When a major removes the element, configurations are translated without a person. Choose a replacement of the same type in the same message, name the translation that a person wrote as `translator`, or write `no_replacement`, which extends the window.",
);

/// Reports elements that are experimental or deprecated for too long, according to the ledger.
#[must_use]
pub fn lifecycle(tree: &Tree, profile: Profile, ledger: &Ledger, today: Date) -> Vec<Finding> {
    let mut report = TreeFindings::new(tree, profile);
    for one in experiments(tree, ledger, today) {
        let limit = ledger.experimental_releases;
        let (rule, message) = match one.age {
            None => (
                &LEDGER_INCOMPLETE,
                format!("is {}, but the ledger has no entry for it", one.maturity),
            ),
            // Stable-API policy: experiments are "promoted or removed after bounded time" (V-7).
            Some((since, made)) if made > limit => (
                &EXPERIMENTAL_EXPIRED,
                format!(
                    "is {} since {since}: {made} more releases, {limit} allowed",
                    one.maturity
                ),
            ),
            Some((since, made)) if made == limit => (
                &EXPERIMENTAL_EXPIRING,
                format!(
                    "is {} since {since}: this is its last allowed release",
                    one.maturity
                ),
            ),
            Some(_) => continue,
        };
        report.located(rule, &one.element, one.location, message, "");
    }
    for one in clock::clock(tree, ledger, Schedule::default(), today) {
        if one.replacement.is_none() {
            let message = "is deprecated, but the ledger has no entry for it".to_owned();
            report.located(&LEDGER_INCOMPLETE, &one.element, one.location, message, "");
            continue;
        }
        let entry = ledger.deprecation(&one.element);
        let by_rule = entry.filter(|entry| entry.translator.is_none());
        let replacement = by_rule.and_then(|entry| entry.replacement.as_ref().ok());
        let obstacle = replacement.and_then(|name| obstacle(tree, &one.element, name));
        if let Some(message) = obstacle {
            report.located(
                &REPLACEMENT_UNFILLABLE,
                &one.element,
                one.location,
                message,
                "",
            );
        }
    }
    report.findings
}

static MAJOR_WITHOUT_EVENT: Rule = policy(
    "MAJOR_WITHOUT_EVENT",
    &["V-18"],
    Compares::Pair,
    POLICY_ALONE,
    "A new stable major arrives at an event of the ledger",
    "Operators plan one migration per year. Add the major to the `majors` of an event in the ledger, or keep it alpha until then.",
);

/// Reports new stable majors without an event (V-18). The first major of a package needs none.
#[must_use]
pub fn majors_without_event(
    comparison: &Comparison<'_>,
    profile: Profile,
    ledger: &Ledger,
    today: Date,
) -> Vec<Finding> {
    let mut report = TreeFindings::new(comparison.new, profile);
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
                Some(event) => format!(
                    "is stable before its event {} on {}",
                    event.name, event.date
                ),
                None => "is new, but no event of the ledger lists it".to_owned(),
            };
            let at = (file.id, &file.sources.package);
            report.add(&MAJOR_WITHOUT_EVENT, name.full, at, message, name.full);
        }
    }
    report.findings
}

/// Turns removals of deprecated elements into errors if, according to the ledger, their window is
/// still open or their deprecation has no date (V-36). Other removals stay notes.
pub fn check_removal_windows(
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
        let Some(earlier) = before
            .iter()
            .find(|earlier| earlier.element == finding.element)
        else {
            continue;
        };
        // Stable-API policy: removal is allowed only after the deprecation window (V-36, V-43).
        if earlier.phase == Phase::Removable {
            continue;
        }
        finding.severity = Severity::Error;
        finding.message = match earlier.dates.removable {
            Some(date) => format!(
                "removed too early (phase: {}); removal is allowed from {date}",
                earlier.phase
            ),
            None => format!(
                "removed too early (phase: {}); no planned event allows the removal",
                earlier.phase
            ),
        };
    }
}

/// Versions of each package family among the target files, each with one file.
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

static TOO_MANY_MAJORS: Rule = policy(
    "TOO_MANY_MAJORS",
    &["V-16"],
    Compares::Tree,
    POLICY_ALONE,
    "A package has at most three active majors: two stable ones and the next",
    "Servers and clients must support each active major. Freeze the oldest one, by its status or by `oxds api freeze`: it stays in the tree without support.",
);

/// Reports active majors beyond the two latest stable ones and the next. A package without a stable
/// major has no limit.
fn majors(report: &mut TreeFindings<'_>, families: &Families<'_>, lock: Option<&Lock>) {
    let by_status = frozen_by_status(report.tree);
    let by_lock = |name: &str| lock.is_some_and(|lock| lock.frozen.contains_key(name));
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
            // Stable-API policy: current stable, previous stable and next alpha are supported
            // (V-16).
            let lives = if is_stable(name) {
                major(name) >= oldest
            } else {
                major(name) <= latest || Some(major(name)) == next
            };
            if !lives && !by_status.contains(name.full) && !by_lock(name.full) {
                let message = format!(
                    "is not frozen, and is neither one of the two latest majors of {} nor the next one",
                    name.base
                );
                let at = (file.id, &file.sources.package);
                report.add(&TOO_MANY_MAJORS, name.full, at, message, name.full);
            }
        }
    }
}

static ALPHA_UNNEEDED: Rule = policy(
    "ALPHA_UNNEEDED",
    &["V-17"],
    Compares::Tree,
    POLICY_ALONE,
    "A next major exists only if the stable major has pending breaking changes",
    "A major without changes forces a needless migration. Remove it; the next deprecation creates it again.",
);

static ALPHA_MISSING: Rule = policy(
    "ALPHA_MISSING",
    &["V-17"],
    Compares::Tree,
    POLICY_ALONE,
    "Pending breaking changes of a stable major are in its next major",
    "The rule applies to trees with generated next majors: if one package has a next major, every package with pending breaking changes needs one. Run `oxds api next-major`.",
);

/// Reports next majors without pending changes, and pending changes without a next major.
fn alphas(report: &mut TreeFindings<'_>, families: &Families<'_>) {
    // A first major that is still alpha is not a next major.
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
            let at = (file.id, &file.sources.package);
            // Stable-API policy: a next major exists only for pending breaking changes (V-17).
            if is_next(name, packages) && !waits(packages, major(name)) {
                let message = format!(
                    "is the next major, but no earlier major of {} has pending breaking changes",
                    name.base
                );
                report.add(&ALPHA_UNNEEDED, name.full, at, message, name.full);
            }
            let newest = packages
                .iter()
                .all(|(other, _)| other.version <= name.version);
            if is_stable(name) && newest && waiting.contains(name.full) {
                let message = format!(
                    "has pending breaking changes, but there is no v{}alpha",
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
