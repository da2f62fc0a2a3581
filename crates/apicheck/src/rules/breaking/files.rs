//! Packages and files as a whole.
//!
//! A change of an element is one finding. It covers the same change of the elements inside, see
//! [`Covers`].

use std::collections::HashMap;

use crate::compare::{Comparison, Fate, Pair};
use crate::finding::Language;
use crate::model::{File, FileId, MessageId, Source};
use crate::rule::{Category, Compares, Profiles, Rule};
use crate::rules::fact::{ALL, ChangedElement, ElementFacts, Fact};

/// Rules of this file.
pub(super) const RULES: &[&Rule] = &[
    &PACKAGE_REMOVED,
    &PACKAGE_RENAMED,
    &FILE_REMOVED,
    &FILE_MOVED,
];

/// Fate of each file and package, for the elements inside them.
pub(super) struct Covers<'a> {
    files: HashMap<FileId, Pair<&'a File>>,
    packages: HashMap<&'a str, Option<&'a str>>,
}

impl<'a> Covers<'a> {
    pub(super) fn of(comparison: &Comparison<'a>) -> Self {
        let files = comparison.files.iter();
        let packages = comparison.packages.iter();
        Covers {
            files: files
                .filter_map(|pair| Some((pair.before()?.id, *pair)))
                .collect(),
            packages: packages
                .filter_map(|pair| {
                    Some((
                        &**pair.before()?.name,
                        pair.after().map(|package| &**package.name),
                    ))
                })
                .collect(),
        }
    }

    /// Returns whether the finding about a removed file covers its elements.
    pub(super) fn removal(&self, file: FileId) -> bool {
        matches!(self.files.get(&file), Some(Pair::Removed(_)))
    }

    /// Returns whether the finding about a moved file covers an element that is now in `new`.
    pub(super) fn moved(&self, old: FileId, new: FileId) -> bool {
        match self.files.get(&old) {
            Some(Pair::Both {
                new: file, fate, ..
            }) => *fate == Fate::Renamed || file.id == new,
            Some(_) => true,
            None => old == new,
        }
    }

    /// Returns whether a file is now in a package that is not the successor of its old one.
    fn repackaged(&self, old: &File, new: &File) -> bool {
        let expected = self.packages.get(&*old.package).copied().flatten();
        expected.is_some_and(|expected| expected != &*new.package)
    }

    /// Returns whether the finding about a file covers the new full names of its elements.
    pub(super) fn renamed(&self, old: FileId, new: FileId) -> bool {
        let pair = self.files.get(&old).and_then(Pair::both);
        pair.is_some_and(|(earlier, current)| {
            current.id == new && self.repackaged(earlier, current)
        })
    }
}

static PACKAGE_REMOVED: Rule = Rule {
    id: "PACKAGE_REMOVED",
    behaviours: &["V-15", "V-27", "V-36"],
    purpose: "A package is not removed",
    why: "Stored and received messages of the package can no longer be read. An unsupported major is frozen, not deleted.",
    category: Category::Policy,
    profiles: Profiles::ERROR,
    compares: Compares::Pair,
    buf: &["PACKAGE_NO_DELETE", "FILE_NO_DELETE"],
};

/// Returns the findings about packages and files.
pub(super) fn enclosing(comparison: &Comparison<'_>, covers: &Covers<'_>) -> Vec<ElementFacts> {
    let mut found = Vec::new();
    for pair in &comparison.packages {
        let Some(earlier) = pair.before() else {
            continue;
        };
        let old = (earlier.file, &comparison.old[earlier.file].sources.package);
        let fact = match pair {
            // Stable-API policy: a released package stays in the tree (V-15).
            Pair::Removed(_) => Fact::new(
                &PACKAGE_REMOVED,
                "removed with all its contents",
                &**earlier.name,
                "",
            ),
            Pair::Both {
                new,
                fate: Fate::Renamed,
                ..
            } => package_renamed(earlier.name, new.name),
            _ => continue,
        };
        let subject = match pair.after() {
            Some(current) => {
                let new = (current.file, &comparison.new[current.file].sources.package);
                let subject = ChangedElement::of(comparison, &**current.name, Some(old), Some(new));
                subject.formerly(&**earlier.name)
            }
            None => ChangedElement::removed(comparison, &**earlier.name, old, None),
        };
        found.push((subject, vec![fact.breaks(ALL)]));
    }
    for pair in &comparison.files {
        let Some(earlier) = pair.before() else {
            continue;
        };
        if let Some(fact) = file(comparison, covers, *pair) {
            let whole = Source::default();
            let old = (earlier.id, &whole);
            let subject = match pair.after() {
                Some(current) => {
                    let new = Some((current.id, &whole));
                    let subject = ChangedElement::of(comparison, &*current.path, Some(old), new);
                    subject.formerly(&*earlier.path)
                }
                None => match homes(comparison, earlier).as_deref() {
                    Some([home, ..]) => {
                        let new = Some((*home, &whole));
                        ChangedElement::of(comparison, &*earlier.path, Some(old), new)
                    }
                    _ => ChangedElement::removed(comparison, &*earlier.path, old, None),
                },
            };
            found.push((subject, vec![fact]));
        }
    }
    found
}

static PACKAGE_RENAMED: Rule = Rule {
    id: "PACKAGE_RENAMED",
    behaviours: &["V-27"],
    purpose: "A declaration stays in its package",
    why: "Type URLs in `Any` and the paths of gRPC methods contain the package. Annotate `(udpa.annotations.file_migrate).move_to_package`, and the next major makes the change.",
    category: Category::Wire,
    profiles: Profiles::ERROR,
    compares: Compares::Pair,
    buf: &["FILE_SAME_PACKAGE", "PACKAGE_NO_DELETE"],
};

fn package_renamed(earlier: &str, current: &str) -> Fact {
    let fix = format!(
        "keep the package, and write option (udpa.annotations.file_migrate).move_to_package = \"{current}\";"
    );
    let message = format!("package changed from {earlier} to {current}");
    Fact::new(&PACKAGE_RENAMED, message, earlier, current).fix(fix)
}

static FILE_MOVED: Rule = Rule {
    id: "FILE_MOVED",
    behaviours: &["V-30"],
    purpose: "A file keeps its path",
    why: "Imports, C++ includes and Python modules contain it. Keep a file there that imports the new one publicly.",
    category: Category::Source,
    profiles: Profiles::ERROR,
    compares: Compares::Pair,
    buf: &["FILE_NO_DELETE"],
};

fn file(comparison: &Comparison<'_>, covers: &Covers<'_>, pair: Pair<&File>) -> Option<Fact> {
    match pair {
        Pair::Removed(old) => {
            let is_removed = covers.packages.get(&*old.package) == Some(&None);
            (!is_removed).then(|| file_removed(comparison, old))
        }
        Pair::Both { old, new, .. } if covers.repackaged(old, new) => {
            Some(package_renamed(&old.package, &new.package).breaks(ALL))
        }
        Pair::Both {
            old,
            new,
            fate: Fate::Renamed,
        } if old.package == new.package => {
            // A file with a public import of the new path keeps existing imports valid (V-30).
            let message = format!("moved from {} to {}", old.path, new.path);
            let fix = format!("leave {} with `import public \"{}\";`", old.path, new.path);
            let fact = Fact::new(&FILE_MOVED, message, &*old.path, &*new.path);
            Some(fact.breaks(&[Language::Cpp, Language::Python]).fix(fix))
        }
        _ => None,
    }
}

static FILE_REMOVED: Rule = Rule {
    id: "FILE_REMOVED",
    behaviours: &["V-30", "V-36"],
    purpose: "A file is not removed",
    why: "Other files import it, and its declarations disappear.",
    category: Category::Policy,
    profiles: Profiles::ERROR,
    compares: Compares::Pair,
    buf: &[
        "FILE_NO_DELETE",
        "PACKAGE_MESSAGE_NO_DELETE",
        "PACKAGE_ENUM_NO_DELETE",
        "PACKAGE_SERVICE_NO_DELETE",
        "PACKAGE_EXTENSION_NO_DELETE",
    ],
};

fn file_removed(comparison: &Comparison<'_>, old: &File) -> Fact {
    let Some(homes) = homes(comparison, old) else {
        return Fact::new(&FILE_REMOVED, "removed", &*old.path, "").breaks(ALL);
    };
    let paths: Vec<_> = homes.iter().map(|id| &*comparison.new[*id].path).collect();
    let paths = paths.join(", ");
    let message = format!("removed; its declarations moved to {paths}");
    let fact = Fact::new(&FILE_MOVED, message, &*old.path, paths);
    fact.breaks(&[Language::Cpp, Language::Python])
}

/// Returns the files that have the declarations of a removed file now. Returns `None` if one was
/// removed, or if there was none.
fn homes(comparison: &Comparison<'_>, old: &File) -> Option<Vec<FileId>> {
    let message = |id: &MessageId| {
        comparison
            .new_message(*id)
            .map(|id| comparison.new[id].file)
    };
    let homes: Option<Vec<FileId>> = (old.messages.iter().map(message))
        .chain(
            old.enums
                .iter()
                .map(|id| comparison.new_enum(*id).map(|id| comparison.new[id].file)),
        )
        .chain(old.services.iter().map(|id| {
            comparison
                .new_service(*id)
                .map(|id| comparison.new[id].file)
        }))
        .collect();
    let mut homes = homes.filter(|homes| !homes.is_empty())?;
    homes.sort_unstable();
    homes.dedup();
    Some(homes)
}
