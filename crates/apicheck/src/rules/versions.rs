//! File versions that must follow changes (V-22), and frozen packages (V-14).

use crate::bump::{self, Bump, Class, Lock, Problem, VersionedTree};
use crate::finding::{Finding, Location, Severity};
use crate::model::{File, FileSpan, Tree};
use crate::rule::{Category, Compares, Profiles, Rule};

/// Rules of this file.
pub(super) const RULES: &[&Rule] = &[&NOT_BUMPED, &BUMPED_WITHOUT_CHANGE, &FROZEN_CHANGED];

const fn rule(
    id: &'static str,
    behaviours: &'static [&'static str],
    purpose: &'static str,
    why: &'static str,
) -> Rule {
    Rule {
        id,
        behaviours,
        purpose,
        why,
        category: Category::Policy,
        profiles: Profiles::ERROR,
        compares: Compares::Pair,
        buf: &[],
    }
}

/// A file changed, but its version did not.
pub const NOT_BUMPED: Rule = rule(
    "FILE_VERSION_NOT_BUMPED",
    &["V-21", "V-22"],
    "A changed file has a higher version",
    "Clients and servers exchange the versions of the files that they know, and choose fields by \
     them. With an unchanged version, two different files have the same identity. \
     `oxds api bump --fix` writes the version.",
);

/// The version of a file changed, but the file did not.
pub const BUMPED_WITHOUT_CHANGE: Rule = rule(
    "FILE_VERSION_BUMPED_WITHOUT_CHANGE",
    &["V-22"],
    "A file keeps its version if its meaning did not change",
    "A new version without a change makes clients of the old version look outdated. Comments, formatting and \
     language options are not changes.",
);

/// A package changed after it was frozen.
pub const FROZEN_CHANGED: Rule = rule(
    "FROZEN_PACKAGE_CHANGED",
    &["V-14"],
    "A frozen package does not change in meaning",
    "The previous major stays as released, because its remaining users rely on \
     it. Make the change in the current major. Comments and formatting may change.",
);

/// Reports wrong file versions, compared with the old tree and with the lock of the new tree.
#[must_use]
pub fn find(
    old: VersionedTree<'_>,
    new: VersionedTree<'_>,
    lock: Option<&Lock>,
    breaking: &[Finding],
) -> Vec<Finding> {
    let mut bumps = bump::bumps(old, new, breaking);
    if let Some(lock) = lock {
        bumps.extend(bump::stale(new, lock, &bumps));
    }
    bumps
        .iter()
        .filter_map(|bump| finding(old.tree, new.tree, bump))
        .collect()
}

fn finding(old: &Tree, new: &Tree, bump: &Bump) -> Option<Finding> {
    let file = new.file(&bump.path)?;
    let earlier = old.file(&bump.path);
    let (rule, message, from) = described(bump)?;
    let to = bump.to.as_ref().map(ToString::to_string);
    Some(Finding {
        rule,
        severity: Severity::Error,
        element: bump.path.clone(),
        old_element: None,
        message,
        old_value: from,
        new_value: to.clone().unwrap_or_default(),
        old: earlier.map(|file| place(old, file)),
        new: Some(place(new, file)),
        languages: Default::default(),
        fix: to.map(|to| format!("set the version to {to} (`oxds api bump --fix` does this)")),
        exempt: None,
    })
}

/// Returns the rule, the message, and the current version of the file. Returns `None` if other
/// rules report the problem.
fn described(bump: &Bump) -> Option<(&'static Rule, String, String)> {
    Some(match &bump.problem {
        Problem::Missing {
            class,
            earlier,
            current,
        } => {
            let what = match class {
                Class::Patch => "options changed",
                Class::Minor | Class::Major => "declarations changed",
            };
            let moved = if earlier == current {
                format!("the version is still {current}")
            } else {
                format!("the version only changed from {earlier} to {current}")
            };
            (
                &NOT_BUMPED,
                format!("{what}, but {moved}"),
                current.to_string(),
            )
        }
        Problem::Needless { earlier, current } => (
            &BUMPED_WITHOUT_CHANGE,
            format!(
                "the version changed from {earlier} to {current}, but the meaning did not change"
            ),
            current.to_string(),
        ),
        // The breaking change has its own findings, and a new version does not fix it.
        Problem::NewMajor { .. } => return None,
        Problem::Unversioned => (
            &NOT_BUMPED,
            "the file has no version, although other files of the tree have one".to_owned(),
            String::new(),
        ),
        Problem::Malformed(text) => (
            &NOT_BUMPED,
            format!("malformed version `{text}`: expected major.minor.patch"),
            text.clone(),
        ),
        Problem::Stale => (
            &NOT_BUMPED,
            "the lock has another hash for this version: the file changed after the bump"
                .to_owned(),
            String::new(),
        ),
    })
}

/// Reports changed packages that are frozen by the status in the old tree or by the lock.
#[must_use]
pub fn frozen(old: VersionedTree<'_>, new: VersionedTree<'_>, lock: Option<&Lock>) -> Vec<Finding> {
    // Stable-API policy: the previous major is frozen; comments may still change (V-14).
    let by_status = bump::frozen_by_status(old.tree)
        .into_iter()
        .filter_map(|package| {
            let earlier = old.hashes.packages().get(package)?;
            let current = new.hashes.packages().get(package)?;
            (earlier != current)
                .then(|| (package.to_owned(), earlier.to_string(), current.to_string()))
        });
    let by_lock = lock
        .into_iter()
        .flat_map(|lock| bump::changed_since_freeze(new.hashes, lock))
        .map(|change| {
            let now = change.now.map(|now| now.to_string()).unwrap_or_default();
            (change.package, change.frozen.to_string(), now)
        });
    let mut changed: Vec<(String, String, String)> = by_status.chain(by_lock).collect();
    changed.sort_unstable();
    changed.dedup_by(|a, b| a.0 == b.0);
    changed
        .into_iter()
        .map(|(package, earlier, current)| frozen_finding(old, new, package, earlier, current))
        .collect()
}

fn frozen_finding(
    old: VersionedTree<'_>,
    new: VersionedTree<'_>,
    package: String,
    earlier: String,
    current: String,
) -> Finding {
    let changed = |file: &&File| {
        let before = old.hashes.file(&file.path).map(|hash| hash.local);
        before != new.hashes.file(&file.path).map(|hash| hash.local)
    };
    let mut files = new.tree.targets().filter(|file| *file.package == *package);
    let first = files.find(changed);
    let message = match first {
        Some(file) => format!("frozen package changed, first in {}", file.path),
        None => "frozen package changed".to_owned(),
    };
    Finding {
        rule: &FROZEN_CHANGED,
        severity: Severity::Error,
        element: package,
        old_element: None,
        message,
        old_value: earlier,
        new_value: current,
        old: first
            .and_then(|file| old.tree.file(&file.path))
            .map(|file| place(old.tree, file)),
        new: first.map(|file| place(new.tree, file)),
        languages: Default::default(),
        fix: None,
        exempt: None,
    }
}

fn place(tree: &Tree, file: &File) -> Location {
    let span = file.sources.package.span;
    Location::of(
        tree,
        FileSpan {
            file: file.id,
            span,
        },
    )
}
