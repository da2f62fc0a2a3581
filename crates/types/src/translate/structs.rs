//! Rewrites messages in their JSON form, as a `Struct` has them inside a `TypedStruct`: names of fields and enum values
//! change, and the type URLs of messages with `@type`.
//!
//! | `Value` | number |
//! |---|---|
//! | `number_value`, `string_value` | 2, 3 |
//! | `struct_value` | 5, with entries (key 1, value 2) in field 1 |
//! | `list_value` | 6, with items in field 1 |

use std::borrow::Cow;

use prost::DecodeError;
use prost::encoding::{WireType, encode_key};

use super::plan::{Action, Content, EnumPlan, FieldPlan, Plan, Shape};
use super::report::{Incompatibility, Trail, TrailStep};
use super::rewrite::Rewriter;
use super::unknown::UnknownFields;
use crate::wire::{Occurrence, occurrence, put};

const NUMBER: u32 = 2;
const STRING: u32 = 3;
const STRUCT: u32 = 5;
const LIST: u32 = 6;

/// An entry of a `Struct`.
struct Entry<'a> {
    key: Cow<'a, str>,
    /// Encoded `Value`.
    value: Cow<'a, [u8]>,
}

impl<'a> Rewriter<'a, '_> {
    /// Rewrites the `Struct` with the fields of a message.
    pub(super) fn object(
        &mut self,
        plan: &'a Plan,
        input: &[u8],
        trail: &Trail<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), DecodeError> {
        self.nested(plan.down, trail, |this| {
            let entries = entries(input)?;
            match plan.content {
                Content::WellKnown => {
                    out.extend_from_slice(input);
                    Ok(())
                }
                Content::Any => this.typed_object(&entries, "@type", input, trail, out),
                Content::TypedStruct if plan.same => {
                    this.typed_object(&entries, "type_url", input, trail, out)
                }
                _ => this.entries(plan, &entries, trail, out),
            }
        })
    }

    fn entries(
        &mut self,
        plan: &'a Plan,
        entries: &[Entry<'_>],
        trail: &Trail<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), DecodeError> {
        let mut oneofs: Vec<(&str, &str)> = Vec::new();
        for Entry { key, value } in entries {
            let trail = &trail.then(TrailStep::Field(key));
            let Some(field) = plan.field_named(key) else {
                let keep = self.catalog.unknown_fields() == UnknownFields::Keep;
                if plan.same || (keep && !self.is_taken(plan, key)) {
                    put_entry(key, value, out);
                } else {
                    let message = plan.to.clone();
                    self.note(trail, Incompatibility::NoField { message });
                }
                continue;
            };
            if let Action::Drop(cause) = &field.action {
                self.note(trail, cause.clone());
                continue;
            }
            if plan
                .fixed
                .iter()
                .any(|fixed| fixed.number == field.to.number)
            {
                continue;
            }
            let set = |number: u32| {
                let keys = entries
                    .iter()
                    .filter_map(|entry| plan.field_named(&entry.key));
                keys.map(|field| field.number).any(|one| one == number)
            };
            if let Some(other) = field.yields_to.filter(|other| set(*other)) {
                self.replaced(plan, other, trail);
                continue;
            }
            if let Some(oneof) = &field.to.oneof {
                match oneofs.iter().find(|(name, _)| name == oneof) {
                    Some((_, other)) if *other != field.name => {
                        let cause = Incompatibility::OneOf {
                            message: plan.to.clone(),
                            oneof: oneof.clone(),
                            other: (*other).to_owned(),
                        };
                        self.note(trail, cause);
                        continue;
                    }
                    _ => oneofs.push((oneof, &field.name)),
                }
            }
            if let Some(value) = self.member(plan, field, value, trail)? {
                // ProtoJSON has two names for a field. The author of the file chose one of them.
                let is_proto_name = **key == *field.name;
                let name = if is_proto_name {
                    &field.to.name
                } else {
                    &field.to.json_name
                };
                put_entry(name, &value, out);
            }
        }
        for fixed in &plan.fixed {
            put_entry(&fixed.name, &number(fixed.value), out);
        }
        Ok(())
    }

    /// Returns whether the other major has a field with this name, which was unknown before.
    fn is_taken(&self, plan: &Plan, name: &str) -> bool {
        self.catalog.has_field(&plan.to, name)
    }

    /// Rewrites an object that names its type: an `Any` in JSON form, or a `TypedStruct`.
    fn typed_object(
        &mut self,
        entries: &[Entry<'_>],
        key: &str,
        input: &[u8],
        trail: &Trail<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), DecodeError> {
        let is_any = key == "@type";
        let is_type = |name: &str| name == key || (!is_any && name == "typeUrl");
        let typed = entries.iter().find(|entry| is_type(&entry.key));
        let type_url = match typed {
            Some(entry) => text(&entry.value)?,
            None => None,
        };
        let Some(type_url) = type_url else {
            out.extend_from_slice(input);
            return Ok(());
        };
        let name = type_url.rsplit('/').next().unwrap_or_default();
        let Some((plan, to)) = self.content(name, trail) else {
            out.extend_from_slice(input);
            return Ok(());
        };
        let Some(plan) = plan else { return Ok(()) };
        let host = &type_url[..type_url.len() - name.len()];
        let mut rest = Vec::new();
        for entry in entries {
            if is_type(&entry.key) {
                let mut value = Vec::new();
                put(STRING, format!("{host}{to}").as_bytes(), &mut value);
                put_entry(&entry.key, &value, out);
            } else if is_any {
                put_entry(&entry.key, &entry.value, &mut rest);
            } else {
                let trail = &trail.then(TrailStep::Field(&entry.key));
                let value = if entry.key == "value" {
                    self.json(&entry.value, plan, trail)?
                } else {
                    Some(entry.value.to_vec())
                };
                if let Some(value) = value {
                    put_entry(&entry.key, &value, out);
                }
            }
        }
        if is_any {
            self.object(plan, &rest, trail, out)?;
        }
        Ok(())
    }

    /// Rewrites the value of a field; `None` if it is dropped.
    fn member(
        &mut self,
        plan: &'a Plan,
        field: &'a FieldPlan,
        value: &[u8],
        trail: &Trail<'_>,
    ) -> Result<Option<Vec<u8>>, DecodeError> {
        let part = single(value)?;
        match (field.shape, part) {
            (Shape::List, Some(part)) if part.number == LIST => {
                let items = parts(part.body)?;
                let mut list = Vec::new();
                for (index, item) in items.iter().enumerate() {
                    let trail = &trail.then(TrailStep::Index(index));
                    if index > 0 && !field.to.is_list {
                        let message = plan.to.clone();
                        self.note(trail, Incompatibility::NotAList { message });
                        break;
                    }
                    let Some(value) = self.element(field, item.body, trail)? else {
                        continue;
                    };
                    if !field.to.is_list {
                        return Ok(Some(value));
                    }
                    put(1, &value, &mut list);
                }
                Ok(field.to.is_list.then(|| wrapped(LIST, &list)))
            }
            (Shape::Map, Some(part)) if part.number == STRUCT => {
                let mut map = Vec::new();
                for Entry { key, value } in entries(part.body)? {
                    let trail = &trail.then(TrailStep::Key(&key));
                    if let Some(value) = self.element(field, &value, trail)? {
                        put_entry(&key, &value, &mut map);
                    }
                }
                Ok(Some(wrapped(STRUCT, &map)))
            }
            (Shape::One, _) => {
                let value = self.element(field, value, trail)?;
                Ok(value.map(|value| {
                    if field.to.is_list {
                        let mut list = Vec::new();
                        put(1, &value, &mut list);
                        wrapped(LIST, &list)
                    } else {
                        value
                    }
                }))
            }
            // Null, or a value that no reader of the message accepts.
            _ => Ok(Some(value.to_vec())),
        }
    }

    /// Rewrites a single value of a field; `None` if it is dropped.
    fn element(
        &mut self,
        field: &'a FieldPlan,
        value: &[u8],
        trail: &Trail<'_>,
    ) -> Result<Option<Vec<u8>>, DecodeError> {
        match &field.action {
            Action::Message(child) => {
                let plan = self.catalog.plan(*child);
                self.json(value, plan, trail)
            }
            Action::Enum(of) => self.json_enum(of, value, trail),
            Action::Copy | Action::Integer(..) | Action::Drop(_) => Ok(Some(value.to_vec())),
        }
    }

    /// Rewrites a message in a `Value`; `None` if it is dropped.
    fn json(
        &mut self,
        value: &[u8],
        plan: &'a Plan,
        trail: &Trail<'_>,
    ) -> Result<Option<Vec<u8>>, DecodeError> {
        let Some(part) = single(value)?.filter(|part| part.number == STRUCT) else {
            return Ok(Some(value.to_vec()));
        };
        let mut object = Vec::with_capacity(part.body.len());
        self.object(plan, part.body, trail, &mut object)?;
        let kept = !std::mem::take(&mut self.gone);
        Ok(kept.then(|| wrapped(STRUCT, &object)))
    }

    /// Rewrites the name or number of an enum value.
    fn json_enum(
        &mut self,
        of: &EnumPlan,
        value: &[u8],
        trail: &Trail<'_>,
    ) -> Result<Option<Vec<u8>>, DecodeError> {
        let part = single(value)?;
        let name = text(value)?;
        let given = part.filter(|part| part.number == NUMBER).and_then(|part| {
            let bytes: [u8; 8] = part.body.try_into().ok()?;
            Some(f64::from_le_bytes(bytes) as i32)
        });
        let known = of
            .values
            .iter()
            .find(|((own, at), _)| name.as_deref() == Some(own) || given == Some(*at));
        let Some(((_, old), new)) = known else {
            return Ok(Some(value.to_vec()));
        };
        match (new, name) {
            (Some((name, _)), Some(_)) => Ok(Some(wrapped(STRING, name.as_bytes()))),
            (Some((_, new)), None) => Ok(Some(number(*new))),
            (None, _) => {
                let cause = Incompatibility::NoEnumValue {
                    enumeration: of.to.clone(),
                    number: *old,
                };
                self.note(trail, cause);
                Ok(None)
            }
        }
    }
}

/// Reads all fields of a message without maps.
fn parts(mut input: &[u8]) -> Result<Vec<Occurrence<'_>>, DecodeError> {
    let mut parts = Vec::new();
    while !input.is_empty() {
        parts.push(occurrence(&mut input, |_| false)?);
    }
    Ok(parts)
}

/// Returns the last field of a `Value`, the one that counts.
fn single(value: &[u8]) -> Result<Option<Occurrence<'_>>, DecodeError> {
    Ok(parts(value)?.pop())
}

/// Returns the text of a `Value`, if it is one.
fn text(value: &[u8]) -> Result<Option<String>, DecodeError> {
    let part = single(value)?.filter(|part| part.number == STRING);
    Ok(part.map(|part| String::from_utf8_lossy(part.body).into_owned()))
}

/// Reads the entries of a `Struct`.
fn entries(mut input: &[u8]) -> Result<Vec<Entry<'_>>, DecodeError> {
    let mut entries = Vec::new();
    while !input.is_empty() {
        let at = occurrence(&mut input, |number| number == 1)?;
        let mut entry = Entry {
            key: Cow::Borrowed(""),
            value: Cow::Borrowed(&[]),
        };
        for part in parts(at.body)? {
            match part.number {
                1 => entry.key = String::from_utf8_lossy(part.body),
                2 => entry.value = Cow::Borrowed(part.body),
                _ => {}
            }
        }
        entries.push(entry);
    }
    Ok(entries)
}

fn put_entry(key: &str, value: &[u8], out: &mut Vec<u8>) {
    let mut entry = Vec::with_capacity(key.len() + value.len() + 8);
    put(1, key.as_bytes(), &mut entry);
    put(2, value, &mut entry);
    put(1, &entry, out);
}

fn wrapped(number: u32, body: &[u8]) -> Vec<u8> {
    let mut value = Vec::with_capacity(body.len() + 8);
    put(number, body, &mut value);
    value
}

/// Encodes a `Value` with a number.
fn number(value: i32) -> Vec<u8> {
    let mut encoded = Vec::with_capacity(9);
    encode_key(NUMBER, WireType::SixtyFourBit, &mut encoded);
    encoded.extend_from_slice(&f64::from(value).to_le_bytes());
    encoded
}
