//! Rules about reserved and extension ranges, which must not overlap.

use prost_types::{DescriptorProto, EnumDescriptorProto};

use super::cursor::Cursor;
use crate::model::NumberRange;

const EXTENSIONS: &str = "extension range";

/// Range with the path of its statement below the current element.
struct Placed {
    range: NumberRange,
    path: [i32; 2],
    what: &'static str,
}

/// Reports overlapping ranges of the current message.
pub(super) fn check_message_ranges(cursor: &mut Cursor<'_>, name: &str, proto: &DescriptorProto) {
    let reserved = proto.reserved_range.iter().map(|range| NumberRange {
        first: range.start(),
        last: range.end().saturating_sub(1),
    });
    let extensions = proto.extension_range.iter().map(|range| NumberRange {
        first: range.start(),
        last: range.end().saturating_sub(1),
    });
    let mut ranges = placed(reserved, 9, "reserved range");
    ranges.extend(placed(extensions, 5, EXTENSIONS));
    check_overlaps(cursor, name, ranges);
}

/// Reports overlapping ranges of the current enum.
pub(super) fn check_enum_ranges(cursor: &mut Cursor<'_>, name: &str, proto: &EnumDescriptorProto) {
    let reserved = proto.reserved_range.iter().map(|range| NumberRange {
        first: range.start(),
        last: range.end(),
    });
    check_overlaps(cursor, name, placed(reserved, 4, "reserved range"));
}

fn check_overlaps(cursor: &mut Cursor<'_>, name: &str, mut ranges: Vec<Placed>) {
    if !cursor.is_text() {
        return;
    }
    ranges.retain(|placed| placed.range.first <= placed.range.last);
    ranges.sort_by_key(|placed| (placed.range, placed.path));
    // The range that reaches furthest so far.
    let mut before: Option<&Placed> = None;
    let mut found = Vec::new();
    for placed in &ranges {
        match before {
            Some(other) if placed.range.first <= other.range.last => {
                // As in compilers, the later statement has the error, and an extension
                // range if it overlaps a reserved one.
                let is_later = match (other.what == placed.what, placed.what) {
                    (true, _) => placed.path > other.path,
                    (false, what) => what == EXTENSIONS,
                };
                let (first, second) = if is_later {
                    (other, placed)
                } else {
                    (placed, other)
                };
                let why = format!(
                    "{name}: {} {} overlaps {} {}",
                    second.what,
                    shown(second.range),
                    first.what,
                    shown(first.range)
                );
                found.push((second.path, why));
            }
            _ => {}
        }
        if before.is_none_or(|other| placed.range.last > other.range.last) {
            before = Some(placed);
        }
    }
    for (path, why) in found {
        cursor.rule(&path, why);
    }
}

fn placed(ranges: impl Iterator<Item = NumberRange>, list: i32, what: &'static str) -> Vec<Placed> {
    let ranges = (0..).zip(ranges);
    ranges
        .map(|(index, range)| Placed {
            range,
            path: [list, index],
            what,
        })
        .collect()
}

fn shown(NumberRange { first, last }: NumberRange) -> String {
    if first == last {
        first.to_string()
    } else {
        format!("{first} to {last}")
    }
}
