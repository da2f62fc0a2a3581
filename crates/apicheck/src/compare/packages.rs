//! Pairs of packages.
//!
//! A package whose name disappeared is renamed if a new package has its contents. Two versions of
//! one package have similar contents by design, and unrelated packages repeat common messages.
//! Neither is a rename.

use std::collections::{BTreeMap, HashMap};

use super::declared::{Characteristic, Declared as _, short};
use super::pair::{Fate, Pair};
use super::similarity::pair_if;
use crate::model::{FileId, Name, Tree};
use crate::package::PackageName;

/// Fewer characteristics are no evidence of a rename: small packages are equal by chance.
const MIN_CHARACTERISTICS: usize = 5;

/// Package of a compared tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ComparedPackage<'a> {
    /// Name of the package; empty for files without one.
    pub name: &'a Name,
    /// First file of the package.
    pub file: FileId,
}

/// Packages of a tree with their files.
type Packages<'a> = BTreeMap<&'a Name, Vec<FileId>>;

fn packages(tree: &Tree) -> Packages<'_> {
    let mut packages = Packages::new();
    for file in &tree.files {
        packages.entry(&file.package).or_default().push(file.id);
    }
    packages
}

/// Pairs packages by name, then the remaining ones by their contents.
pub(super) fn pairs<'a>(old_tree: &'a Tree, new_tree: &'a Tree) -> Vec<Pair<ComparedPackage<'a>>> {
    let (old, new) = (packages(old_tree), packages(new_tree));
    let unpaired = |these: &Packages<'a>, those: &Packages<'a>| -> Vec<_> {
        let unpaired = these.keys().filter(|name| !those.contains_key(*name));
        unpaired.copied().collect()
    };
    let (removed, added) = (unpaired(&old, &new), unpaired(&new, &old));
    let contents = |tree: &'a Tree, packages: &Packages<'a>, names: &[&'a Name]| -> Vec<_> {
        let all = names.iter().map(|name| contents(tree, &packages[name]));
        all.collect()
    };
    let (before, now) = (
        contents(old_tree, &old, &removed),
        contents(new_tree, &new, &added),
    );
    let renamed: HashMap<_, _> = pair_if(&before, &now, |index, other, shared| {
        let sizes = (before[index].len(), now[other].len());
        is_renamed((removed[index], added[other]), sizes, shared)
    })
    .into_iter()
    .map(|(index, other)| (removed[index], added[other]))
    .collect();
    let package = |packages: &Packages<'a>, name: &'a Name| ComparedPackage {
        name,
        file: packages[name][0],
    };
    let earlier = old.keys().map(|&name| {
        let (new_name, fate) = match renamed.get(name) {
            Some(&renamed) => (renamed, Fate::Renamed),
            None if new.contains_key(name) => (name, Fate::Kept),
            None => return Pair::Removed(package(&old, name)),
        };
        Pair::Both {
            old: package(&old, name),
            new: package(&new, new_name),
            fate,
        }
    });
    let current = added
        .iter()
        .filter(|name| !renamed.values().any(|new| new == *name));
    earlier
        .chain(current.map(|&name| Pair::Added(package(&new, name))))
        .collect()
}

/// Returns whether a removed package is the added one under another name. `shared` of their
/// characteristics are equal.
///
/// Our choice: if the last part of the name stays, half of the contents is enough on both sides. A
/// package with an entirely new name must have nearly the same contents.
fn is_renamed((old, new): (&str, &str), sizes: (usize, usize), shared: usize) -> bool {
    let (earlier, current) = (PackageName::of(old), PackageName::of(new));
    // Stable-API policy: another version is another package, wherever the version stands (V-15).
    if earlier.version != current.version || sizes.0.min(sizes.1) < MIN_CHARACTERISTICS {
        return false;
    }
    let larger = sizes.0.max(sizes.1);
    let last = |name: &PackageName<'_>| match name.rest {
        "" => short(name.base).to_owned(),
        rest => short(rest).to_owned(),
    };
    if last(&earlier) == last(&current) {
        shared * 2 >= larger
    } else {
        shared * 10 >= larger * 9
    }
}

/// Returns the characteristics of a package, with names relative to the package.
fn contents<'t>(tree: &'t Tree, files: &[FileId]) -> Vec<Characteristic<'t>> {
    let mut characteristics = Vec::new();
    for file in files.iter().map(|id| &tree[*id]) {
        for message in file.messages.iter().map(|id| &tree[*id]) {
            characteristics.push((message.short_name(), 0, "", ""));
            characteristics.extend(message.characteristics(tree, message.short_name()));
        }
        for one in file.enums.iter().map(|id| &tree[*id]) {
            characteristics.extend(one.characteristics(tree, one.short_name()));
        }
        for service in file.services.iter().map(|id| &tree[*id]) {
            characteristics.extend(service.characteristics(tree, short(&service.name)));
        }
    }
    characteristics
}
