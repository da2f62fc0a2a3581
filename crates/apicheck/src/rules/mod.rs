//! All rules, in a module for each group. A file contains the description of each rule beside the
//! function that reports violations.

mod breaking;
mod collector;
mod dependencies;
pub(crate) mod exceptions;
mod exempt;
mod fact;
mod grace;
mod http;
mod lifecycle;
mod lint;
mod packages;
mod replacement;
pub mod validation;
pub mod versions;
mod young;

pub use breaking::breaking;
pub use exempt::exempt;
pub use grace::exempt_in_grace_period;
pub use lifecycle::{check_removal_windows, lifecycle, majors_without_event};
pub use lint::{lint, odr};
pub use packages::Policy;
pub use young::{exempt_young, youth_cutoff};

use crate::rule::Rule;

/// Rules of each file, except those about compatibility.
const GROUPS: &[&[&Rule]] = &[
    validation::RULES,
    versions::RULES,
    packages::RULES,
    dependencies::RULES,
    lifecycle::RULES,
];

/// Returns the rules about exceptions of a configuration file.
pub fn of_exceptions() -> impl Iterator<Item = &'static Rule> {
    exceptions::RULES.iter().copied()
}

/// Returns all rules about trees, in the order of their groups. Rules about exceptions are not
/// included.
pub fn all() -> impl Iterator<Item = &'static Rule> {
    let groups = breaking::GROUPS.iter().chain(GROUPS);
    groups.flat_map(|group| group.iter().copied())
}

/// Returns the rule with that id; rules about exceptions are included.
#[must_use]
pub fn find(id: &str) -> Option<&'static Rule> {
    let mut rules = all().chain(of_exceptions());
    rules.find(|rule| rule.id == id)
}
