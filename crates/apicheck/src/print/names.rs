//! The shortest name by which one place can call another.

use std::collections::HashSet;

use crate::generate::Plan;
use crate::model::Tree;

/// All that a first part of a name can stand for: types and packages, before and after a plan.
#[derive(Debug)]
pub(super) struct Names(HashSet<String>);

impl Names {
    pub(super) fn of(tree: &Tree, plan: &Plan) -> Names {
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
        Names(names)
    }

    /// A name that means `full` inside `scope`, as short as can be; with a leading dot when no
    /// other does.
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

    /// The name of an extension in an option: whole, with a leading dot where something inner hides it.
    pub(super) fn option(&self, scope: &str, full: &str) -> String {
        let first = full.split('.').next().unwrap_or(full);
        let hidden = scopes(scope).any(|scope| self.0.contains(&format!("{scope}.{first}")));
        if hidden {
            format!(".{full}")
        } else {
            full.to_owned()
        }
    }

    /// The innermost scope that knows the first part decides, as in C++.
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

/// Whether a name begins as a statement of a message does: `extensions.wasm.v3.Config`.
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

/// `a.b.c`, `a.b`, `a`.
fn scopes(scope: &str) -> impl Iterator<Item = &str> {
    let first = (!scope.is_empty()).then_some(scope);
    std::iter::successors(first, |scope| Some(scope.rsplit_once('.')?.0))
}

#[cfg(test)]
mod tests {
    use super::Names;

    #[test]
    fn names_are_as_short_as_their_scope_allows() {
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
        let names = Names(known.iter().map(ToString::to_string).collect());
        assert_eq!(names.short("a.b.v1", "a.b.v1.M"), "M");
        assert_eq!(names.short("a.b.v1", "a.c.v1.N"), "c.v1.N");
        // `c` inside M is something else.
        assert_eq!(names.short("a.b.v1.M", "a.c.v1.N"), "a.c.v1.N");
        assert_eq!(
            names.short("a.b.v1", "google.protobuf.Any"),
            "google.protobuf.Any"
        );
        assert_eq!(names.option("a.b.v1", "validate.rules"), "validate.rules");
        assert_eq!(names.option("a.b.v1", "c.rules"), ".c.rules");
    }
}
