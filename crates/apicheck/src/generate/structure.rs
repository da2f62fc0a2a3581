//! Structural differences of two trees, to compare generated files with existing ones.

use std::collections::BTreeMap;
use std::fmt;

use crate::hash::elements;
use crate::model::{Name, Tree};
use crate::plan::Plan;
use crate::print::Printer;

/// Element that differs between two trees, or that only one of them contains.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StructuralDifference {
    /// Full name of the element.
    pub element: String,
    /// Lines that only the first tree has.
    pub only_first: Vec<String>,
    /// Lines that only the second tree has.
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

/// Returns the messages, enums, services and extensions of target files that differ in meaning,
/// options included. Comments, order and file options do not count.
#[must_use]
pub fn structural_differences(first: &Tree, second: &Tree) -> Vec<StructuralDifference> {
    let (a, b) = (elements(first), elements(second));
    let plan = Plan::default();
    let (print_a, print_b) = (Printer::new(first, &plan), Printer::new(second, &plan));
    let mut names: Vec<&Name> = a.keys().chain(b.keys()).collect();
    names.sort_unstable();
    names.dedup();
    names
        .into_iter()
        .filter(|name| a.get(*name) != b.get(*name))
        .map(|name| {
            let (earlier, current) = (print_a.element(name), print_b.element(name));
            StructuralDifference {
                element: name.to_string(),
                only_first: lines_without(&earlier, &current),
                only_second: lines_without(&current, &earlier),
            }
        })
        .collect()
}

/// Returns the lines of `text` that `other` lacks, without comments and empty lines.
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
