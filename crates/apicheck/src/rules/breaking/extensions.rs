//! Extensions of messages as a whole: removed, renamed, changed.

use super::declarations::{Sort, declaration, subject};
use super::files::Covers;
use super::text;
use crate::compare::{Comparison, Pair};
use crate::model::Extension;
use crate::rule::{Category, Compares, Profiles, Rule};
use crate::rules::fact::{ALL, ElementFacts, Fact};

/// Rules of this file.
pub(super) const RULES: &[&Rule] = &[&EXTENSION_REMOVED, &EXTENSION_RENAMED, &EXTENSION_CHANGED];

static EXTENSION_REMOVED: Rule = Rule {
    id: "EXTENSION_REMOVED",
    behaviours: &["V-27", "V-36"],
    purpose: "An extension is not removed",
    why: "Files that set the option no longer compile.",
    category: Category::Policy,
    profiles: Profiles::ERROR,
    compares: Compares::Pair,
    buf: &["EXTENSION_NO_DELETE", "PACKAGE_EXTENSION_NO_DELETE"],
};

static EXTENSION_RENAMED: Rule = Rule {
    id: "EXTENSION_RENAMED",
    behaviours: &["V-30"],
    purpose: "An extension keeps its full name",
    why: "Proto files that set the option, and generated code, contain the name.",
    category: Category::Source,
    profiles: Profiles::ERROR,
    compares: Compares::Pair,
    buf: &["EXTENSION_NO_DELETE", "PACKAGE_EXTENSION_NO_DELETE"],
};

/// Rules for extensions as declarations.
const EXTENSIONS: Sort = Sort {
    removed: &EXTENSION_REMOVED,
    renamed: &EXTENSION_RENAMED,
    annotation: None,
    called: false,
};

static EXTENSION_CHANGED: Rule = Rule {
    id: "EXTENSION_CHANGED",
    behaviours: &["V-27"],
    purpose: "An extension extends the same message, with the same number and type",
    why: "On the wire it is a field of that message, and options of compiled descriptors are read by number.",
    category: Category::Wire,
    profiles: Profiles::ERROR,
    compares: Compares::Pair,
    buf: &[
        "EXTENSION_NO_DELETE",
        "PACKAGE_EXTENSION_NO_DELETE",
        "FIELD_SAME_TYPE",
    ],
};

/// Reports the fate of an extension, and a changed number, type or extended message.
pub(super) fn extension(
    comparison: &Comparison<'_>,
    covers: &Covers<'_>,
    pair: Pair<&Extension>,
) -> Option<ElementFacts> {
    let whole = declaration(comparison, covers, pair, &EXTENSIONS);
    let changed = pair.both().and_then(|(old, new)| {
        let describe = |tree, one: &Extension, extendee: &str| {
            let (number, kind) = (one.field.number, text::type_of(tree, &one.field));
            let label = text::cardinality(one.field.cardinality);
            format!("{label} {kind} {number} of {extendee}")
        };
        let earlier = describe(comparison.old, old, &comparison.old[old.extendee].name);
        let current = describe(comparison.new, new, &comparison.new[new.extendee].name);
        // On the wire, an extension is a field of the extended message (V-27).
        let same = comparison.new_message(old.extendee) == Some(new.extendee)
            && old.field.number == new.field.number
            && old.field.cardinality == new.field.cardinality
            && comparison.same_type(&old.field, &new.field);
        let message = format!("changed from {earlier} to {current}");
        (!same).then(|| {
            let fact = Fact::new(&EXTENSION_CHANGED, message, earlier, current);
            ((old, new), fact.breaks(ALL))
        })
    });
    match (whole, changed) {
        (Some((subject, whole)), changed) => {
            let facts = changed.map(|(_, fact)| fact).into_iter().chain([whole]);
            Some((subject, facts.collect()))
        }
        (None, Some((both, fact))) => Some((subject(comparison, both), vec![fact])),
        (None, None) => None,
    }
}
