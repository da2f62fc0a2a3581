//! The rules, a module for each group. A group is a table of [`Rule`]s and the functions that find
//! what breaks them.

mod additions;
mod breaking;
mod dependencies;
mod exempt;
mod fact;
mod json;
mod lifecycle;
mod lint;
mod packages;
mod removal;
mod source;
pub mod validation;
pub mod versions;
mod wire;

pub use breaking::breaking;
pub use exempt::exempt;
pub use lifecycle::{lifecycle, promotions, windows};
pub use lint::{Policy, lint, odr};

use crate::rule::Rule;

/// The tables of all groups.
pub(crate) const GROUPS: &[&[&Rule]] = &[
    wire::RULES,
    json::RULES,
    source::RULES,
    additions::RULES,
    removal::RULES,
    validation::RULES,
    versions::RULES,
    packages::RULES,
    dependencies::RULES,
    lifecycle::RULES,
];
