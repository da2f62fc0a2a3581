//! Compatibility inside a stable major (V-27 … V-37, except validation): one finding for each
//! changed element.

mod collisions;
mod declarations;
mod enums;
mod extensions;
mod fields;
mod files;
mod methods;
mod oneofs;
mod options;
mod required;
mod reserved;
mod shape;
mod text;

use files::Covers;

use super::fact::{ChangedElement, ElementFacts, Fact};
use crate::compare::{Comparison, Pair};
use crate::finding::Finding;
use crate::model::{Enum, Message, NumberRange};
use crate::rule::{Profile, Rule};

pub(super) use reserved::DEPRECATED_REMOVED;

/// Rules of each file of this module.
pub(super) const GROUPS: &[&[&Rule]] = &[
    files::RULES,
    options::RULES,
    declarations::RULES,
    fields::RULES,
    required::RULES,
    shape::RULES,
    oneofs::RULES,
    enums::RULES,
    methods::RULES,
    extensions::RULES,
    reserved::RULES,
    collisions::RULES,
];

/// Returns all findings of a comparison, by sort of element, then in the order of the trees.
///
/// An element has one finding; its values and message describe all changes. Elements inside a
/// removed, renamed or moved one have no finding for the same change.
#[must_use]
pub fn breaking(comparison: &Comparison<'_>, profile: Profile) -> Vec<Finding> {
    let covers = Covers::of(comparison);
    let mut found = files::enclosing(comparison, &covers);
    found.extend(file_options(comparison));
    found.extend(declared(comparison, &covers));
    found.extend(members(comparison));
    found.extend(collisions::by_additions(comparison));
    let findings = found.into_iter();
    findings
        .filter_map(|(subject, facts)| subject.finding(facts, profile))
        .collect()
}

fn file_options(comparison: &Comparison<'_>) -> Vec<ElementFacts> {
    let mut found = Vec::new();
    for (old, new) in comparison.files.iter().filter_map(Pair::both) {
        let (numbers, facts): (Vec<_>, Vec<_>) = options::facts(old, new).unzip();
        if let Some(first) = numbers.first() {
            let (earlier, current) = (options::source(old, *first), options::source(new, *first));
            let (earlier, current) = ((old.id, &earlier), (new.id, &current));
            let subject = ChangedElement::of(comparison, &*new.path, Some(earlier), Some(current));
            found.push((subject.formerly(&*old.path), facts));
        }
    }
    found
}

/// Compares messages, enums, services and extensions as a whole, and their reservations.
fn declared(comparison: &Comparison<'_>, covers: &Covers<'_>) -> Vec<ElementFacts> {
    let mut found = Vec::new();
    for &pair in &comparison.messages {
        let whole = declarations::declaration(comparison, covers, pair, &declarations::MESSAGES);
        let inside = pair.both().map(|(old, new)| message(old, new));
        found.extend(merged(comparison, pair, whole, inside.unwrap_or_default()));
    }
    for &pair in &comparison.enums {
        let whole = declarations::declaration(comparison, covers, pair, &declarations::ENUMS);
        let inside = pair.both().map(|(old, new)| enumeration(old, new));
        found.extend(merged(comparison, pair, whole, inside.unwrap_or_default()));
    }
    for &pair in &comparison.services {
        let whole = declarations::declaration(comparison, covers, pair, &declarations::SERVICES);
        found.extend(whole.map(|(subject, fact)| (subject, vec![fact])));
    }
    for &pair in &comparison.extensions {
        found.extend(extensions::extension(comparison, covers, pair));
    }
    found
}

/// Merges the changes of a declaration and of its reservations into one finding.
fn merged<D: declarations::Declaration>(
    comparison: &Comparison<'_>,
    pair: Pair<&D>,
    whole: Option<(ChangedElement, Fact)>,
    inside: Vec<Fact>,
) -> Option<ElementFacts> {
    if let Some((subject, fact)) = whole {
        return Some((subject, [fact].into_iter().chain(inside).collect()));
    }
    let both = pair.both()?;
    (!inside.is_empty()).then(|| (declarations::subject(comparison, both), inside))
}

fn message(old: &Message, new: &Message) -> Vec<Fact> {
    let is_added = |range: NumberRange| {
        let mut fields = new
            .fields
            .iter()
            .filter(|field| range.contains(field.number));
        fields.any(|field| old.field(field.number).is_none())
    };
    let named = |name: &str| new.field_by_name(name).is_some();
    let ranges = (&*old.reserved.numbers, &*new.reserved.numbers);
    let names = (&*old.reserved.names, &*new.reserved.names);
    let mut facts = reserved::unreserved(ranges, names, is_added, named);
    facts.extend(reserved::extension_ranges(old, new));
    facts
}

fn enumeration(old: &Enum, new: &Enum) -> Vec<Fact> {
    let is_added = |range: NumberRange| new.values.iter().any(|value| range.contains(value.number));
    let named = |name: &str| new.values.iter().any(|value| &*value.name == name);
    let ranges = (&*old.reserved.numbers, &*new.reserved.numbers);
    let names = (&*old.reserved.names, &*new.reserved.names);
    let mut facts = reserved::unreserved(ranges, names, is_added, named);
    facts.extend(enums::openness(old, new));
    facts
}

/// Compares the members of elements that both trees contain.
fn members(comparison: &Comparison<'_>) -> Vec<ElementFacts> {
    let mut found: Vec<ElementFacts> = Vec::new();
    for member in &comparison.fields {
        let facts = fields::facts(comparison, member);
        if !facts.is_empty() {
            found.push((ChangedElement::member(comparison, member), facts));
        }
    }
    for member in &comparison.oneofs {
        let mut facts = oneofs::renamed(member);
        facts.extend(required::oneof(member));
        if !facts.is_empty() {
            found.push((ChangedElement::member(comparison, member), facts));
        }
    }
    let strict = enums::strictly_read(comparison.old);
    for member in &comparison.values {
        let fact = enums::value(member, &strict);
        found.extend(fact.map(|fact| (ChangedElement::member(comparison, member), vec![fact])));
    }
    for member in &comparison.methods {
        let facts = methods::method(comparison, member);
        if !facts.is_empty() {
            found.push((ChangedElement::member(comparison, member), facts));
        }
    }
    found
}
