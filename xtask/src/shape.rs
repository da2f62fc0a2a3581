//! Bounds of the shape of types: fields of a struct, files with inherent `impl` blocks of a type, and no `pub(in …)`.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::Visit;
use syn::{Attribute, Fields, Item, Type, Visibility};

use crate::layers::imports::{attributes, is_test};
use crate::repository::{relative, rust_files, sources};

/// Most fields of a struct that is neither the arguments of a command nor a message. A larger one has parts with names.
const FIELDS: usize = 15;

/// Most files in which a type has inherent methods. More cannot be found by a reader.
const FILES: usize = 4;

/// Derives of structs whose fields are given from outside: arguments and messages.
const GIVEN: [&str; 5] = ["Args", "Parser", "Message", "Serialize", "Deserialize"];

/// Returns what is beyond the bounds in the packages.
pub(crate) fn check(packages: &[String]) -> Vec<String> {
    let mut findings = Vec::new();
    for source in sources(packages) {
        // Etcd's machines are replaced by the log of publishes.
        if source.ends_with("etcd/src") {
            continue;
        }
        let mut implemented: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let mut defined: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for path in rust_files(&source) {
            // So is the store on top of them.
            if path.starts_with(source.join("store/etcd")) {
                continue;
            }
            let text = std::fs::read_to_string(&path).expect("a source file");
            let file = relative(&path);
            let parsed = syn::parse_file(&text).unwrap_or_else(|error| panic!("{file}: {error}"));
            let mut shapes = Shapes::default();
            parsed.items.iter().for_each(|item| shapes.visit_item(item));
            findings.extend(shapes.large.iter().map(|large| format!("{file}: {large}")));
            if shapes.restricted > 0 {
                findings.push(format!("{file}: {} times pub(in …)", shapes.restricted));
            }
            for name in shapes.implemented {
                implemented.entry(name).or_default().insert(file.clone());
            }
            for name in shapes.defined {
                defined.entry(name).or_default().insert(file.clone());
            }
        }
        for (name, mut files) in implemented {
            // Several types may have the same name: a file that defines one has the methods of that one.
            if let Some(defining) = defined.get(&name).filter(|files| files.len() > 1) {
                files.retain(|file| !defining.contains(file));
            }
            if files.len() > FILES {
                let files: Vec<_> = files.into_iter().collect();
                findings.push(format!(
                    "{name} has methods in {} files, at most {FILES} are allowed: {}",
                    files.len(),
                    files.join(", ")
                ));
            }
        }
    }
    findings
}

/// Shapes of the types in a file.
#[derive(Default)]
struct Shapes {
    large: Vec<String>,
    implemented: BTreeSet<String>,
    defined: BTreeSet<String>,
    restricted: usize,
}

impl<'ast> Visit<'ast> for Shapes {
    fn visit_item(&mut self, item: &'ast Item) {
        if !attributes(item).iter().any(is_test) {
            syn::visit::visit_item(self, item);
        }
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        self.defined.insert(item.ident.to_string());
        syn::visit::visit_item_enum(self, item);
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.defined.insert(item.ident.to_string());
        if let Fields::Named(fields) = &item.fields
            && fields.named.len() > FIELDS
            && !item.attrs.iter().any(derives_given)
        {
            self.large.push(format!(
                "struct {} has {} fields, at most {FIELDS} are allowed",
                item.ident,
                fields.named.len()
            ));
        }
        syn::visit::visit_item_struct(self, item);
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if item.trait_.is_none()
            && let Type::Path(path) = &*item.self_ty
            && let Some(last) = path.path.segments.last()
        {
            self.implemented.insert(last.ident.to_string());
        }
        syn::visit::visit_item_impl(self, item);
    }

    fn visit_visibility(&mut self, visibility: &'ast Visibility) {
        if let Visibility::Restricted(restricted) = visibility {
            self.restricted += usize::from(restricted.in_token.is_some());
        }
    }
}

fn derives_given(attribute: &Attribute) -> bool {
    let syn::Meta::List(list) = &attribute.meta else {
        return false;
    };
    let tokens = list.tokens.to_string();
    let names = tokens.split(|c: char| !c.is_alphanumeric());
    list.path.is_ident("derive") && names.into_iter().any(|name| GIVEN.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shapes(text: &str) -> Shapes {
        let mut shapes = Shapes::default();
        let parsed = syn::parse_file(text).expect("Rust");
        parsed.items.iter().for_each(|item| shapes.visit_item(item));
        shapes
    }

    #[test]
    fn large_structs_are_found_except_arguments_and_tests() {
        let fields: String = (0..=FIELDS).map(|n| format!("f{n}: u8, ")).collect();
        let large = format!("struct Large {{ {fields} }}");
        let found = shapes(&large).large;
        assert_eq!(
            found,
            ["struct Large has 16 fields, at most 15 are allowed"]
        );
        for allowed in [
            format!("#[derive(Debug, Args)] {large}"),
            format!("#[cfg(test)] mod tests {{ {large} }}"),
        ] {
            assert_eq!(shapes(&allowed).large, Vec::<String>::new(), "{allowed}");
        }
    }

    #[test]
    fn restricted_visibility_and_inherent_methods_are_found() {
        let found = shapes(
            "pub(in crate::a) struct A; impl A { pub(super) fn f() {} } impl Clone for B { fn clone() {} }",
        );
        assert_eq!(found.restricted, 1);
        assert_eq!(found.implemented, BTreeSet::from(["A".to_owned()]));
    }
}
