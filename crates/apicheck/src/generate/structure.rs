//! What two trees declare differently: for comparing what was generated with what is there.

use std::collections::BTreeMap;
use std::fmt;

use super::Plan;
use crate::hash::elements;
use crate::model::{Name, Tree};
use crate::print::Printer;

/// An element that two trees declare differently, or that one of them lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StructuralDifference {
    /// Its full name.
    pub element: String,
    /// The lines that only the first tree has.
    pub only_first: Vec<String>,
    /// The lines that only the second tree has.
    pub only_second: Vec<String>,
}

impl fmt::Display for StructuralDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.element)?;
        for line in &self.only_first {
            write!(f, "\n  - {line}")?;
        }
        for line in &self.only_second {
            write!(f, "\n  + {line}")?;
        }
        Ok(())
    }
}

/// The messages, enums, services and extensions of judged files that differ in meaning, options
/// included; comments, order and file options do not count.
#[must_use]
pub fn structural_differences(first: &Tree, second: &Tree) -> Vec<StructuralDifference> {
    let (a, b) = (elements(first), elements(second));
    let plan = Plan::default();
    let (print_a, print_b) = (Printer::new(first, &plan), Printer::new(second, &plan));
    let mut names: Vec<&Name> = a.keys().chain(b.keys()).collect();
    names.sort();
    names.dedup();
    names
        .into_iter()
        .filter(|name| a.get(*name) != b.get(*name))
        .map(|name| {
            let (was, is) = (print_a.element(name), print_b.element(name));
            StructuralDifference {
                element: name.to_string(),
                only_first: lines_without(&was, &is),
                only_second: lines_without(&is, &was),
            }
        })
        .collect()
}

/// The lines of `text` that `other` lacks, comments and empty lines left out.
fn lines_without(text: &str, other: &str) -> Vec<String> {
    let mut there: BTreeMap<&str, usize> = BTreeMap::new();
    for line in other.lines() {
        *there.entry(line.trim()).or_default() += 1;
    }
    let mut only = Vec::new();
    for line in text.lines().map(str::trim) {
        match there.get_mut(line) {
            Some(count) if *count > 0 => *count -= 1,
            _ if line.is_empty() || line.starts_with("//") => {}
            _ => only.push(line.to_owned()),
        }
    }
    only
}
