//! Version of a whole tree (`suggest-version`).

use semver::Version;

use super::required::{broken_files, class_of, is_breaking};
use super::version::Class;
use crate::finding::Finding;
use crate::hash::Hashes;
use crate::model::Tree;

/// Next version of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Suggestion {
    /// Size of the change; `None` without a change.
    pub class: Option<Class>,
    /// Next version; `None` without a change, or if the current version is unknown.
    pub next: Option<Version>,
    /// Number of files per class, the largest class first.
    pub files: Vec<(Class, usize)>,
}

/// Applies semantic versioning to the tree as one package: breaking changes are major, additions
/// are minor, changes of options only are patches. Below 1.0.0 each step is one position smaller.
#[must_use]
pub fn suggest(
    old: (&Tree, &Hashes),
    new: (&Tree, &Hashes),
    findings: &[Finding],
    current: Option<&Version>,
) -> Suggestion {
    let broken = broken_files(findings);
    let mut classes: Vec<Class> = Vec::new();
    for file in new.0.targets() {
        let class = match (old.1.file(&file.path), new.1.file(&file.path)) {
            (Some(before), Some(now)) => class_of(before, now, broken.contains(&*file.display)),
            _ => Some(Class::Minor),
        };
        classes.extend(class);
    }
    // A removed element is in no file of the new tree.
    if findings.iter().any(is_breaking) && !classes.contains(&Class::Major) {
        classes.push(Class::Major);
    }
    let class = classes.iter().max().copied();
    let files = [Class::Major, Class::Minor, Class::Patch]
        .map(|of| (of, classes.iter().filter(|class| **class == of).count()))
        .into_iter()
        .filter(|(_, count)| *count > 0)
        .collect();
    Suggestion {
        class,
        next: current
            .zip(class)
            .map(|(current, class)| step(current, class)),
        files,
    }
}

fn step(current: &Version, class: Class) -> Version {
    match (current.major, class) {
        (0, Class::Major) => Class::Minor.next(current),
        (0, _) => Class::Patch.next(current),
        _ => class.next(current),
    }
}
