//! The version of a whole tree (`suggest-version`).

use semver::Version;

use super::judge::{broken_files, class_of, is_breaking};
use super::version::Class;
use crate::finding::Finding;
use crate::hash::Hashes;
use crate::model::Tree;

/// What the next version of a tree must tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suggestion {
    /// How much changed; none when nothing did.
    pub class: Option<Class>,
    /// The next version; none when nothing changed, or when the present one was not given.
    pub next: Option<Version>,
    /// How many files of each class there are, the greatest class first.
    pub files: Vec<(Class, usize)>,
}

/// Semantic versioning for the tree as one package: what breaks is major, what is added is minor,
/// what only touches options is a patch. Below 1.0.0 each step is one place smaller.
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
    // What is gone is in no file of the new tree.
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
