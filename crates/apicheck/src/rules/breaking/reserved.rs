//! Numbers and names of removed members: reservations, reuse, extension ranges.

use super::text;
use crate::model::{Message, Name, NumberRange};
use crate::rule::{Category, Compares, Profiles, Rule};
use crate::rules::fact::{ALL, Fact};

/// Rules of this file.
pub(super) const RULES: &[&Rule] = &[
    &FIELD_NUMBER_REUSED,
    &RESERVED_REMOVED,
    &EXTENSION_RANGE_REMOVED,
    &REMOVED_UNRESERVED,
    &DEPRECATED_REMOVED,
];

static REMOVED_UNRESERVED: Rule = Rule {
    id: "REMOVED_UNRESERVED",
    behaviours: &["V-36"],
    purpose: "Number and name of a removed member are reserved",
    why: "Otherwise a later change may reuse them with another meaning. Add `reserved 7;` and `reserved \"name\";`.",
    category: Category::Policy,
    profiles: Profiles::ERROR,
    compares: Compares::Pair,
    buf: &[
        "FIELD_NO_DELETE",
        "FIELD_NO_DELETE_UNLESS_NUMBER_RESERVED",
        "FIELD_NO_DELETE_UNLESS_NAME_RESERVED",
        "ENUM_VALUE_NO_DELETE",
        "ENUM_VALUE_NO_DELETE_UNLESS_NUMBER_RESERVED",
        "ENUM_VALUE_NO_DELETE_UNLESS_NAME_RESERVED",
    ],
};

pub(crate) static DEPRECATED_REMOVED: Rule = Rule {
    id: "DEPRECATED_REMOVED",
    behaviours: &["V-36"],
    purpose: "A removed member is past its deprecation window",
    why: "The member was deprecated and is now reserved. The ledger decides whether the deprecation window has passed.",
    category: Category::Policy,
    profiles: Profiles::NOTE,
    compares: Compares::Pair,
    buf: &["FIELD_NO_DELETE", "ENUM_VALUE_NO_DELETE", "ONEOF_NO_DELETE"],
};

/// Reports a removed member that was deprecated. `kept` tells whether its number and its name are
/// reserved now.
pub(super) fn removed_after_deprecation(
    name: &str,
    number: i32,
    (number_kept, name_kept): (bool, bool),
) -> Fact {
    let what = format!("{name} = {number}");
    // Stable-API policy: number and name of a removed member stay reserved (V-36).
    if number_kept && name_kept {
        return Fact::new(&DEPRECATED_REMOVED, "removed after deprecation", what, "").breaks(ALL);
    }
    let fix = format!("reserved {number}; reserved \"{name}\";");
    Fact::new(&REMOVED_UNRESERVED, "removed, but not reserved", what, "")
        .breaks(ALL)
        .fix(fix)
}

static FIELD_NUMBER_REUSED: Rule = Rule {
    id: "FIELD_NUMBER_REUSED",
    behaviours: &["V-27"],
    purpose: "Numbers and names of removed members are not reused",
    why: "Old writers still use it with the old meaning. Use the next free number.",
    category: Category::Wire,
    profiles: Profiles::ERROR,
    compares: Compares::Pair,
    buf: &[
        "FIELD_SAME_NAME",
        "FIELD_SAME_JSON_NAME",
        "FIELD_SAME_TYPE",
        "FIELD_WIRE_COMPATIBLE_TYPE",
        "FIELD_WIRE_JSON_COMPATIBLE_TYPE",
        "RESERVED_MESSAGE_NO_DELETE",
        "RESERVED_ENUM_NO_DELETE",
    ],
};

/// Reports a member that reuses a number or name; `old` is its earlier owner or reservation.
pub(super) fn reused(message: String, old: String, new: &str) -> Fact {
    Fact::new(&FIELD_NUMBER_REUSED, message, old, new)
}

static RESERVED_REMOVED: Rule = Rule {
    id: "RESERVED_REMOVED",
    behaviours: &["V-27"],
    purpose: "Reserved numbers and names stay reserved",
    why: "A reservation protects the number of a removed field. Without it, a later change may reuse the number.",
    category: Category::Wire,
    profiles: Profiles::ERROR,
    compares: Compares::Pair,
    buf: &["RESERVED_MESSAGE_NO_DELETE", "RESERVED_ENUM_NO_DELETE"],
};

/// Reports numbers and names that are no longer reserved. Those that a new member uses are reported
/// at the member.
pub(super) fn unreserved(
    (earlier, current): (&[NumberRange], &[NumberRange]),
    (names_were, names_are): (&[Name], &[Name]),
    used: impl Fn(NumberRange) -> bool,
    name_used: impl Fn(&str) -> bool,
) -> Vec<Fact> {
    // Protobuf language guide: a reservation prevents the reuse of a number or
    // name (V-27).
    let numbers = uncovered(earlier, current)
        .into_iter()
        .filter(|range| !used(*range))
        .map(|range| {
            let text = text::range(range);
            Fact::new(
                &RESERVED_REMOVED,
                format!("{text} is no longer reserved"),
                text,
                "",
            )
        });
    let names = names_were
        .iter()
        .filter(|name| !names_are.contains(name) && !name_used(name))
        .map(|name| {
            let text = format!("\"{name}\"");
            Fact::new(
                &RESERVED_REMOVED,
                format!("{text} is no longer reserved"),
                text,
                "",
            )
        });
    numbers.chain(names).collect()
}

static EXTENSION_RANGE_REMOVED: Rule = Rule {
    id: "EXTENSION_RANGE_REMOVED",
    behaviours: &["V-27"],
    purpose: "Extension ranges are not removed",
    why: "An extension in another repository may use the numbers.",
    category: Category::Wire,
    profiles: Profiles::ERROR,
    compares: Compares::Pair,
    buf: &["EXTENSION_MESSAGE_NO_DELETE"],
};

pub(super) fn extension_ranges(earlier: &Message, current: &Message) -> Option<Fact> {
    let removed = uncovered(&earlier.extension_ranges, &current.extension_ranges);
    let texts: Vec<_> = removed.into_iter().map(text::range).collect();
    let text = texts.join(", ");
    (!text.is_empty()).then(|| {
        let message = format!("{text} is no longer an extension range");
        Fact::new(&EXTENSION_RANGE_REMOVED, message, text, "").breaks(ALL)
    })
}

/// Returns the parts of `earlier` that `current` does not contain, in order.
fn uncovered(earlier: &[NumberRange], current: &[NumberRange]) -> Vec<NumberRange> {
    let mut covers = current.to_vec();
    covers.sort_unstable();
    let mut left = Vec::new();
    for range in earlier {
        let mut first = Some(range.first);
        for cover in &covers {
            let Some(from) = first else { break };
            if cover.last < from || cover.first > range.last {
                continue;
            }
            if cover.first > from {
                left.push(NumberRange {
                    first: from,
                    last: cover.first - 1,
                });
            }
            first = cover.last.checked_add(1).filter(|next| *next <= range.last);
        }
        if let Some(first) = first {
            left.push(NumberRange {
                first,
                last: range.last,
            });
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn v27_reservation_gaps_are_reported_separately() {
        let range = |first, last| NumberRange { first, last };
        let left = uncovered(&[range(1, 10), range(20, 20)], &[range(7, 8), range(1, 3)]);
        assert_eq!(left, [range(4, 6), range(9, 10), range(20, 20)]);
        let end = i32::MAX;
        assert_eq!(uncovered(&[range(5, end)], &[range(1, end)]), []);
    }
}
