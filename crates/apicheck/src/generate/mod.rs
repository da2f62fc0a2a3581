//! Generation of the next major of an API tree (V-38, V-39).
//!
//! ```text
//!   tree ─► pending types, with reasons ─► their packages ─► Plan ─► print ─► files
//! ```
//!
//! The source files are not changed: the result is new files beside them. The same tree gives the
//! same files.

mod output;
mod promote;
mod select;
mod structure;
mod typemap;
mod write;

use std::collections::BTreeMap;

pub use output::Generated;
pub use promote::{PromoteError, Promotion, promote};
pub use select::{UpgradeReason, pending};
pub use structure::{StructuralDifference, structural_differences};
pub use typemap::{TypePair, typemap};
pub use write::{Difference, WriteError, apply, differences, write};

use crate::model::{File, ImportMode, Name, Tree};
use crate::package::PackageName;
use crate::plan::{Move, Plan, Step};
use crate::print::Printer;
use output::{path_of, target_path};
use select::next_version;

/// Next major of a tree.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct NextMajor {
    /// Packages with a next major, and their new names.
    pub packages: BTreeMap<Name, String>,
    /// Types that need the next major, with the reason. The other types of their packages move with
    /// them.
    pub reasons: BTreeMap<Name, UpgradeReason>,
    /// Generated files, by path.
    pub files: Vec<Generated>,
}

/// Generates the next major. If a type of a package needs one, the package `v3` or `v3alpha`
/// becomes `v4alpha`. Files that only re-export others (`import public`) are left out.
#[must_use]
pub fn next_major(tree: &Tree) -> NextMajor {
    let reasons = pending(tree);
    let packages = packages(tree, &reasons);
    let files: Vec<&File> = tree
        .targets()
        .filter(|file| packages.contains_key(&file.package) && !is_shim(tree, file))
        .collect();
    let moves = files
        .iter()
        .filter_map(|file| Some((file.id, target(tree, file, packages.get(&file.package)?)?)));
    let plan = Plan::cut(tree, Step::NextMajor, moves);
    let printer = Printer::new(tree, &plan);
    let mut generated: Vec<Generated> = files
        .iter()
        .map(|file| Generated {
            path: file.place(plan.path(file)),
            text: printer.file(file),
        })
        .collect();
    generated.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    NextMajor {
        packages,
        reasons,
        files: generated,
    }
}

/// Returns the packages of the types that need an upgrade, with their new names.
fn packages(tree: &Tree, reasons: &BTreeMap<Name, UpgradeReason>) -> BTreeMap<Name, String> {
    let mut packages = BTreeMap::new();
    for name in reasons.keys() {
        let file = match (tree.message(name), tree.enumeration(name)) {
            (Some(message), _) => message.file,
            (None, Some(of)) => of.file,
            (None, None) => continue,
        };
        let package = &tree[file].package;
        if let Some(next) = select::next_package(package) {
            packages.insert(package.clone(), next);
        }
    }
    packages
}

/// Returns the new path and package of a file in the next major.
fn target(tree: &Tree, file: &File, package: &str) -> Option<Move> {
    let (old, new) = next_version(&file.package)?;
    let moves = select::moves_to(tree, file);
    let package = moves.unwrap_or(package).to_owned();
    // The package to which a file moves may have another version than the next one.
    let named = PackageName::of(&package).version;
    let version = (
        old.to_owned(),
        named.map_or(new, |version| version.to_string()),
    );
    let path = match moves {
        Some(_) => path_of(file, &package),
        None => target_path(file, &package, &version),
    };
    Some(Move {
        path,
        package,
        version,
    })
}

/// Returns whether a file has no declarations and only re-exports others.
fn is_shim(tree: &Tree, file: &File) -> bool {
    !tree.declares(file)
        && file
            .imports
            .iter()
            .any(|import| import.mode == ImportMode::Public)
}
