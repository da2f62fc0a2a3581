//! Imports between the files of one crate.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::Visit;
use syn::{Attribute, Item, UseTree, Visibility};

/// Path of a module within its crate; empty for the crate's root.
pub(super) type Module = Vec<String>;

/// For each module the modules that it uses, with the names that it takes from them.
pub(super) type Edges = BTreeMap<Module, BTreeMap<Module, BTreeSet<String>>>;

/// A path as it is written, by its segments: `crate::a::B`.
type Path = Vec<String>;

/// The paths that the files of one crate write.
pub(super) struct Imports {
    files: BTreeMap<Module, File>,
}

/// One file: its imports and the paths in its code.
#[derive(Default)]
struct File {
    uses: Vec<Use>,
    paths: BTreeSet<Path>,
    /// Paths in functions `builder`: a type and its builder are one unit.
    builder_paths: BTreeSet<Path>,
    /// Child modules that exist only under `#[cfg(test)]`.
    test_modules: BTreeSet<String>,
}

/// One name that a `use` item brings in.
struct Use {
    path: Path,
    /// The name in this file; `*` for all names of a module.
    alias: String,
    is_reexport: bool,
}

impl Imports {
    /// Reads the files of a crate.
    pub(super) fn of(files: impl IntoIterator<Item = (Module, String)>) -> Self {
        let files = files.into_iter().map(|(module, text)| {
            let parsed =
                syn::parse_file(&text).unwrap_or_else(|error| panic!("{module:?}: {error}"));
            let mut file = File::default();
            parsed.items.iter().for_each(|item| file.visit_item(item));
            (module, file)
        });
        let mut files: BTreeMap<Module, File> = files.collect();
        let tests = files.iter().flat_map(|(module, file)| {
            let below = |child: &String| [module.as_slice(), std::slice::from_ref(child)].concat();
            file.test_modules.iter().map(below).collect::<Vec<_>>()
        });
        let tests: Vec<Module> = tests.collect();
        files.retain(|module, _| !tests.iter().any(|test| module.starts_with(test)));
        Self { files }
    }

    /// For each module the modules that its code names, with the names.
    pub(super) fn edges(&self) -> Edges {
        let mut edges = Edges::new();
        for (from, file) in &self.files {
            let entry = edges.entry(from.clone()).or_default();
            for path in self.named_by(from, file) {
                let item = path.last().cloned().unwrap_or_default();
                if let Some(to) = self.definition(from, &path, &mut BTreeSet::new())
                    && to != *from
                {
                    entry.entry(to).or_default().insert(item);
                }
            }
        }
        edges
    }

    /// Paths that lead from a file to others: of its imports, except re-exports that its own code does not use, and in
    /// its code.
    fn named_by(&self, from: &Module, file: &File) -> Vec<Path> {
        let mut named: Vec<Path> = Vec::new();
        for import in &file.uses {
            if import.alias == "*" {
                named.push(import.path.clone());
            } else if self.module(from, &import.path).is_some() {
                // A module by name: what is reached through it counts, see below.
                let through = file
                    .paths
                    .iter()
                    .filter(|path| path.len() > 1 && path[0] == import.alias);
                named.extend(through.map(|path| [&import.path, &path[1..]].concat()));
            } else if is_named(&file.paths, import)
                || !import.is_reexport && !is_named(&file.builder_paths, import)
            {
                // A trait may be used without being named.
                named.push(import.path.clone());
            }
        }
        for path in file.paths.iter().filter(|path| path.len() > 1) {
            let child = [from.as_slice(), &path[..1]].concat();
            if matches!(path[0].as_str(), "crate" | "self" | "super") {
                named.push(path.clone());
            } else if self.files.contains_key(&child) {
                named.push([&["self".to_owned()], path.as_slice()].concat());
            }
        }
        named
    }

    /// The module that a path names, if the path ends at one.
    fn module(&self, from: &Module, path: &Path) -> Option<Module> {
        let (module, rest) = self.walk(from, path)?;
        rest.is_empty().then_some(module)
    }

    /// Follows a path as far as there are modules. `None` if it leads out of the crate.
    fn walk<'a>(&self, from: &Module, path: &'a [String]) -> Option<(Module, &'a [String])> {
        let mut rest = path;
        let mut module = from.clone();
        match rest.first().map(String::as_str) {
            Some("crate") => {
                module.clear();
                rest = &rest[1..];
            }
            Some("self") => rest = &rest[1..],
            Some("super") => {}
            Some(first)
                if self
                    .files
                    .contains_key(&[from.as_slice(), &[first.to_owned()]].concat()) => {}
            _ => return None,
        }
        while rest.first().is_some_and(|part| part == "super") {
            module.pop();
            rest = &rest[1..];
        }
        while let Some(part) = rest.first() {
            let child = [module.as_slice(), std::slice::from_ref(part)].concat();
            if !self.files.contains_key(&child) {
                break;
            }
            module = child;
            rest = &rest[1..];
        }
        Some((module, rest))
    }

    /// The module whose file defines what a path names: re-exports are followed.
    fn definition(
        &self,
        from: &Module,
        path: &[String],
        seen: &mut BTreeSet<(Module, String)>,
    ) -> Option<Module> {
        let (module, rest) = self.walk(from, path)?;
        let (Some(item), Some(file)) = (rest.first(), self.files.get(&module)) else {
            return self.files.contains_key(&module).then_some(module);
        };
        if !seen.insert((module.clone(), item.clone())) {
            return Some(module);
        }
        match file.uses.iter().find(|import| import.alias == *item) {
            // An item of another crate is no edge.
            Some(import) => self.definition(&module, &import.path, seen),
            None => Some(module),
        }
    }
}

/// Whether one of the paths begins with the name that an import brings in.
fn is_named(paths: &BTreeSet<Path>, import: &Use) -> bool {
    paths.iter().any(|path| path[0] == import.alias)
}

impl File {
    fn visit_use(&mut self, tree: &UseTree, before: &Path, is_reexport: bool) {
        let with = |name: &syn::Ident| [before.as_slice(), &[name.to_string()]].concat();
        let (path, alias) = match tree {
            UseTree::Path(path) => {
                return self.visit_use(&path.tree, &with(&path.ident), is_reexport);
            }
            UseTree::Group(group) => {
                return group
                    .items
                    .iter()
                    .for_each(|tree| self.visit_use(tree, before, is_reexport));
            }
            UseTree::Name(name) if name.ident == "self" => {
                (before.clone(), before.last().cloned().unwrap_or_default())
            }
            UseTree::Name(name) => (with(&name.ident), name.ident.to_string()),
            UseTree::Rename(rename) if rename.ident == "self" => {
                (before.clone(), rename.rename.to_string())
            }
            UseTree::Rename(rename) => (with(&rename.ident), rename.rename.to_string()),
            UseTree::Glob(_) => (before.clone(), "*".to_owned()),
        };
        self.uses.push(Use {
            path,
            alias,
            is_reexport,
        });
    }

    /// Paths in the arguments of a macro, which are not parsed: names joined by `::`.
    fn visit_tokens(&mut self, tokens: TokenStream) {
        let mut path = Path::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Ident(name) => {
                    if colons != 2 {
                        self.end_path(&mut path);
                    }
                    path.push(name.to_string());
                    colons = 0;
                }
                TokenTree::Punct(mark) if mark.as_char() == ':' => colons += 1,
                TokenTree::Group(group) => {
                    self.end_path(&mut path);
                    colons = 0;
                    self.visit_tokens(group.stream());
                }
                _ => {
                    self.end_path(&mut path);
                    colons = 0;
                }
            }
        }
        self.end_path(&mut path);
    }

    fn end_path(&mut self, path: &mut Path) {
        if !path.is_empty() {
            self.paths.insert(std::mem::take(path));
        }
    }
}

impl<'ast> Visit<'ast> for File {
    fn visit_item(&mut self, item: &'ast Item) {
        if attributes(item).iter().any(is_test) {
            if let Item::Mod(module) = item {
                self.test_modules.insert(module.ident.to_string());
            }
            return;
        }
        if let Item::Use(item) = item {
            let is_reexport = !matches!(item.vis, Visibility::Inherited);
            self.visit_use(&item.tree, &Path::new(), is_reexport);
        } else {
            syn::visit::visit_item(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if item.sig.ident == "builder" {
            let mut builder = File::default();
            syn::visit::visit_impl_item_fn(&mut builder, item);
            self.builder_paths.extend(builder.paths);
        } else {
            syn::visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments = path
            .segments
            .iter()
            .map(|segment| segment.ident.to_string());
        self.paths.insert(segments.collect());
        syn::visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.visit_path(&call.path);
        self.visit_tokens(call.tokens.clone());
    }

    // `pub(in path)` names a module to be seen by, not to use.
    fn visit_visibility(&mut self, _: &'ast Visibility) {}
}

pub(crate) fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// Whether an attribute is `#[test]` or `#[cfg(test)]`, alone or among other conditions.
pub(crate) fn is_test(attribute: &Attribute) -> bool {
    let tokens = match &attribute.meta {
        syn::Meta::List(list) if list.path.is_ident("cfg") => list.tokens.to_string(),
        meta => return meta.path().is_ident("test"),
    };
    tokens == "test" || tokens.starts_with("all (test")
}
