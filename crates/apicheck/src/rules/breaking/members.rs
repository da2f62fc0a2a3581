//! Oneofs, values and methods of what both trees have, and what is reserved.

use super::text;
use crate::compare::{Comparison, Fate, Member, Pair};
use crate::model::{Enum, EnumValue, Message, Method, Name, Oneof, Range, Service};
use crate::rules::fact::{ALL, Fact};
use crate::rules::json::{ENUM_VALUE_RENAMED, ENUM_ZERO_CHANGED, METHOD_HTTP_CHANGED};
use crate::rules::removal::{
    DEPRECATED_REMOVED, ENUM_VALUE_REMOVED, METHOD_REMOVED, REMOVED_UNRESERVED,
};
use crate::rules::source::ONEOF_RENAMED;
use crate::rules::wire::{
    ENUM_VALUE_RENUMBERED, EXTENSION_RANGE_REMOVED, FIELD_NUMBER_REUSED,
    METHOD_IDEMPOTENCY_CHANGED, METHOD_RENAMED, METHOD_STREAMING_CHANGED, METHOD_TYPE_CHANGED,
    RESERVED_REMOVED,
};

/// A oneof that is gone or new is judged at its fields.
pub(super) fn oneof(member: &Member<'_, Message, Oneof>) -> Vec<Fact> {
    match member.pair {
        Pair::Both {
            old,
            new,
            fate: Fate::Renamed,
        } => {
            let message = format!("renamed from {} to {}", old.name, new.name);
            vec![Fact::new(&ONEOF_RENAMED, message, &*old.name, &*new.name).breaks(ALL)]
        }
        _ => Vec::new(),
    }
}

pub(super) fn value(member: &Member<'_, Enum, EnumValue>) -> Option<Fact> {
    match member.pair {
        Pair::Removed(old) => Some(value_removed(old, member.new_owner)),
        Pair::Added(new) => value_reused(member.old_owner, new),
        Pair::Both { old, new, fate } => match fate {
            Fate::Kept => None,
            Fate::Renumbered => {
                let message = format!("renumbered from {} to {}", old.number, new.number);
                let (was, is) = (old.number.to_string(), new.number.to_string());
                Some(Fact::new(&ENUM_VALUE_RENUMBERED, message, was, is))
            }
            Fate::Renamed | Fate::Replaced => Some(value_renamed(old, new)),
        },
    }
}

fn value_removed(old: &EnumValue, owner: &Enum) -> Fact {
    let what = format!("{} = {}", old.name, old.number);
    let alias = owner.values.iter().any(|value| value.number == old.number);
    if old.number == 0 && !alias {
        return Fact::new(&ENUM_ZERO_CHANGED, "the zero value was removed", what, "").breaks(ALL);
    }
    if !old.options.deprecated() {
        let message = "removed without having been deprecated";
        return Fact::new(&ENUM_VALUE_REMOVED, message, what, "").breaks(ALL);
    }
    let number_kept = alias
        || owner
            .reserved
            .iter()
            .any(|range| range.contains(old.number));
    if number_kept && owner.reserved_names.contains(&old.name) {
        return Fact::new(&DEPRECATED_REMOVED, "deprecated, and removed now", what, "").breaks(ALL);
    }
    let fix = format!("reserved {}; reserved \"{}\";", old.number, old.name);
    Fact::new(&REMOVED_UNRESERVED, "removed, but not reserved", what, "")
        .breaks(ALL)
        .fix(fix)
}

fn value_reused(was: &Enum, new: &EnumValue) -> Option<Fact> {
    let reserved = if was.reserved.iter().any(|range| range.contains(new.number)) {
        format!("reserved {}", new.number)
    } else if was.reserved_names.contains(&new.name) {
        format!("reserved \"{}\"", new.name)
    } else {
        return None;
    };
    let message = "uses a number or name that was reserved";
    Some(Fact::new(
        &FIELD_NUMBER_REUSED,
        message,
        reserved,
        &*new.name,
    ))
}

fn value_renamed(old: &EnumValue, new: &EnumValue) -> Fact {
    let rule = if old.number == 0 {
        &ENUM_ZERO_CHANGED
    } else {
        &ENUM_VALUE_RENAMED
    };
    let message = format!("renamed from {} to {}", old.name, new.name);
    let fix = format!(
        "keep the name, and annotate [(udpa.annotations.enum_value_migrate).rename = \"{}\"]",
        new.name
    );
    Fact::new(rule, message, &*old.name, &*new.name)
        .breaks(ALL)
        .fix(fix)
}

pub(super) fn method(
    comparison: &Comparison<'_>,
    member: &Member<'_, Service, Method>,
) -> Vec<Fact> {
    let (old, new, fate) = match member.pair {
        Pair::Both { old, new, fate } => (old, new, fate),
        Pair::Removed(old) => {
            return vec![Fact::new(&METHOD_REMOVED, "removed", &*old.name, "").breaks(ALL)];
        }
        Pair::Added(_) => return Vec::new(),
    };
    let mut facts = Vec::new();
    if fate != Fate::Kept {
        let message = format!("renamed from {} to {}", old.name, new.name);
        facts.push(Fact::new(&METHOD_RENAMED, message, &*old.name, &*new.name).breaks(ALL));
    }
    let types = [
        ("request", old.input, new.input),
        ("response", old.output, new.output),
    ];
    for (what, was, is) in types {
        if comparison.new_message(was) != Some(is) {
            let (was, is) = (&comparison.old[was].name, &comparison.new[is].name);
            let message = format!("{what} changed from {was} to {is}");
            facts.push(Fact::new(&METHOD_TYPE_CHANGED, message, &**was, &**is).breaks(ALL));
        }
    }
    let streams = [
        ("client", old.client_streaming, new.client_streaming),
        ("server", old.server_streaming, new.server_streaming),
    ];
    for (what, was, is) in streams {
        if was != is {
            let message = format!(
                "the {what} {} streams",
                if is { "now" } else { "no longer" }
            );
            let (was, is) = (was.to_string(), is.to_string());
            facts.push(Fact::new(&METHOD_STREAMING_CHANGED, message, was, is).breaks(ALL));
        }
    }
    facts.extend(method_options(old, new));
    facts
}

fn method_options(old: &Method, new: &Method) -> impl Iterator<Item = Fact> {
    let print =
        |value: Option<&prost_reflect::Value>| value.map_or_else(String::new, ToString::to_string);
    let level = |method: &Method| {
        let level = method.options.get("idempotency_level");
        level
            .and_then(prost_reflect::Value::as_enum_number)
            .unwrap_or_default()
    };
    let http = |method: &Method| print(method.options.extension("google.api.http"));
    let idempotency = (level(old) != level(new)).then(|| {
        let (was, is) = (level(old).to_string(), level(new).to_string());
        let message = "idempotency_level changed";
        Fact::new(&METHOD_IDEMPOTENCY_CHANGED, message, was, is)
    });
    // A binding where there was none takes nothing away.
    let bound = old.options.extension("google.api.http").is_some() && http(old) != http(new);
    let binding = bound.then(|| {
        let message = "its REST binding changed";
        Fact::new(&METHOD_HTTP_CHANGED, message, http(old), http(new))
    });
    idempotency.into_iter().chain(binding)
}

/// What is no longer reserved, apart from what a new member uses: that is judged there.
pub(super) fn unreserved(
    (was, is): (&[Range], &[Range]),
    (names_were, names_are): (&[Name], &[Name]),
    used: impl Fn(Range) -> bool,
    name_used: impl Fn(&str) -> bool,
) -> Vec<Fact> {
    let numbers = uncovered(was, is)
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

pub(super) fn extension_ranges(was: &Message, is: &Message) -> Option<Fact> {
    let gone = uncovered(&was.extension_ranges, &is.extension_ranges);
    let texts: Vec<_> = gone.into_iter().map(text::range).collect();
    let text = texts.join(", ");
    (!text.is_empty()).then(|| {
        let message = format!("{text} is no longer left to extensions");
        Fact::new(&EXTENSION_RANGE_REMOVED, message, text, "").breaks(ALL)
    })
}

/// The parts of `was` that `is` does not hold, in order.
fn uncovered(was: &[Range], is: &[Range]) -> Vec<Range> {
    let mut covers = is.to_vec();
    covers.sort_unstable();
    let mut left = Vec::new();
    for range in was {
        let mut first = Some(range.first);
        for cover in &covers {
            let Some(from) = first else { break };
            if cover.last < from || cover.first > range.last {
                continue;
            }
            if cover.first > from {
                left.push(Range {
                    first: from,
                    last: cover.first - 1,
                });
            }
            first = cover.last.checked_add(1).filter(|next| *next <= range.last);
        }
        if let Some(first) = first {
            left.push(Range {
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
    fn v27_what_is_no_longer_reserved_is_told_part_by_part() {
        let range = |first, last| Range { first, last };
        let left = uncovered(&[range(1, 10), range(20, 20)], &[range(7, 8), range(1, 3)]);
        assert_eq!(left, [range(4, 6), range(9, 10), range(20, 20)]);
        let end = i32::MAX;
        assert_eq!(uncovered(&[range(5, end)], &[range(1, end)]), []);
    }
}
