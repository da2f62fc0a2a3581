//! Rewrites encoded messages along their plans. Unchanged bytes are copied.

use std::borrow::Cow;

use prost::DecodeError;
use prost::encoding::{WireType, decode_key, decode_varint, encode_key, encode_varint};

use super::catalog::{Becomes, Catalog};
use super::plan::{Action, Child, Content, EnumPlan, FieldPlan, Integer, Plan, Shape};
use super::report::{Incompatibility, Trail, TrailStep};
use super::unknown::UnknownFields;
use crate::depth::{MAX_DEPTH, TooDeep};
use crate::wire::{Occurrence, occurrence, put};

/// Receives the path to a field, and the reason for which it is dropped.
pub(crate) type Note<'a> = dyn FnMut(&Trail<'_>, Incompatibility) + 'a;

/// One translation under way.
pub(super) struct Rewriter<'a, 'n> {
    pub(super) catalog: &'a Catalog,
    pub(super) note: &'a mut Note<'n>,
    pub(super) depth: usize,
    /// Whether a message became one of an older major, and lost a field.
    pub(super) lost_down: bool,
    pub(super) down: bool,
    /// Whether the last `Any` or `TypedStruct` was dropped, with the field that has it.
    pub(super) gone: bool,
}

/// Facts about a message that its fields share while they are rewritten.
#[derive(Default)]
struct MessageFacts {
    /// Number of items so far of each list.
    items: Vec<(u32, usize)>,
    /// Number of the field that is set in each oneof where fields meet: oneof, field.
    oneofs: Vec<(String, u32)>,
    /// Numbers of the fields of the whole message, if a field needs to know.
    set: Vec<u32>,
}

impl<'a> Rewriter<'a, '_> {
    /// Rewrites a message.
    pub(super) fn message(
        &mut self,
        plan: &'a Plan,
        input: &[u8],
        trail: &Trail<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), DecodeError> {
        self.nested(plan.down, trail, |this| match plan.content {
            _ if plan.is_verbatim() => {
                out.extend_from_slice(input);
                Ok(())
            }
            Content::Any => this.typed(Packed::Message, input, trail, out),
            Content::TypedStruct if plan.same => this.typed(Packed::Struct, input, trail, out),
            _ => this.fields(plan, input, trail, out),
        })
    }

    /// Runs `inner` one level deeper, in the direction of a plan. Content that nests too deep is reported and dropped.
    pub(super) fn nested(
        &mut self,
        down: bool,
        trail: &Trail<'_>,
        inner: impl FnOnce(&mut Self) -> Result<(), DecodeError>,
    ) -> Result<(), DecodeError> {
        if self.depth > MAX_DEPTH {
            self.note(trail, Incompatibility::Malformed(TooDeep::limit()));
            return Ok(());
        }
        self.depth += 1;
        let outer = std::mem::replace(&mut self.down, down);
        inner(self)?;
        self.down = outer;
        self.depth -= 1;
        Ok(())
    }

    fn fields(
        &mut self,
        plan: &'a Plan,
        mut input: &[u8],
        trail: &Trail<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), DecodeError> {
        let is_map = |number| {
            let field = plan.field(number);
            field.is_some_and(|field| field.shape == Shape::Map)
        };
        let mut seen = MessageFacts::default();
        if plan.has_replaced() {
            let mut rest = input;
            while !rest.is_empty() {
                seen.set.push(occurrence(&mut rest, is_map)?.number);
            }
        }
        while !input.is_empty() {
            let at = occurrence(&mut input, is_map)?;
            match plan.field(at.number) {
                Some(field) => self.field(plan, field, &at, trail, &mut seen, out)?,
                None if plan.same => out.extend_from_slice(at.whole),
                None => self.unknown(plan, &at, trail, out),
            }
        }
        for fixed in &plan.fixed {
            encode_key(fixed.number, WireType::Varint, out);
            encode_varint(i64::from(fixed.value) as u64, out);
        }
        Ok(())
    }

    /// Keeps an unknown field, unless its number has a meaning in the other major.
    fn unknown(&mut self, plan: &Plan, at: &Occurrence<'_>, trail: &Trail<'_>, out: &mut Vec<u8>) {
        if self.catalog.unknown_fields() == UnknownFields::Keep && !plan.defines(at.number) {
            out.extend_from_slice(at.whole);
            return;
        }
        let message = plan.to.clone();
        let trail = trail.then(TrailStep::Unknown(at.number));
        self.note(&trail, Incompatibility::NoField { message });
    }

    fn field(
        &mut self,
        plan: &'a Plan,
        field: &'a FieldPlan,
        at: &Occurrence<'_>,
        trail: &Trail<'_>,
        seen: &mut MessageFacts,
        out: &mut Vec<u8>,
    ) -> Result<(), DecodeError> {
        let trail = &trail.then(TrailStep::Field(&field.name));
        if let Action::Drop(cause) = &field.action {
            self.note(trail, cause.clone());
            return Ok(());
        }
        if plan
            .fixed
            .iter()
            .any(|fixed| fixed.number == field.to.number)
        {
            return Ok(());
        }
        if let Some(other) = field.yields_to.filter(|other| seen.set.contains(other)) {
            self.replaced(plan, other, trail);
            return Ok(());
        }
        if let Some(oneof) = &field.to.oneof
            && !self.takes(plan, oneof, field, trail, seen)
        {
            return Ok(());
        }
        match field.shape {
            Shape::Map => self.entry(plan, field, at, trail, out),
            Shape::One => {
                self.plain(
                    plan,
                    (field.to.number, field),
                    (at.wire, at.body),
                    trail,
                    out,
                )?;
                Ok(())
            }
            Shape::List => self.items(plan, field, at, trail, seen, out),
        }
    }

    /// Reports a field whose replacement is set.
    pub(super) fn replaced(&mut self, plan: &Plan, other: u32, trail: &Trail<'_>) {
        let other = plan.field(other).map(|field| field.name.clone());
        let cause = Incompatibility::Replaced {
            message: plan.to.clone(),
            other: other.unwrap_or_default(),
        };
        self.note(trail, cause);
    }

    /// Returns whether a field is the first one that is set in a oneof.
    fn takes(
        &mut self,
        plan: &Plan,
        oneof: &str,
        field: &FieldPlan,
        trail: &Trail<'_>,
        seen: &mut MessageFacts,
    ) -> bool {
        let Some((_, first)) = seen.oneofs.iter().find(|(name, _)| name == oneof) else {
            seen.oneofs.push((oneof.to_owned(), field.number));
            return true;
        };
        if *first == field.number {
            return true;
        }
        let other = plan.field(*first).map(|field| field.name.clone());
        let cause = Incompatibility::OneOf {
            message: plan.to.clone(),
            oneof: oneof.to_owned(),
            other: other.unwrap_or_default(),
        };
        self.note(trail, cause);
        false
    }

    /// Rewrites one or more items of a list: numbers may be packed.
    fn items(
        &mut self,
        plan: &'a Plan,
        field: &'a FieldPlan,
        at: &Occurrence<'_>,
        trail: &Trail<'_>,
        seen: &mut MessageFacts,
        out: &mut Vec<u8>,
    ) -> Result<(), DecodeError> {
        if matches!(field.action, Action::Copy) && field.to.is_list {
            copy(field, at.wire, at.body, at.whole, out);
            return Ok(());
        }
        if let (WireType::LengthDelimited, Some((wire, size))) = (at.wire, field.packable) {
            let (mut packed, mut single, mut kept) = (at.body, Vec::new(), Vec::new());
            while !packed.is_empty() {
                let item = packed;
                match size {
                    0 => drop(decode_varint(&mut packed)?),
                    size => packed = packed.get(size..).unwrap_or_default(),
                }
                let item = &item[..item.len() - packed.len()];
                let index = count(&mut seen.items, field.number);
                let trail = trail.then(TrailStep::Index(index));
                single.clear();
                self.item(plan, field, (wire, item), index, &trail, &mut single)?;
                let mut value = &single[..];
                if !value.is_empty() {
                    decode_key(&mut value)?;
                }
                kept.extend_from_slice(value);
            }
            if field.to.is_list {
                // A packed list stays packed.
                put(field.to.number, &kept, out);
            } else if !kept.is_empty() {
                raw(field.to.number, wire, &kept, out);
            }
            return Ok(());
        }
        let index = count(&mut seen.items, field.number);
        let trail = trail.then(TrailStep::Index(index));
        self.item(plan, field, (at.wire, at.body), index, &trail, out)
    }

    fn item(
        &mut self,
        plan: &'a Plan,
        field: &'a FieldPlan,
        (wire, body): (WireType, &[u8]),
        index: usize,
        trail: &Trail<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), DecodeError> {
        if index > 0 && !field.to.is_list {
            let message = plan.to.clone();
            self.note(trail, Incompatibility::NotAList { message });
            return Ok(());
        }
        self.plain(plan, (field.to.number, field), (wire, body), trail, out)?;
        Ok(())
    }

    /// Rewrites one entry of a map: a message with the fields 1 (key) and 2 (value).
    fn entry(
        &mut self,
        plan: &'a Plan,
        field: &'a FieldPlan,
        at: &Occurrence<'_>,
        trail: &Trail<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), DecodeError> {
        if matches!(field.action, Action::Copy) {
            put(field.to.number, at.body, out);
            return Ok(());
        }
        let mut fields = Vec::new();
        let mut input = at.body;
        while !input.is_empty() {
            fields.push(occurrence(&mut input, |_| false)?);
        }
        let key = fields.iter().rfind(|field| field.number == 1);
        let key = key.map_or(Cow::Borrowed(""), key_text);
        let trail = &trail.then(TrailStep::Key(&key));
        let mut body = Vec::with_capacity(at.body.len());
        for part in &fields {
            if part.number != 2 {
                body.extend_from_slice(part.whole);
            } else if !self.plain(plan, (2, field), (part.wire, part.body), trail, &mut body)? {
                return Ok(());
            }
        }
        put(field.to.number, &body, out);
        Ok(())
    }

    /// Rewrites one value to the field with this number, and returns whether it was kept.
    fn plain(
        &mut self,
        plan: &'a Plan,
        (number, field): (u32, &'a FieldPlan),
        (wire, body): (WireType, &[u8]),
        trail: &Trail<'_>,
        out: &mut Vec<u8>,
    ) -> Result<bool, DecodeError> {
        match &field.action {
            Action::Message(child) => {
                return self.inner(number, *child, (wire, body), trail, out);
            }
            Action::Enum(of) => {
                // Negative values are encoded in ten bytes, sign-extended to 64 bits.
                let value = decode_varint(&mut &*body)? as i32;
                let Some(value) = self.enum_value(of, value, trail) else {
                    return Ok(false);
                };
                encode_key(number, WireType::Varint, out);
                encode_varint(i64::from(value) as u64, out);
            }
            Action::Integer(from, to) => {
                let value = from.read(decode_varint(&mut &*body)?);
                if !(to.min..=to.max).contains(&value) {
                    let cause = Incompatibility::OutOfRange {
                        message: plan.to.clone(),
                        value: value.to_string(),
                        to: to.name.to_owned(),
                    };
                    self.note(trail, cause);
                    return Ok(false);
                }
                encode_key(number, WireType::Varint, out);
                encode_varint(value as u64, out);
            }
            Action::Copy | Action::Drop(_) => raw(number, wire, body, out),
        }
        Ok(true)
    }

    /// Returns the number of an enum value in the other major.
    fn enum_value(&mut self, of: &EnumPlan, value: i32, trail: &Trail<'_>) -> Option<i32> {
        let known = of.values.iter().find(|((_, number), _)| *number == value);
        match known {
            Some((_, Some((_, number)))) => return Some(*number),
            // An explicit zero is the same as an unset field.
            Some((_, None)) if value == 0 && !of.explicit => return Some(0),
            None if self.catalog.unknown_fields() == UnknownFields::Keep
                && !of.numbers.contains(&value) =>
            {
                return Some(value);
            }
            _ => {}
        }
        let enumeration = of.to.clone();
        let number = value;
        let cause = Incompatibility::NoEnumValue {
            enumeration,
            number,
        };
        self.note(trail, cause);
        None
    }

    /// Rewrites a message in a field, and returns whether it was kept.
    fn inner(
        &mut self,
        number: u32,
        child: Child,
        (wire, body): (WireType, &[u8]),
        trail: &Trail<'_>,
        out: &mut Vec<u8>,
    ) -> Result<bool, DecodeError> {
        let plan = self.catalog.plan(child);
        if !matches!(wire, WireType::LengthDelimited | WireType::StartGroup) {
            let name = self.catalog.name_of(child.slot);
            let cause = Incompatibility::Malformed(format!("expected a {name}"));
            self.note(trail, cause);
            return Ok(false);
        }
        if plan.is_verbatim() {
            raw(number, wire, body, out);
            return Ok(true);
        }
        let mut inside = Vec::with_capacity(body.len());
        self.message(plan, body, trail, &mut inside)?;
        if std::mem::take(&mut self.gone) {
            return Ok(false);
        }
        raw(number, wire, &inside, out);
        Ok(true)
    }

    /// Rewrites an `Any` or a `TypedStruct`: its type URL and its content. One that does not change keeps its bytes.
    fn typed(
        &mut self,
        packed: Packed,
        input: &[u8],
        trail: &Trail<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), DecodeError> {
        let typed = Typed::read(input, packed == Packed::Struct)?;
        let Ok(type_url) = std::str::from_utf8(typed.type_url) else {
            let reason = "type URL is not UTF-8".to_owned();
            self.note(trail, Incompatibility::Malformed(reason));
            return Ok(());
        };
        let (host, name) = type_url.split_at(type_url.rfind('/').map_or(0, |slash| slash + 1));
        // The type URL of an `Any` has a slash (`any.proto`).
        let is_url = !host.is_empty() || packed == Packed::Struct;
        let Some((plan, to)) = is_url.then(|| self.content(name, trail)).flatten() else {
            out.extend_from_slice(input);
            return Ok(());
        };
        let Some(plan) = plan else { return Ok(()) };
        let mut value = Vec::with_capacity(typed.value.len());
        match packed {
            Packed::Message => {
                // The content of an `Any` is at the level of the `Any`.
                self.depth -= 1;
                self.message(plan, &typed.value, trail, &mut value)?;
                self.depth += 1;
            }
            Packed::Struct => {
                let trail = &trail.then(TrailStep::Field("value"));
                self.object(plan, &typed.value, trail, &mut value)?;
            }
        }
        if to == name && value == *typed.value {
            out.extend_from_slice(input);
            return Ok(());
        }
        put(1, format!("{host}{to}").as_bytes(), out);
        if !value.is_empty() || packed == Packed::Struct {
            put(2, &value, out);
        }
        out.extend_from_slice(&typed.rest);
        Ok(())
    }

    /// Returns plan and name of the content with this message name. `None` if it is not translated; no plan if it is
    /// dropped.
    pub(super) fn content(
        &mut self,
        name: &str,
        trail: &Trail<'_>,
    ) -> Option<(Option<&'a Plan>, &'a str)> {
        match self.catalog.becomes(name) {
            Becomes::Message(plan) => Some((Some(plan), &plan.to)),
            Becomes::Itself => None,
            Becomes::Nothing => {
                let (message, to) = (name.to_owned(), self.catalog.major());
                let outer = std::mem::replace(&mut self.down, self.catalog.is_newer(name));
                self.note(trail, Incompatibility::NoMessage { message, to });
                self.down = outer;
                self.gone = true;
                Some((None, ""))
            }
        }
    }

    pub(super) fn note(&mut self, trail: &Trail<'_>, cause: Incompatibility) {
        self.lost_down |= self.down;
        (self.note)(trail, cause);
    }
}

impl Integer {
    fn read(self, encoded: u64) -> i128 {
        match (self.min < 0, self.max > i128::from(u32::MAX)) {
            (true, true) => i128::from(encoded as i64),
            // 32-bit readers cut what is longer.
            (true, false) => i128::from(encoded as i32),
            (false, true) => i128::from(encoded),
            (false, false) => i128::from(encoded as u32),
        }
    }
}

/// Form of the content of an `Any` or a `TypedStruct`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Packed {
    /// Encoded message.
    Message,
    /// `Struct` with the fields of a message.
    Struct,
}

/// Type URL and value of an `Any` or `TypedStruct`, both of which have the numbers 1 and 2.
struct Typed<'a> {
    type_url: &'a [u8],
    value: Cow<'a, [u8]>,
    /// The unknown fields.
    rest: Vec<u8>,
}

impl<'a> Typed<'a> {
    /// `merge`: whether the value is a message, whose occurrences are merged. Of bytes, the last ones count.
    fn read(mut input: &'a [u8], merge: bool) -> Result<Typed<'a>, DecodeError> {
        let mut typed = Typed {
            type_url: &[],
            value: Cow::Borrowed(&[]),
            rest: Vec::new(),
        };
        while !input.is_empty() {
            let at = occurrence(&mut input, |_| false)?;
            match (at.number, at.wire) {
                (1, WireType::LengthDelimited) => typed.type_url = at.body,
                (2, WireType::LengthDelimited) if merge && !typed.value.is_empty() => {
                    typed.value.to_mut().extend_from_slice(at.body);
                }
                (2, WireType::LengthDelimited) => typed.value = Cow::Borrowed(at.body),
                _ => typed.rest.extend_from_slice(at.whole),
            }
        }
        Ok(typed)
    }
}

/// Appends a field that is copied, with its key if the number is the same.
fn copy(field: &FieldPlan, wire: WireType, body: &[u8], whole: &[u8], out: &mut Vec<u8>) {
    if field.number == field.to.number {
        out.extend_from_slice(whole);
    } else {
        raw(field.to.number, wire, body, out);
    }
}

/// Appends a field with this encoding.
fn raw(number: u32, wire: WireType, body: &[u8], out: &mut Vec<u8>) {
    match wire {
        WireType::LengthDelimited => put(number, body, out),
        WireType::StartGroup => {
            encode_key(number, WireType::StartGroup, out);
            out.extend_from_slice(body);
            encode_key(number, WireType::EndGroup, out);
        }
        _ => {
            encode_key(number, wire, out);
            out.extend_from_slice(body);
        }
    }
}

/// Counts this occurrence of a field, and returns its index.
fn count(items: &mut Vec<(u32, usize)>, number: u32) -> usize {
    match items.iter_mut().find(|(known, _)| *known == number) {
        Some((_, index)) => {
            *index += 1;
            *index
        }
        None => {
            items.push((number, 0));
            0
        }
    }
}

/// Formats the key of a map entry for a path. Keys are strings or integers.
fn key_text<'a>(key: &Occurrence<'a>) -> Cow<'a, str> {
    match key.wire {
        WireType::LengthDelimited => String::from_utf8_lossy(key.body),
        _ => {
            decode_varint(&mut &*key.body).map_or_else(|_| "".into(), |key| key.to_string().into())
        }
    }
}
