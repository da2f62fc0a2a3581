//! The rules, a module for each group. A group is a table of [`Rule`]s and the functions that find
//! what breaks them.

mod additions;
mod breaking;
mod dependencies;
mod exempt;
mod fact;
mod grace;
mod json;
mod lifecycle;
mod lint;
mod packages;
mod removal;
mod source;
pub mod validation;
pub mod versions;
mod wire;
mod young;

pub use breaking::breaking;
pub use exempt::exempt;
pub use grace::grace;
pub use lifecycle::{lifecycle, promotions, windows};
pub use lint::{Policy, lint, odr};
pub use young::{exempt_young, youth};

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
