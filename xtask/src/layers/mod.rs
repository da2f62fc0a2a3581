//! The modules of each crate form layers: no import circle between its files, nor between its folders.
//!
//! Rust allows two files to use each other; a reader then has to know both to change one. A parent that declares or
//! re-exports a child does not use it; a parent whose code names an item of the child does, and so does a child that
//! names an item which its parent's file defines. Code under `#[cfg(test)]` is left out.
//!
//! Folders: in every folder, its files and the folders below it (each as a whole) form layers, too. A file that both a
//! folder's own `mod.rs` and its children need lies beside them. A type and its builder are one unit: what a function
//! `builder` of an `impl` names is no import.

pub(crate) mod imports;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use self::imports::{Edges, Imports, Module};
use crate::repository::{relative, rust_files, sources};

/// Returns the import circles of the packages.
pub(crate) fn check(packages: &[String]) -> Vec<String> {
    let mut findings = Vec::new();
    for source in sources(packages) {
        let files = rust_files(&source).into_iter().map(|path| {
            let text = std::fs::read_to_string(&path).expect("a source file");
            (module_of(&source, &path), text)
        });
        let edges = Imports::of(files).edges();
        let crate_name = relative(&source);
        let circles = circles_of_files(&edges)
            .into_iter()
            .chain(circles_of_folders(&edges));
        findings.extend(circles.map(|circle| format!("{crate_name}\n  {circle}")));
    }
    findings
}

/// Path of the module that a file holds.
fn module_of(source: &Path, file: &Path) -> Module {
    let below = file.strip_prefix(source).expect("below src");
    let mut module: Module = below
        .with_extension("")
        .iter()
        .map(|part| part.to_string_lossy().into_owned())
        .collect();
    if matches!(
        module.last().map(String::as_str),
        Some("mod" | "lib" | "main")
    ) {
        module.pop();
    }
    module
}

/// The circles between the files of a crate, each as its edges.
fn circles_of_files(edges: &Edges) -> Vec<String> {
    let groups = groups(edges);
    groups.iter().map(|group| shown(group, edges)).collect()
}

/// For every folder of a crate the circles between its files and the folders below it, each with the edges between
/// files that make it.
fn circles_of_folders(edges: &Edges) -> Vec<String> {
    let mut folders: BTreeSet<&[String]> = BTreeSet::new();
    for module in edges.keys() {
        folders.extend((0..module.len()).map(|depth| &module[..depth]));
    }
    let mut circles = Vec::new();
    for folder in folders {
        let mut within = Edges::new();
        for (from, targets) in edges.iter().filter(|(from, _)| from.starts_with(folder)) {
            let from_unit = unit(folder, from);
            within.entry(from_unit.clone()).or_default();
            for (to, items) in targets.iter().filter(|(to, _)| to.starts_with(folder)) {
                let to_unit = unit(folder, to);
                if from_unit != to_unit {
                    let edge = format!("{} uses {}: {}", name(from), name(to), list(items));
                    let entry = within.entry(from_unit.clone()).or_default();
                    entry.entry(to_unit).or_default().insert(edge);
                }
            }
        }
        let units_of_files = |group: &BTreeSet<&Module>| {
            group
                .iter()
                .all(|unit| edges.contains_key(*unit) && is_leaf(unit, edges))
        };
        for group in groups(&within) {
            // A circle of files alone is reported as such.
            if !units_of_files(&group) {
                circles.push(shown_folders(folder, &group, &within));
            }
        }
    }
    circles
}

/// Whether a module has no modules below it.
fn is_leaf(module: &Module, edges: &Edges) -> bool {
    !edges
        .keys()
        .any(|other| other.len() > module.len() && other.starts_with(module))
}

/// The child of a folder that a module below it belongs to: a file, or a folder as a whole. The folder's own file
/// stands for itself.
fn unit(folder: &[String], module: &Module) -> Module {
    match module.get(..=folder.len()) {
        Some(child) => child.to_vec(),
        None => [folder, &["mod.rs".to_owned()]].concat(),
    }
}

/// Groups of two or more modules that all reach each other.
fn groups(edges: &Edges) -> Vec<BTreeSet<&Module>> {
    let reach: BTreeMap<&Module, BTreeSet<&Module>> = edges
        .keys()
        .map(|from| (from, reached(from, edges)))
        .collect();
    let mut groups = BTreeSet::new();
    for (from, reached) in &reach {
        let back = reached
            .iter()
            .filter(|to| reach.get(*to).is_some_and(|r| r.contains(from)));
        let group: BTreeSet<&Module> = back.copied().chain([*from]).collect();
        if group.len() > 1 {
            groups.insert(group);
        }
    }
    groups.into_iter().collect()
}

/// Modules that a module reaches by one edge or more.
fn reached<'a>(from: &Module, edges: &'a Edges) -> BTreeSet<&'a Module> {
    let mut found = BTreeSet::new();
    let mut open: Vec<&Module> = edges[from].keys().collect();
    while let Some(module) = open.pop() {
        if found.insert(module) {
            open.extend(edges.get(module).into_iter().flat_map(BTreeMap::keys));
        }
    }
    found
}

fn shown(group: &BTreeSet<&Module>, edges: &Edges) -> String {
    let mut lines = Vec::new();
    for from in group {
        for (to, items) in edges[*from].iter().filter(|(to, _)| group.contains(to)) {
            lines.push(format!("{} → {} ({})", name(from), name(to), list(items)));
        }
    }
    lines.join("\n  ")
}

fn shown_folders(folder: &[String], group: &BTreeSet<&Module>, within: &Edges) -> String {
    let mut lines = vec![format!("circle in folder {}", name(folder))];
    for from in group {
        for (to, edges) in within[*from].iter().filter(|(to, _)| group.contains(to)) {
            lines.push(format!("{} → {} ({})", name(from), name(to), edges.len()));
            lines.extend(edges.iter().map(|edge| format!("    {edge}")));
        }
    }
    lines.join("\n  ")
}

fn name(module: &[String]) -> String {
    match module.join("::") {
        root if root.is_empty() => "(root)".to_owned(),
        path => path,
    }
}

fn list(items: &BTreeSet<String>) -> String {
    let items: Vec<_> = items.iter().map(String::as_str).collect();
    items.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(module: &str, text: &str) -> (Module, String) {
        let module = module.split("::").filter(|part| !part.is_empty());
        (module.map(str::to_owned).collect(), text.to_owned())
    }

    fn circles(files: impl IntoIterator<Item = (Module, String)>) -> Vec<String> {
        circles_of_files(&Imports::of(files).edges())
    }

    #[test]
    fn circle_of_two_folders_is_found() {
        let folders = [
            text("", "mod a; mod b;"),
            text("a", "mod x; mod y; pub use x::X;"),
            text("a::x", "pub struct X;"),
            text("a::y", "use crate::b::B; fn f(_: B) {}"),
            text("b", "use crate::a::X; pub struct B(X);"),
        ];
        let edges = Imports::of(folders).edges();
        assert_eq!(circles_of_files(&edges), Vec::<String>::new());
        assert_eq!(
            circles_of_folders(&edges),
            [
                "circle in folder (root)\n  a → b (1)\n      a::y uses b: B\n  b → a (1)\n      b uses a::x: X"
            ]
        );
    }

    #[test]
    fn folder_and_its_own_file_are_two_units() {
        let folder = [
            text("", "mod a;"),
            text(
                "a",
                "mod b; use b::x::X; pub struct A(X); pub struct Shared;",
            ),
            text("a::b", "pub mod x; mod y;"),
            text("a::b::x", "pub struct X;"),
            text("a::b::y", "use super::super::Shared; fn f(_: Shared) {}"),
        ];
        let edges = Imports::of(folder).edges();
        assert_eq!(circles_of_files(&edges), Vec::<String>::new());
        assert_eq!(circles_of_folders(&edges).len(), 1);
    }

    #[test]
    fn type_and_its_builder_are_one_unit() {
        let pair = [
            text("", "mod a; mod b;"),
            text(
                "a",
                "use crate::b::Builder; pub struct A; impl A { pub fn builder() -> Builder { Builder::new() } }",
            ),
            text(
                "b",
                "use crate::a::A; pub struct Builder; impl Builder { pub fn build(self) -> A { A } }",
            ),
        ];
        let edges = Imports::of(pair).edges();
        assert_eq!(circles_of_files(&edges), Vec::<String>::new());
    }

    #[test]
    fn circle_of_a_parent_and_its_child_is_found() {
        let layered = [
            text("", "mod a; mod b; pub use a::A;"),
            text("a", "use crate::b::B; pub struct A(B);"),
            text(
                "b",
                "pub struct B; #[cfg(test)] mod tests { use crate::a::A; }",
            ),
        ];
        assert_eq!(circles(layered), Vec::<String>::new());

        let circle = [
            text("", "mod a; use a::A; pub struct Shared(A);"),
            text("a", "pub struct A; fn f(_: &super::Shared) {}"),
        ];
        assert_eq!(circles(circle), ["(root) → a (A)\n  a → (root) (Shared)"]);

        // A re-export leads to the file that defines the item, and a macro's arguments are code.
        let by_front_page = [
            text("", "mod x; mod y;"),
            text("x", "mod inner; pub use inner::Inner;"),
            text(
                "x::inner",
                "pub struct Inner; fn f() { println!(\"{}\", crate::y::g()) }",
            ),
            text("y", "use crate::x::Inner; pub fn g() -> Inner { Inner }"),
        ];
        assert_eq!(
            circles(by_front_page),
            ["x::inner → y (g)\n  y → x::inner (Inner)"]
        );
    }
}
