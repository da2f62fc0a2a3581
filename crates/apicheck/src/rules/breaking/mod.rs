//! Compatibility inside a stable major (V-27 … V-37, validation apart): one finding for each element
//! that changed.

mod collisions;
mod declarations;
mod fields;
mod members;
mod options;
mod text;
mod types;

use declarations::Covers;

use super::additions;
use super::fact::{Fact, Subject};
use crate::compare::{Comparison, Pair};
use crate::finding::Finding;
use crate::model::{Enum, Message, Range};
use crate::rule::Profile;

/// All findings of a comparison, by group of elements, then in the order of the trees.
///
/// An element has one finding, its values and message tell all that changed about it. What lies in something that is gone,
/// renamed or moved as a whole has none of its own for that.
#[must_use]
pub fn breaking(comparison: &Comparison<'_>, profile: Profile) -> Vec<Finding> {
    let covers = Covers::of(comparison);
    let mut found = declarations::enclosing(comparison, &covers);
    found.extend(file_options(comparison));
    found.extend(declared(comparison, &covers));
    found.extend(members(comparison));
    found.extend(collisions::brought_in(comparison));
    let findings = found.into_iter();
    findings
        .filter_map(|(subject, facts)| subject.finding(facts, profile))
        .collect()
}

type Found = (Subject, Vec<Fact>);

fn file_options(comparison: &Comparison<'_>) -> Vec<Found> {
    let mut found = Vec::new();
    for (old, new) in comparison.files.iter().filter_map(Pair::both) {
        let (numbers, facts): (Vec<_>, Vec<_>) = options::facts(old, new).unzip();
        if let Some(first) = numbers.first() {
            let (was, is) = (options::source(old, *first), options::source(new, *first));
            let (was, is) = ((old.id, &was), (new.id, &is));
            let subject = Subject::of(comparison, &*new.path, Some(was), Some(is));
            found.push((subject, facts));
        }
    }
    found
}

/// Messages, enums, services and extensions as a whole, with what they reserve.
fn declared(comparison: &Comparison<'_>, covers: &Covers<'_>) -> Vec<Found> {
    let mut found = Vec::new();
    for &pair in &comparison.messages {
        let whole = declarations::declaration(comparison, covers, pair, &declarations::MESSAGES);
        let inside = pair.both().map(|(old, new)| message(old, new));
        found.extend(together(
            comparison,
            pair,
            whole,
            inside.unwrap_or_default(),
        ));
    }
    for &pair in &comparison.enums {
        let whole = declarations::declaration(comparison, covers, pair, &declarations::ENUMS);
        let inside = pair.both().map(|(old, new)| enumeration(old, new));
        found.extend(together(
            comparison,
            pair,
            whole,
            inside.unwrap_or_default(),
        ));
    }
    for &pair in &comparison.services {
        let whole = declarations::declaration(comparison, covers, pair, &declarations::SERVICES);
        found.extend(whole.map(|(subject, fact)| (subject, vec![fact])));
    }
    for &pair in &comparison.extensions {
        found.extend(declarations::extension(comparison, covers, pair));
    }
    found
}

/// One finding for a declaration, from what is wrong with it and with what it reserves.
fn together<D: declarations::Declaration>(
    comparison: &Comparison<'_>,
    pair: Pair<&D>,
    whole: Option<(Subject, Fact)>,
    inside: Vec<Fact>,
) -> Option<Found> {
    if let Some((subject, fact)) = whole {
        return Some((subject, [fact].into_iter().chain(inside).collect()));
    }
    let (old, new) = pair.both()?;
    (!inside.is_empty()).then(|| {
        let (was, is) = ((old.file(), old.source()), (new.file(), new.source()));
        (
            Subject::of(comparison, new.name(), Some(was), Some(is)),
            inside,
        )
    })
}

fn message(old: &Message, new: &Message) -> Vec<Fact> {
    let came = |range: Range| {
        let mut fields = new
            .fields
            .iter()
            .filter(|field| range.contains(field.number));
        fields.any(|field| old.field(field.number).is_none())
    };
    let named = |name: &str| new.field_by_name(name).is_some();
    let reserved = (&*old.reserved, &*new.reserved);
    let names = (&*old.reserved_names, &*new.reserved_names);
    let mut facts = members::unreserved(reserved, names, came, named);
    facts.extend(members::extension_ranges(old, new));
    facts
}

fn enumeration(old: &Enum, new: &Enum) -> Vec<Fact> {
    let came = |range: Range| new.values.iter().any(|value| range.contains(value.number));
    let named = |name: &str| new.values.iter().any(|value| &*value.name == name);
    let reserved = (&*old.reserved, &*new.reserved);
    let names = (&*old.reserved_names, &*new.reserved_names);
    let mut facts = members::unreserved(reserved, names, came, named);
    facts.extend(declarations::openness(old, new));
    facts
}

/// Members of what both trees have.
fn members(comparison: &Comparison<'_>) -> Vec<Found> {
    let mut found: Vec<Found> = Vec::new();
    for member in &comparison.fields {
        let facts = fields::facts(comparison, member);
        if !facts.is_empty() {
            found.push((Subject::member(comparison, member), facts));
        }
    }
    for member in &comparison.oneofs {
        let facts = members::oneof(member);
        if !facts.is_empty() {
            found.push((Subject::member(comparison, member), facts));
        }
    }
    let strict = additions::strictly_read(comparison.old);
    for member in &comparison.values {
        let fact = members::value(member).or_else(|| additions::value(member, &strict));
        found.extend(fact.map(|fact| (Subject::member(comparison, member), vec![fact])));
    }
    for member in &comparison.methods {
        let facts = members::method(comparison, member);
        if !facts.is_empty() {
            found.push((Subject::member(comparison, member), facts));
        }
    }
    found
}
