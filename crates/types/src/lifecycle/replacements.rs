//! Replacements of deprecated elements, from the comments of the API (`data/replacements.txt`). Descriptors have no
//! comments.

use std::collections::HashMap;
use std::sync::LazyLock;

static TABLE: &str = include_str!("../../data/replacements.txt");

/// Replacement of a deprecated element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replacement<'a> {
    /// Full name of a field, a message or an enum value.
    Element(&'a str),
    /// Nothing, and why.
    None(&'a str),
}

/// Returns the replacement of an element by full name.
pub(super) fn find(element: &str) -> Option<Replacement<'static>> {
    static BY_NAME: LazyLock<HashMap<&'static str, Replacement<'static>>> =
        LazyLock::new(|| rows().collect());
    BY_NAME.get(element).copied()
}

/// Returns all rows of the table, in its order.
pub(super) fn rows() -> impl Iterator<Item = (&'static str, Replacement<'static>)> {
    let lines = TABLE.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| {
        let replaced = line
            .split_once(" -> ")
            .map(|(element, new)| (element, Replacement::Element(new)));
        replaced.or_else(|| {
            let (element, reason) = line.split_once(": ")?;
            Some((element, Replacement::None(reason)))
        })
    })
}
