//! The next major of an API tree, generated (V-38, V-39).
//!
//! ```text
//!   tree ─► pending: types that need it, and why ─► packages, cut whole ─► Plan ─► print ─► files
//! ```
//!
//! Nothing of the source is touched: the result is new files beside it. The same tree gives the
//! same files.

mod plan;
mod promote;
mod select;
mod structure;
mod typemap;
mod write;

use std::collections::BTreeMap;

pub use plan::Plan;
pub(crate) use plan::Step;
pub(crate) use plan::{MIGRATE, Move};
pub use promote::{NotPromoted, Promotion, promote};
pub(crate) use select::next_version;
pub use select::{Reason, pending};
pub use structure::{StructuralDifference, structural_differences};
pub use typemap::{TypePair, typemap};
pub use write::{Difference, NotWritten, apply, differences, write};

use crate::model::{File, ImportMode, Name, Tree};
use crate::print::Printer;

/// A file to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Generated {
    /// The path from the top of the tree, as [`File::place`] tells it.
    pub path: String,
    /// The text.
    pub text: String,
}

/// The next major of a tree.
#[derive(Debug, Clone)]
pub struct NextMajor {
    /// The packages that are cut, each with the name it gets.
    pub packages: BTreeMap<Name, String>,
    /// The types that need it, and why; what else lies in their packages goes with them.
    pub reasons: BTreeMap<Name, Reason>,
    /// The files, by path.
    pub files: Vec<Generated>,
}

/// Generates the next major: for each package with a type that needs one, `v3` or `v3alpha` becomes
/// `v4alpha`. Files that only pass on other files (`import public`) are left out.
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
    generated.sort_by(|a, b| a.path.cmp(&b.path));
    NextMajor {
        packages,
        reasons,
        files: generated,
    }
}

/// The packages of the types that need an upgrade, each with its next name.
fn packages(tree: &Tree, reasons: &BTreeMap<Name, Reason>) -> BTreeMap<Name, String> {
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

/// The new place of a file in the next major.
fn target(tree: &Tree, file: &File, package: &str) -> Option<Move> {
    let (old, new) = next_version(&file.package)?;
    let version = (old.to_owned(), new);
    let moves = select::moves_to(tree, file);
    let package = moves.unwrap_or(package).to_owned();
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

/// The path of a file whose package gets another version: its folder ends with the version, too.
fn target_path(file: &File, package: &str, version: &(String, String)) -> String {
    let (folder, name) = file.path.rsplit_once('/').unwrap_or(("", &file.path));
    match folder.strip_suffix(&*version.0) {
        Some(base) => format!("{base}{}/{name}", version.1),
        None => path_of(file, package),
    }
}

/// The path that a package says.
fn path_of(file: &File, package: &str) -> String {
    let name = file.path.rsplit('/').next().unwrap_or(&file.path);
    format!("{}/{name}", package.replace('.', "/"))
}

/// Whether a file declares nothing and only passes on others.
fn is_shim(tree: &Tree, file: &File) -> bool {
    let declares = !file.messages.is_empty()
        || !file.enums.is_empty()
        || !file.services.is_empty()
        || tree
            .extensions
            .iter()
            .any(|extension| extension.file == file.id);
    !declares
        && file
            .imports
            .iter()
            .any(|import| import.mode == ImportMode::Public)
}
