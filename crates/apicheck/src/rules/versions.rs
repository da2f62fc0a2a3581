//! Versions of files that must follow their changes (V-22), and packages that are frozen (V-14).

use crate::bump::{self, Bump, Class, Lock, Problem, Side};
use crate::finding::{Finding, Location, Severity};
use crate::model::{File, Place, Tree};
use crate::rule::{Category, Compares, Profiles, Rule};

/// The table of this group.
pub(crate) const RULES: &[&Rule] = &[&NOT_BUMPED, &BUMPED_WITHOUT_CHANGE, &FROZEN_CHANGED];

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

/// The version of a file does not follow its change.
pub const NOT_BUMPED: Rule = rule(
    "FILE_VERSION_NOT_BUMPED",
    &["V-21", "V-22"],
    "A file that changed has a higher version",
    "Clients and servers tell each other the versions of the files they know, and choose fields by \
     them. A change under an unchanged version makes two different files claim to be one. \
     `oxds api bump --fix` writes the version.",
);

/// The version of a file changed alone.
pub const BUMPED_WITHOUT_CHANGE: Rule = rule(
    "FILE_VERSION_BUMPED_WITHOUT_CHANGE",
    &["V-22"],
    "A file whose meaning did not change keeps its version",
    "A version without a change makes a client look older than it is. Comments, formatting and \
     language options are no change.",
);

/// A frozen package changed.
pub const FROZEN_CHANGED: Rule = rule(
    "FROZEN_PACKAGE_CHANGED",
    &["V-14"],
    "A frozen package does not change in meaning",
    "The previous major stays as it was released, so that those who are still on it can rely on \
     it. Make the change in the current major. Comments and formatting may change.",
);

/// What is wrong with the versions of files: against the old tree, and in the lock of the new one.
#[must_use]
pub fn find(
    old: Side<'_>,
    new: Side<'_>,
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
    let was = old.file(&bump.path);
    let (rule, message, from) = told(bump)?;
    let to = bump.to.as_ref().map(ToString::to_string);
    Some(Finding {
        rule,
        severity: Severity::Error,
        element: bump.path.clone(),
        message,
        old_value: from,
        new_value: to.clone().unwrap_or_default(),
        old: was.map(|file| place(old, file)),
        new: Some(place(new, file)),
        languages: Default::default(),
        fix: to.map(|to| format!("set the version to {to}: `oxds api bump --fix` does")),
        exempt: None,
    })
}

/// The rule, the sentence, and the version that the file has; none when others tell it.
fn told(bump: &Bump) -> Option<(&'static Rule, String, String)> {
    Some(match &bump.problem {
        Problem::Missing { class, was, is } => {
            let what = match class {
                Class::Patch => "options changed",
                Class::Minor | Class::Major => "declarations changed",
            };
            let moved = if was == is {
                format!("the version is still {is}")
            } else {
                format!("the version went from {was} to {is} only")
            };
            (&NOT_BUMPED, format!("{what}, but {moved}"), is.to_string())
        }
        Problem::Needless { was, is } => (
            &BUMPED_WITHOUT_CHANGE,
            format!("the version went from {was} to {is}, but nothing changed in meaning"),
            is.to_string(),
        ),
        // What broke has findings of its own, and no version mends it.
        Problem::NewMajor { .. } => return None,
        Problem::Unversioned => (
            &NOT_BUMPED,
            "the file has no version, though others of the tree have".to_owned(),
            String::new(),
        ),
        Problem::Malformed(text) => (
            &NOT_BUMPED,
            format!("`{text}` is no version: major.minor.patch is"),
            text.clone(),
        ),
        Problem::Stale => (
            &NOT_BUMPED,
            "the lock has the hash of another text for this version".to_owned(),
            String::new(),
        ),
    })
}

/// Frozen packages that changed: those that the old tree calls frozen, and those of the lock.
#[must_use]
pub fn frozen(old: Side<'_>, new: Side<'_>, lock: Option<&Lock>) -> Vec<Finding> {
    let by_status = bump::frozen_by_status(old.tree)
        .into_iter()
        .filter_map(|package| {
            let was = old.hashes.packages().get(package)?;
            let is = new.hashes.packages().get(package)?;
            (was != is).then(|| (package.to_owned(), was.to_string(), is.to_string()))
        });
    let by_lock = lock
        .into_iter()
        .flat_map(|lock| bump::changed_since_freeze(new.hashes, lock))
        .map(|change| {
            let now = change.now.map(|now| now.to_string()).unwrap_or_default();
            (change.package, change.frozen.to_string(), now)
        });
    let mut changed: Vec<(String, String, String)> = by_status.chain(by_lock).collect();
    changed.sort();
    changed.dedup_by(|a, b| a.0 == b.0);
    changed
        .into_iter()
        .map(|(package, was, is)| frozen_finding(old, new, package, was, is))
        .collect()
}

fn frozen_finding(
    old: Side<'_>,
    new: Side<'_>,
    package: String,
    was: String,
    is: String,
) -> Finding {
    let changed = |file: &&File| {
        let before = old.hashes.file(&file.path).map(|hash| hash.local);
        before != new.hashes.file(&file.path).map(|hash| hash.local)
    };
    let mut files = new.tree.targets().filter(|file| *file.package == *package);
    let first = files.find(changed);
    let message = match first {
        Some(file) => format!("a frozen package changed, first in {}", file.path),
        None => "a frozen package changed".to_owned(),
    };
    Finding {
        rule: &FROZEN_CHANGED,
        severity: Severity::Error,
        element: package,
        message,
        old_value: was,
        new_value: is,
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
    let span = file.package_source.span;
    Location::of(
        tree,
        Place {
            file: file.id,
            span,
        },
    )
}
