//! The rules, a module for each group. A group is a table of [`Rule`]s and the functions that find
//! what breaks them.

pub mod validation;

use crate::rule::Rule;

/// The tables of all groups.
pub(crate) const GROUPS: &[&[&Rule]] = &[validation::RULES];
