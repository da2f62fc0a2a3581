//! Dependencies that packages may have (V-8 … V-13).

use std::collections::{BTreeMap, HashMap};

use super::collector::TreeFindings;
use crate::graph::{Graph, Use, uses};
use crate::maturity::{self, Maturity};
use crate::model::FileId;
use crate::package::{PackageName, Stage, Version};
use crate::rule::{Category, Compares, Profiles, Rule};

const fn policy(
    id: &'static str,
    behaviours: &'static [&'static str],
    purpose: &'static str,
    why: &'static str,
    buf: &'static [&'static str],
) -> Rule {
    Rule {
        id,
        behaviours,
        purpose,
        why,
        category: Category::Policy,
        profiles: Profiles::ERROR,
        compares: Compares::Tree,
        buf,
    }
}

/// Rules of this file.
pub(super) const RULES: &[&Rule] = &[
    &STABLE_USES_UNSTABLE,
    &STABLE_REACHES_UNSTABLE,
    &MAJOR_USES_PREVIOUS,
    &LATEST_USES_OLD,
    &TWO_VERSIONS_OF_ONE,
    &PACKAGE_CYCLE,
];

pub(super) fn find(report: &mut TreeFindings<'_>) {
    let uses = uses(report.tree);
    direct(report, &uses);
    let graph = Graph::with(report.tree, &uses);
    transitive(report, &graph);
    latest(report, &graph);
    definitions(report, &graph, Own::Reported);
    cycles(report, &graph);
}

pub(super) fn one_definition(report: &mut TreeFindings<'_>) {
    let graph = Graph::of(report.tree);
    definitions(report, &graph, Own::Unreported);
}

static STABLE_USES_UNSTABLE: Rule = policy(
    "STABLE_USES_UNSTABLE",
    &["V-8"],
    "A stable element uses stable types only",
    "An alpha type may change at any time, and the stable message that uses it changes with it.",
    &["STABLE_PACKAGE_NO_IMPORT_UNSTABLE"],
);

static MAJOR_USES_PREVIOUS: Rule = policy(
    "MAJOR_USES_PREVIOUS",
    &["V-10"],
    "A major does not use an earlier major of its package",
    "The earlier major is frozen and later removed, which would break the later one. Copy the needed types.",
    &[],
);

/// Reports uses of less stable types, and of an earlier major of the same package.
fn direct(report: &mut TreeFindings<'_>, uses: &[Use<'_>]) {
    let tree = report.tree;
    let files = tree.files.iter();
    let maturities: Vec<_> = files.map(|file| maturity::of_file(tree, file)).collect();
    let maturity = |file: FileId| maturities[file.0 as usize];
    for one in uses.iter().filter(|one| tree[one.from].target) {
        let at = (one.from, one.source);
        let user = user_maturity(report, one, maturity(one.from));
        let used = maturity(one.to);
        // Stable-API policy: a stable element must not depend on an experimental one (V-8).
        if user == Maturity::Stable && used != Maturity::Stable {
            let message = format!("uses {}, which is {used}", one.used);
            report.add(&STABLE_USES_UNSTABLE, &one.element(), at, message, one.used);
        }
        let (from, to) = (&tree[one.from].package, &tree[one.to].package);
        let (from, to) = (PackageName::of(from), PackageName::of(to));
        // Stable-API policy: v(N+1) must not reference vN of its own package (V-10).
        if let (Some(newer), Some(older)) = (from.version, to.version)
            && from.family() == to.family()
            && older.major < newer.major
        {
            let message = format!("uses {} of {older} of its own package", one.used);
            report.add(&MAJOR_USES_PREVIOUS, &one.element(), at, message, one.used);
        }
    }
}

/// Returns the maturity of the using element: a field or message in a stable file may be work in
/// progress itself.
fn user_maturity(report: &TreeFindings<'_>, one: &Use<'_>, file: Maturity) -> Maturity {
    let tree = report.tree;
    let element = one.element();
    let owner = element.rsplit_once('.').map_or("", |(owner, _)| owner);
    let name = element.rsplit('.').next().unwrap_or_default();
    let Some(message) = tree.message(owner) else {
        return file;
    };
    match message.field_by_name(name) {
        Some(field) => maturity::of_field(tree, message, field),
        None => file,
    }
}

static STABLE_REACHES_UNSTABLE: Rule = policy(
    "STABLE_REACHES_UNSTABLE",
    &["V-9"],
    "A stable package has no indirect dependency on an unstable one",
    "A change at the end of the chain still breaks the stable package. Fix the first unstable link.",
    &[],
);

/// Reports stable packages with an indirect dependency on an alpha or beta package. The last step
/// is a direct use by another package, which has its own finding if that package is stable.
fn transitive(report: &mut TreeFindings<'_>, graph: &Graph<'_>) {
    for (start, package) in graph.packages.iter().enumerate() {
        if !package.target || package.name.is_unstable() {
            continue;
        }
        // A path ends at its first unstable package, whose users have their own findings (V-9).
        let before = graph.reach(start, |at| !graph.packages[at].name.is_unstable());
        for (&end, &last) in &before {
            if last != start && graph.packages[end].name.is_unstable() {
                let message = format!("indirect dependency: {}", graph.path(&before, end));
                let name = graph.packages[end].name.full;
                package_finding(
                    report,
                    graph,
                    &STABLE_REACHES_UNSTABLE,
                    start,
                    message,
                    name,
                );
            }
        }
    }
}

static LATEST_USES_OLD: Rule = policy(
    "LATEST_USES_OLD",
    &["V-11"],
    "The latest stable version of a package uses the latest stable versions of others",
    "Otherwise servers must support every version that is still referenced. Update at the next release of the API.",
    &[],
);

/// Reports uses of a superseded stable version by the latest stable version of a package.
fn latest(report: &mut TreeFindings<'_>, graph: &Graph<'_>) {
    let mut latest: HashMap<(&str, &str), Version> = HashMap::new();
    for package in &graph.packages {
        if let Some(version) = package
            .name
            .version
            .filter(|one| one.stage == Stage::Stable)
        {
            let newest = latest.entry(package.name.family()).or_insert(version);
            *newest = version.max(*newest);
        }
    }
    let is_latest = |name: &PackageName<'_>| latest.get(&name.family()).copied() == name.version;
    for package in graph
        .packages
        .iter()
        .filter(|one| one.target && is_latest(&one.name))
    {
        if package.name.version.is_none() {
            continue;
        }
        for (&used, first) in &package.uses {
            let used = &graph.packages[used].name;
            let newest = latest.get(&used.family());
            // Stable-API policy: the latest version depends on latest versions (V-11).
            if let (Some(version), Some(newest)) = (used.version, newest)
                && version.stage == Stage::Stable
                && version < *newest
                && used.family() != package.name.family()
            {
                let message = format!(
                    "uses {} of {}; the latest version is {newest}",
                    first.used, used.full
                );
                let at = (first.from, first.source);
                report.add(&LATEST_USES_OLD, &first.element(), at, message, used.full);
            }
        }
    }
}

static TWO_VERSIONS_OF_ONE: Rule = policy(
    "TWO_VERSIONS_OF_ONE",
    &["V-12"],
    "A package depends, directly and indirectly, on one version of each package",
    "With two versions, one resource contains the same type in two incompatible forms (the one-definition rule).",
    &[],
);

/// Handling of a direct use of an earlier major of the same package.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Own {
    /// The use has its own finding (V-10).
    Reported,
    /// No other rule runs.
    Unreported,
}

/// Reports two versions of one package among all dependencies of a package, itself included.
fn definitions(report: &mut TreeFindings<'_>, graph: &Graph<'_>, own: Own) {
    for (start, package) in graph.packages.iter().enumerate() {
        if !package.target {
            continue;
        }
        let before = graph.reach(start, |_| true);
        let mut seen: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        for &at in before.keys() {
            let name = &graph.packages[at].name;
            if name.version.is_none() {
                continue;
            }
            // One-definition rule: one version of each package in the transitive closure (V-12).
            if let Some(first) = seen.insert(name.family(), at) {
                let major = |at: usize| graph.packages[at].name.version.map(|one| one.major);
                let is_reported = |one: usize, other: usize| {
                    one == start && before[&other] == start && major(other) < major(one)
                };
                if own == Own::Reported && (is_reported(first, at) || is_reported(at, first)) {
                    continue;
                }
                let paths = [first, at].map(|at| graph.path(&before, at));
                let message = match paths.iter().find(|path| path.contains(" -> ")) {
                    Some(path) if first == start || at == start => {
                        format!("depends on another version of itself: {path}")
                    }
                    _ => format!(
                        "depends on two versions of {}: {}",
                        name.base,
                        paths.join(" and ")
                    ),
                };
                package_finding(
                    report,
                    graph,
                    &TWO_VERSIONS_OF_ONE,
                    start,
                    message,
                    name.base,
                );
            }
        }
    }
}

static PACKAGE_CYCLE: Rule = policy(
    "PACKAGE_CYCLE",
    &["V-13"],
    "Packages have no dependency cycle",
    "No package of a cycle can get a new major without all the others.",
    &["PACKAGE_NO_IMPORT_CYCLE"],
);

fn cycles(report: &mut TreeFindings<'_>, graph: &Graph<'_>) {
    for cycle in graph.cycles() {
        let Some(&start) = cycle.first() else {
            continue;
        };
        let names: Vec<_> = cycle
            .iter()
            .map(|at| graph.packages[*at].name.full)
            .collect();
        // Stable-API policy: the package graph is acyclic (V-13).
        if cycle.iter().any(|at| graph.packages[*at].target) {
            let message = format!("dependency cycle: {} -> {}", names.join(" -> "), names[0]);
            package_finding(
                report,
                graph,
                &PACKAGE_CYCLE,
                start,
                message,
                &names.join(", "),
            );
        }
    }
}

fn package_finding(
    report: &mut TreeFindings<'_>,
    graph: &Graph<'_>,
    rule: &'static Rule,
    package: usize,
    message: String,
    value: &str,
) {
    let package = &graph.packages[package];
    let at = (package.file, &report.tree[package.file].sources.package);
    report.add(rule, package.name.full, at, message, value);
}
