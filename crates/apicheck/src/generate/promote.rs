//! Promotion of an alpha to the stable major (V-19).

use std::collections::{BTreeMap, BTreeSet};

use super::output::{Generated, target_path};
use crate::model::{File, FileId, ImportMode, Name, Tree};
use crate::package::{PackageName, Stage};
use crate::plan::{Move, Plan, Step};
use crate::print::Printer;

/// Changes of a tree by the promotion of packages.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Promotion {
    /// Promoted packages with their stable names.
    pub packages: BTreeMap<String, String>,
    /// Files to write: promoted files at their new paths, files that use them, and files of the
    /// previous stable majors, which become frozen.
    pub files: Vec<Generated>,
    /// Paths that are removed.
    pub removed: Vec<String>,
    /// Type URLs that change, `(old, new)`. Servers and configurations contain them.
    pub type_urls: Vec<(String, String)>,
    /// Previous stable packages without a status. The lock file can freeze them.
    pub not_frozen: Vec<String>,
}

/// Error: packages cannot be promoted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PromoteError {
    /// The tree does not contain the package.
    #[error("unknown package `{0}`: expected an alpha package of the tree")]
    Unknown(String),
    /// The package has no version, or a stable one.
    #[error("cannot promote `{0}`: expected an alpha package such as `a.v2alpha`")]
    NoAlpha(String),
    /// The stable package exists already.
    #[error("cannot promote `{package}`: `{stable}` exists already")]
    Taken {
        /// Name of the alpha package.
        package: String,
        /// Stable name that it would get.
        stable: String,
    },
}

/// Promotes packages: `a.v4alpha` becomes `a.v4` in paths, language packages and all uses. Its
/// status becomes ACTIVE, and the status of `a.v3` becomes FROZEN.
///
/// # Errors
/// Fails if a package does not exist, is not an alpha, or its stable name is in use.
pub fn promote(tree: &Tree, packages: &[&str]) -> Result<Promotion, PromoteError> {
    let mut renamed: BTreeMap<String, String> = BTreeMap::new();
    for package in packages {
        renamed.insert((*package).to_owned(), stable_name(tree, package)?);
    }
    let moves: BTreeMap<FileId, Move> = tree
        .targets()
        .filter_map(|file| Some((file.id, place(file, renamed.get(&*file.package)?)?)))
        .collect();
    let removed = moves.keys().map(|id| tree[*id].place(&tree[*id].path));
    let removed = removed.collect();
    let plan = Plan::cut(tree, Step::Promotion, moves.clone());
    let printer = Printer::new(tree, &plan);
    let bringing = bringing(tree, &moves);
    let uses = |file: &File| file.imports.iter().any(|one| bringing.contains(&one.file));
    let mut files: Vec<Generated> = tree
        .targets()
        .filter(|file| moves.contains_key(&file.id) || uses(file))
        .map(|file| Generated {
            path: file.place(plan.path(file)),
            text: printer.file(file),
        })
        .collect();
    let frozen: Vec<Name> = renamed
        .keys()
        .filter_map(|name| previous(tree, name))
        .collect();
    let mut not_frozen = BTreeSet::new();
    for file in tree.targets().filter(|file| frozen.contains(&file.package)) {
        if !freeze(file, &mut files) {
            not_frozen.insert(file.package.to_string());
        }
    }
    files.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    Ok(Promotion {
        packages: renamed,
        files,
        removed,
        type_urls: type_urls(tree, &plan),
        not_frozen: not_frozen.into_iter().collect(),
    })
}

fn stable_name(tree: &Tree, package: &str) -> Result<String, PromoteError> {
    if !tree.targets().any(|file| *file.package == *package) {
        return Err(PromoteError::Unknown(package.to_owned()));
    }
    let name = PackageName::of(package);
    let version = name
        .version
        .filter(|version| version.stage != Stage::Stable && name.rest.is_empty())
        .ok_or_else(|| PromoteError::NoAlpha(package.to_owned()))?;
    let stable = format!("{}.v{}", name.base, version.major);
    if tree.files.iter().any(|file| *file.package == *stable) {
        let package = package.to_owned();
        return Err(PromoteError::Taken { package, stable });
    }
    Ok(stable)
}

fn place(file: &File, package: &str) -> Option<Move> {
    let last = |name: &str| Some(name.rsplit('.').next()?.to_owned());
    let version = (last(&file.package)?, last(package)?);
    Some(Move {
        path: target_path(file, package, &version),
        package: package.to_owned(),
        version,
    })
}

/// Returns the newest stable package before an alpha. Majors may be missing in between.
fn previous(tree: &Tree, package: &str) -> Option<Name> {
    let alpha = PackageName::of(package);
    let before = tree.targets().filter_map(|file| {
        let name = PackageName::of(&file.package);
        let version = name
            .version
            .filter(|version| version.stage == Stage::Stable)?;
        // Majors may have been skipped, so the newest earlier one is frozen (V-19).
        let is_before =
            name.base == alpha.base && name.rest.is_empty() && version.major < alpha.version?.major;
        is_before.then_some((version.major, &file.package))
    });
    before.max().map(|(_, package)| package.clone())
}

/// Returns the files whose import makes a moved type visible: the moved files, and files that
/// import one of them publicly.
fn bringing(tree: &Tree, moves: &BTreeMap<FileId, Move>) -> BTreeSet<FileId> {
    let mut bringing: BTreeSet<FileId> = moves.keys().copied().collect();
    // Imports come before what imports them.
    for file in &tree.files {
        let mut public = file
            .imports
            .iter()
            .filter(|one| one.mode == ImportMode::Public);
        if public.any(|import| bringing.contains(&import.file)) {
            bringing.insert(file.id);
        }
    }
    bringing
}

/// Marks a file as frozen, in the generated text if there is one, otherwise in its own. Returns
/// false if the file has no status.
fn freeze(file: &File, files: &mut Vec<Generated>) -> bool {
    if let Some(written) = files
        .iter_mut()
        .find(|written| written.path == file.place(&file.path))
    {
        return match marked(&written.text) {
            Some(text) => {
                written.text = text;
                true
            }
            None => false,
        };
    }
    let Some(text) = file.text.as_deref().and_then(marked) else {
        return false;
    };
    files.push(Generated {
        path: file.place(&file.path),
        text,
    });
    true
}

/// Returns the text with the status FROZEN, for every spelling of the option. Comments are
/// unchanged.
fn marked(text: &str) -> Option<String> {
    const STATUS: &str = "package_version_status";
    let mut marked = String::with_capacity(text.len());
    let mut found = false;
    for line in text.split_inclusive('\n') {
        let is_comment = line.trim_start().starts_with("//");
        match line.split_once(STATUS) {
            Some((before, after)) if !is_comment => {
                found = true;
                marked.push_str(before);
                marked.push_str(STATUS);
                marked.push_str(&after.replacen("ACTIVE", "FROZEN", 1));
            }
            _ => marked.push_str(line),
        }
    }
    found.then_some(marked)
}

fn type_urls(tree: &Tree, plan: &Plan) -> Vec<(String, String)> {
    let url = |name: &str| format!("type.googleapis.com/{name}");
    let mut urls: Vec<(String, String)> = tree
        .messages
        .iter()
        .filter(|message| !message.map_entry)
        .map(|message| (&*message.name, plan.type_name(&message.name)))
        .filter(|(old, new)| old != new)
        .map(|(old, new)| (url(old), url(new)))
        .collect();
    urls.sort_unstable();
    urls
}
