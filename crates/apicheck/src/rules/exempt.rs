//! Exemption of changes to elements that were not stable (V-35).

use crate::compare::Comparison;
use crate::finding::Finding;
use crate::maturity::{self, Maturity};
use crate::model::{Symbol, Tree};

/// Sets the exemption reason of findings about unstable elements. No finding is dropped.
///
/// Users relied on the old tree, so it decides about the elements that it has.
pub fn exempt(comparison: &Comparison<'_>, findings: &mut [Finding]) {
    for finding in findings {
        let current = || of(comparison.new, &finding.element);
        let found = match finding.old {
            Some(_) => of(comparison.old, finding.old_name()).or_else(current),
            None => current(),
        };
        // Stable-API policy: alpha, beta and work in progress are exempt, but counted (V-35).
        finding.exempt = found
            .filter(|maturity| *maturity != Maturity::Stable)
            .map(|maturity| maturity.to_string());
    }
}

/// Returns the maturity of a declaration, a member, a file or a package by name.
fn of(tree: &Tree, name: &str) -> Option<Maturity> {
    if let Some(symbol) = tree.names.get(name) {
        return Some(of_symbol(tree, *symbol));
    }
    if let Some(maturity) = of_member(tree, name) {
        return Some(maturity);
    }
    if let Some(extension) = tree.extensions.iter().find(|one| &*one.name == name) {
        return Some(maturity::of_extension(tree, extension));
    }
    if let Some(file) = tree.file(name) {
        return Some(maturity::of_file(tree, file));
    }
    let mut files = tree.files.iter().filter(|file| &*file.package == name);
    let first = maturity::of_file(tree, files.next()?);
    // One stable file makes the whole package stable.
    let stable = files.any(|file| maturity::of_file(tree, file) == Maturity::Stable);
    Some(if stable { Maturity::Stable } else { first })
}

fn of_symbol(tree: &Tree, symbol: Symbol) -> Maturity {
    match symbol {
        Symbol::Message(id) => maturity::of_message(tree, &tree[id]),
        Symbol::Enum(id) => maturity::of_enum(tree, &tree[id]),
        Symbol::Service(id) => maturity::of_service(tree, &tree[id]),
    }
}

fn of_member(tree: &Tree, name: &str) -> Option<Maturity> {
    let (owner, member) = name.rsplit_once('.')?;
    let symbol = *tree.names.get(owner)?;
    let own = match symbol {
        Symbol::Message(id) => {
            let field = tree[id].field_by_name(member);
            return Some(match field {
                Some(field) => maturity::of_field(tree, &tree[id], field),
                None => maturity::of_message(tree, &tree[id]),
            });
        }
        Symbol::Enum(id) => {
            let value = tree[id].values.iter().find(|value| &*value.name == member);
            value.and_then(|value| maturity::commented(&value.source))
        }
        Symbol::Service(id) => {
            let method = tree[id]
                .methods
                .iter()
                .find(|method| &*method.name == member);
            method.and_then(|method| maturity::commented(&method.source))
        }
    };
    Some(own.unwrap_or_else(|| of_symbol(tree, symbol)))
}
