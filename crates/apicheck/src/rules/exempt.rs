//! What the rules about a pair do not count: what was not stable yet (V-35).

use crate::compare::Comparison;
use crate::finding::Finding;
use crate::maturity::{self, Maturity};
use crate::model::{Symbol, Tree};

/// Writes into each finding why it does not count, where it does not. None is dropped.
///
/// What was relied on is what was, so the old tree decides about what it had.
pub fn exempt(comparison: &Comparison<'_>, findings: &mut [Finding]) {
    for finding in findings {
        let name = &*finding.element;
        let tree = if finding.old.is_some() {
            comparison.old
        } else {
            comparison.new
        };
        let found = of(tree, name).or_else(|| of(comparison.new, name));
        finding.exempt = found
            .filter(|maturity| *maturity != Maturity::Stable)
            .map(|maturity| maturity.to_string());
    }
}

/// How far the element of that name is: a declaration, a member of one, a file, a package.
fn of(tree: &Tree, name: &str) -> Option<Maturity> {
    if let Some(symbol) = tree.names.get(name) {
        return Some(of_symbol(tree, *symbol));
    }
    if let Some(maturity) = of_member(tree, name) {
        return Some(maturity);
    }
    if let Some(file) = tree.file(name) {
        return Some(maturity::of_file(tree, file));
    }
    let mut files = tree.files.iter().filter(|file| &*file.package == name);
    let first = maturity::of_file(tree, files.next()?);
    // One stable file makes a package stable.
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
