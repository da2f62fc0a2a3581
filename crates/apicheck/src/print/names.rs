//! Shortest name of an element in a scope.

use std::collections::HashSet;

use crate::model::Tree;
use crate::plan::Plan;

/// All names that the first part of a name can mean: types and packages, before and after a plan.
#[derive(Debug)]
pub(super) struct KnownNames(HashSet<String>);

impl KnownNames {
    pub(super) fn of(tree: &Tree, plan: &Plan) -> KnownNames {
        let mut names: HashSet<String> = tree.names.keys().map(ToString::to_string).collect();
        names.extend(plan.new_types().map(str::to_owned));
        for file in &tree.files {
            for package in [&*file.package, plan.package(file)] {
                let mut package = package;
                while !package.is_empty() && names.insert(package.to_owned()) {
                    package = package.rsplit_once('.').map_or("", |(outer, _)| outer);
                }
            }
        }
        KnownNames(names)
    }

    /// Returns the shortest name that means `full` inside `scope`, with a leading dot if no other
    /// name does.
    pub(super) fn short(&self, scope: &str, full: &str) -> String {
        let shared = scope
            .split('.')
            .zip(full.split('.'))
            .take_while(|(a, b)| a == b)
            .count();
        let parts: Vec<&str> = full.split('.').collect();
        let most = shared.min(parts.len().saturating_sub(1));
        (0..=most)
            .rev()
            .map(|from| parts[from..].join("."))
            .find(|name| !is_keyword(name) && self.means(scope, name, full))
            .unwrap_or_else(|| format!(".{full}"))
    }

    /// Returns the full name of an extension in an option, with a leading dot if an inner scope
    /// hides it.
    pub(super) fn option(&self, scope: &str, full: &str) -> String {
        let first = full.split('.').next().unwrap_or(full);
        let hidden = scopes(scope).any(|scope| self.0.contains(&format!("{scope}.{first}")));
        if hidden {
            format!(".{full}")
        } else {
            full.to_owned()
        }
    }

    /// The innermost scope that contains the first part decides, as in C++.
    fn means(&self, scope: &str, name: &str, full: &str) -> bool {
        let first = name.split('.').next().unwrap_or(name);
        for outer in scopes(scope) {
            if self.0.contains(&format!("{outer}.{first}")) {
                return full
                    .strip_prefix(outer)
                    .and_then(|rest| rest.strip_prefix('.'))
                    == Some(name);
            }
        }
        name == full
    }
}

/// Returns whether a name starts with a keyword of a message statement:
/// `extensions.wasm.v3.Config`.
fn is_keyword(name: &str) -> bool {
    const KEYWORDS: &[&str] = &[
        "enum",
        "export",
        "extend",
        "extensions",
        "group",
        "local",
        "map",
        "message",
        "oneof",
        "option",
        "optional",
        "repeated",
        "required",
        "reserved",
        "stream",
    ];
    let first = name.split('.').next().unwrap_or(name);
    name.contains('.') && KEYWORDS.contains(&first)
}

/// Iterates over a scope and its outer scopes: `a.b.c`, `a.b`, `a`.
fn scopes(scope: &str) -> impl Iterator<Item = &str> {
    let first = (!scope.is_empty()).then_some(scope);
    std::iter::successors(first, |scope| Some(scope.rsplit_once('.')?.0))
}

#[cfg(test)]
mod tests {
    use super::KnownNames;

    #[test]
    fn short_returns_the_shortest_unambiguous_name() {
        let known = [
            "a",
            "a.b",
            "a.b.v1",
            "a.c",
            "a.c.v1",
            "a.b.v1.M",
            "a.c.v1.N",
            "a.b.v1.M.c",
        ];
        let names = KnownNames(known.iter().map(ToString::to_string).collect());
        assert_eq!(names.short("a.b.v1", "a.b.v1.M"), "M");
        assert_eq!(names.short("a.b.v1", "a.c.v1.N"), "c.v1.N");
        // `c` inside M means another element.
        assert_eq!(names.short("a.b.v1.M", "a.c.v1.N"), "a.c.v1.N");
        assert_eq!(
            names.short("a.b.v1", "google.protobuf.Any"),
            "google.protobuf.Any"
        );
        assert_eq!(names.option("a.b.v1", "validate.rules"), "validate.rules");
        assert_eq!(names.option("a.b.v1", "c.rules"), ".c.rules");
    }
}
