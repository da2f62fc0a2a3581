//! The modules of each crate of the workspace form layers: no import circle between its files.
//!
//! Rust allows two files to use each other; a reader then has to know both to change one. A parent that declares or
//! re-exports a child does not use it; a parent whose code names an item of the child does, and so does a child that names
//! an item which its parent's file defines. Code under `#[cfg(test)]` is left out.

mod imports;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use self::imports::Imports;
use crate::repository::{relative, root, rust_files};

/// Path of a module within its crate; empty for the crate's root.
type Module = Vec<String>;

#[test]
fn crates_have_no_import_circle() {
    let crates = std::fs::read_dir(root().join("crates")).expect("crates");
    let packages = crates.map(|package| package.expect("a crate").path());
    let beside = ["testkit", "interop", "interop/xds", "bench"].map(|folder| root().join(folder));
    let mut circles = Vec::new();
    for package in packages.chain(beside) {
        let source = package.join("src");
        let files = rust_files(&source).into_iter().map(|path| {
            let text = std::fs::read_to_string(&path).expect("a source file");
            (module_of(&source, &path), text)
        });
        let found = circles_of(files);
        let crate_name = relative(&source);
        circles.extend(
            found
                .into_iter()
                .map(|circle| format!("{crate_name}\n  {circle}")),
        );
    }
    assert!(
        circles.is_empty(),
        "import circles:\n{}",
        circles.join("\n")
    );
}

#[test]
fn circle_of_a_parent_and_its_child_is_found() {
    let text = |module: &str, text: &str| {
        let module = module.split("::").filter(|part| !part.is_empty());
        (module.map(str::to_owned).collect(), text.to_owned())
    };
    let layered = [
        text("", "mod a; mod b; pub use a::A;"),
        text("a", "use crate::b::B; pub struct A(B);"),
        text(
            "b",
            "pub struct B; #[cfg(test)] mod tests { use crate::a::A; }",
        ),
    ];
    assert_eq!(circles_of(layered), Vec::<String>::new());

    let circle = [
        text("", "mod a; use a::A; pub struct Shared(A);"),
        text("a", "pub struct A; fn f(_: &super::Shared) {}"),
    ];
    assert_eq!(
        circles_of(circle),
        ["(root) → a (A)\n  a → (root) (Shared)"]
    );

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
        circles_of(by_front_page),
        ["x::inner → y (g)\n  y → x::inner (Inner)"]
    );
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

/// The circles between the modules of a crate, each as its edges.
fn circles_of(files: impl IntoIterator<Item = (Module, String)>) -> Vec<String> {
    let edges = Imports::of(files).edges();
    groups(&edges)
        .iter()
        .map(|group| shown(group, &edges))
        .collect()
}

type Edges = BTreeMap<Module, BTreeMap<Module, BTreeSet<String>>>;

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
    let name = |module: &Module| match module.join("::") {
        root if root.is_empty() => "(root)".to_owned(),
        path => path,
    };
    let mut lines = Vec::new();
    for from in group {
        for (to, items) in edges[*from].iter().filter(|(to, _)| group.contains(to)) {
            let items: Vec<_> = items.iter().map(String::as_str).collect();
            lines.push(format!(
                "{} → {} ({})",
                name(from),
                name(to),
                items.join(", ")
            ));
        }
    }
    lines.join("\n  ")
}
