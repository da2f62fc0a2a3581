//! What packages may use (V-8 … V-13).

use std::collections::{BTreeMap, HashMap};

use super::lint::Report;
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

pub(super) static STABLE_USES_UNSTABLE: Rule = policy(
    "STABLE_USES_UNSTABLE",
    &["V-8"],
    "What is stable uses nothing that is not",
    "A promise that rests on something without one is none: when the alpha changes, so does the stable message that holds it.",
    &["STABLE_PACKAGE_NO_IMPORT_UNSTABLE"],
);
pub(super) static STABLE_REACHES_UNSTABLE: Rule = policy(
    "STABLE_REACHES_UNSTABLE",
    &["V-9"],
    "What is stable uses nothing that is not, through others either",
    "The promise breaks at the far end of the chain all the same. Mend the first link that is unstable.",
    &[],
);
pub(super) static MAJOR_USES_PREVIOUS: Rule = policy(
    "MAJOR_USES_PREVIOUS",
    &["V-10"],
    "A major does not use an earlier one of itself",
    "The earlier one is frozen, then dropped, and would take the later one along. Copy what is needed.",
    &[],
);
pub(super) static LATEST_USES_OLD: Rule = policy(
    "LATEST_USES_OLD",
    &["V-11"],
    "The latest stable version of a package uses the latest stable versions of others",
    "Otherwise servers support every version that somebody still points to. Catch up at the next release of the API.",
    &[],
);
pub(super) static TWO_VERSIONS_OF_ONE: Rule = policy(
    "TWO_VERSIONS_OF_ONE",
    &["V-12"],
    "All that a package uses, through others too, has one version of each package",
    "With two, one resource holds one thing in two shapes that do not fit each other (the one-definition rule).",
    &[],
);
pub(super) static PACKAGE_CYCLE: Rule = policy(
    "PACKAGE_CYCLE",
    &["V-13"],
    "Packages do not use each other in a circle",
    "None of them can get a new major without all the others.",
    &["PACKAGE_NO_IMPORT_CYCLE"],
);

pub(super) const RULES: &[&Rule] = &[
    &STABLE_USES_UNSTABLE,
    &STABLE_REACHES_UNSTABLE,
    &MAJOR_USES_PREVIOUS,
    &LATEST_USES_OLD,
    &TWO_VERSIONS_OF_ONE,
    &PACKAGE_CYCLE,
];

pub(super) fn find(report: &mut Report<'_>) {
    let uses = uses(report.tree);
    direct(report, &uses);
    let graph = Graph::with(report.tree, &uses);
    transitive(report, &graph);
    latest(report, &graph);
    definitions(report, &graph);
    cycles(report, &graph);
}

pub(super) fn one_definition(report: &mut Report<'_>) {
    let graph = Graph::of(report.tree);
    definitions(report, &graph);
}

/// Uses of what is less stable, and of an earlier major of the same package.
fn direct(report: &mut Report<'_>, uses: &[Use<'_>]) {
    let tree = report.tree;
    let files = tree.files.iter();
    let maturities: Vec<_> = files.map(|file| maturity::of_file(tree, file)).collect();
    let maturity = |file: FileId| maturities[file.0 as usize];
    for one in uses.iter().filter(|one| tree[one.from].target) {
        let at = (one.from, one.source);
        let user = user_maturity(report, one, maturity(one.from));
        let used = maturity(one.to);
        if user == Maturity::Stable && used != Maturity::Stable {
            let message = format!("uses {}, which is {used}", one.used);
            report.add(&STABLE_USES_UNSTABLE, &one.element(), at, message, one.used);
        }
        let (from, to) = (&tree[one.from].package, &tree[one.to].package);
        let (from, to) = (PackageName::of(from), PackageName::of(to));
        if let (Some(newer), Some(older)) = (from.version, to.version)
            && from.family() == to.family()
            && older < newer
        {
            let message = format!("uses {} of {older} of its own package", one.used);
            report.add(&MAJOR_USES_PREVIOUS, &one.element(), at, message, one.used);
        }
    }
}

/// A field or message in a stable file may be work in progress itself.
fn user_maturity(report: &Report<'_>, one: &Use<'_>, file: Maturity) -> Maturity {
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

/// Stable packages that reach an alpha or beta one through others. The last step is a direct use of
/// something else, which has its own finding when that is stable.
fn transitive(report: &mut Report<'_>, graph: &Graph<'_>) {
    for (start, package) in graph.packages.iter().enumerate() {
        if !package.target || package.name.is_unstable() {
            continue;
        }
        let before = graph.reach(start, |at| !graph.packages[at].name.is_unstable());
        for (&end, &last) in &before {
            if last != start && graph.packages[end].name.is_unstable() {
                let message = format!("reaches {}", graph.path(&before, end));
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

/// Uses of a stable version that has a successor, by the latest stable version of a package.
fn latest(report: &mut Report<'_>, graph: &Graph<'_>) {
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
            if let (Some(version), Some(newest)) = (used.version, newest)
                && version.stage == Stage::Stable
                && version < *newest
                && used.family() != package.name.family()
            {
                let message = format!("uses {} of {}, which has {newest}", first.used, used.full);
                let at = (first.from, first.source);
                report.add(&LATEST_USES_OLD, &first.element(), at, message, used.full);
            }
        }
    }
}

/// Two versions of one package among all that a package uses, itself included.
fn definitions(report: &mut Report<'_>, graph: &Graph<'_>) {
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
            if let Some(first) = seen.insert(name.family(), at) {
                // A direct use of another version of itself is told at the use.
                let own = |one: usize, other: usize| one == start && before[&other] == start;
                if own(first, at) || own(at, first) {
                    continue;
                }
                let paths = [first, at].map(|at| graph.path(&before, at));
                let message = format!("has two versions of {}: {}", name.base, paths.join(" and "));
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

fn cycles(report: &mut Report<'_>, graph: &Graph<'_>) {
    for cycle in graph.cycles() {
        let Some(&start) = cycle.first() else {
            continue;
        };
        let names: Vec<_> = cycle
            .iter()
            .map(|at| graph.packages[*at].name.full)
            .collect();
        if cycle.iter().any(|at| graph.packages[*at].target) {
            let message = format!("in a circle: {} -> {}", names.join(" -> "), names[0]);
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
    report: &mut Report<'_>,
    graph: &Graph<'_>,
    rule: &'static Rule,
    package: usize,
    message: String,
    value: &str,
) {
    let package = &graph.packages[package];
    let at = (package.file, &report.tree[package.file].package_source);
    report.add(rule, package.name.full, at, message, value);
}
