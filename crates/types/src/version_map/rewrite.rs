//! Bytes of one version to bytes of the other, read along the descriptors of both.

use prost::DecodeError;
use prost::Message as _;
use prost::encoding::{
    DecodeContext, WireType, decode_key, decode_varint, encode_key, encode_varint, skip_field,
};
use prost_reflect::{EnumDescriptor, Kind};

use super::{Incompatibility, successor, v2_name};
use crate::discovery::Any;
use crate::path::{Path, Step};
use crate::schema::{self, Field, Message, Shape, Type, WellKnown};
use crate::{ApiVersion, resource_type};

/// Messages nest at most this deep: prost, and so every Rust client, decodes no deeper.
const MAX_DEPTH: usize = 100;
/// `ApiVersion.V3`, the same in both versions.
const API_V3: u64 = 2;
/// Fields that say in which version to ask on, see the module's front page.
const ASKS_IN: &[(&str, u32)] = &[
    ("envoy.config.core.v3.ConfigSource", 6),
    ("envoy.config.core.v3.ApiConfigSource", 8),
];

/// What is in the way of a translation, as it is found.
type Note<'a> = dyn FnMut(&Path, Incompatibility) + 'a;

/// Rewrites an encoded message from one version to the other, or within v3, where only an `Any` of
/// v2 changes. `path` leads to the message. Where an obstacle was noted, the bytes lack it: they
/// are good for nothing but to look for more.
pub(crate) fn rewrite(
    from: &'static Message,
    to: &'static Message,
    input: &[u8],
    path: &mut Path,
    note: &mut Note<'_>,
) -> Vec<u8> {
    let mut out = Vec::with_capacity(input.len());
    let mut rewriter = Rewriter {
        to: to.api,
        depth: 0,
        path,
        note,
    };
    if let Err(error) = rewriter.message(from, to, input, &mut out) {
        rewriter.note(Incompatibility::Malformed(error.to_string()));
    }
    out
}

struct Rewriter<'a, 'n> {
    to: ApiVersion,
    depth: usize,
    path: &'a mut Path,
    note: &'a mut Note<'n>,
}

/// One field as it stands in the bytes.
struct Occurrence<'a> {
    number: u32,
    wire: WireType,
    /// Key and all.
    whole: &'a [u8],
    /// Without the key, and without the length where there is one.
    body: &'a [u8],
}

impl Rewriter<'_, '_> {
    fn message(
        &mut self,
        from: &'static Message,
        to: &'static Message,
        mut input: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), DecodeError> {
        if self.depth >= MAX_DEPTH {
            let limit = format!("messages are nested more than {MAX_DEPTH} deep");
            self.note(Incompatibility::Malformed(limit));
            return Ok(());
        }
        self.depth += 1;
        let asks_in = asks_in(from, to);
        let mut indexes = Vec::new();
        while !input.is_empty() {
            let occurrence = next(&mut input)?;
            if Some(occurrence.number) != asks_in {
                self.field(from, to, &occurrence, &mut indexes, out)?;
            }
        }
        if let Some(number) = asks_in {
            encode_key(number, WireType::Varint, out);
            encode_varint(API_V3, out);
        }
        self.depth -= 1;
        Ok(())
    }

    /// `indexes` counts how often each list of the message occurred so far.
    fn field(
        &mut self,
        from: &'static Message,
        to: &'static Message,
        at: &Occurrence<'_>,
        indexes: &mut Vec<(u32, usize)>,
        out: &mut Vec<u8>,
    ) -> Result<(), DecodeError> {
        let source = from.field(at.number);
        let target = to.field(at.number);
        let Some((source, target)) = source.zip(target).filter(|(s, t)| are_one(s, t)) else {
            if std::ptr::eq(from, to) {
                out.extend_from_slice(at.whole);
                return Ok(());
            }
            let unknown = || Step::Unknown(at.number.to_string());
            let step = source.map_or_else(unknown, |field| Step::Field(&field.name));
            self.path.push(step);
            let message = to.full_name().to_owned();
            self.note(Incompatibility::NoField { message });
            self.path.pop();
            return Ok(());
        };
        self.path.push(Step::Field(&source.name));
        match (&source.shape, &target.shape) {
            (Shape::Map { value: ty, .. }, Shape::Map { value: into, .. }) => {
                self.entry(ty, into, at, out)?;
            }
            (Shape::List(ty), Shape::List(into) | Shape::One(into)) => {
                let index = count(indexes, at.number);
                self.path.push(Step::Index(index));
                if index > 0 && matches!(target.shape, Shape::One(_)) {
                    let message = to.full_name().to_owned();
                    self.note(Incompatibility::NotAList { message });
                } else {
                    self.value(ty, into, at, out)?;
                }
                self.path.pop();
            }
            _ => self.value(source.shape.value(), target.shape.value(), at, out)?,
        }
        self.path.pop();
        Ok(())
    }

    /// One entry of a map: a message with the fields 1, key, and 2, value.
    fn entry(
        &mut self,
        ty: &'static Type,
        into: &'static Type,
        at: &Occurrence<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), DecodeError> {
        let mut fields = Vec::new();
        let mut input = at.body;
        while !input.is_empty() {
            fields.push(next(&mut input)?);
        }
        let key = fields.iter().find(|field| field.number == 1);
        self.path
            .push(Step::Key(key.map_or_else(String::new, key_text)));
        let mut body = Vec::new();
        for field in &fields {
            match field.number {
                2 => self.value(ty, into, field, &mut body)?,
                _ => body.extend_from_slice(field.whole),
            }
        }
        self.path.pop();
        put(at.number, &body, out);
        Ok(())
    }

    fn value(
        &mut self,
        ty: &'static Type,
        into: &'static Type,
        at: &Occurrence<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), DecodeError> {
        if let (Kind::Enum(from), Kind::Enum(to)) = (&ty.kind, &into.kind)
            && from != to
            && !self.has_values(to, at)?
        {
            return Ok(());
        }
        let (Some(from), Some(to)) = (ty.message(), into.message()) else {
            out.extend_from_slice(at.whole);
            return Ok(());
        };
        if at.wire != WireType::LengthDelimited {
            self.note(Incompatibility::Malformed(format!(
                "not a {}",
                from.full_name()
            )));
            return Ok(());
        }
        let mut body = Vec::with_capacity(at.body.len());
        match from.well_known {
            Some(WellKnown::Any) => self.any(at.body, &mut body)?,
            Some(_) => body.extend_from_slice(at.body),
            None => self.message(from, to, at.body, &mut body)?,
        }
        put(at.number, &body, out);
        Ok(())
    }

    /// Whether an enum has this value, or those of a packed list.
    fn has_values(
        &mut self,
        to: &EnumDescriptor,
        at: &Occurrence<'_>,
    ) -> Result<bool, DecodeError> {
        let mut values = at.body;
        while !values.is_empty() {
            // Negative values take the ten bytes of 64 bits.
            let number = decode_varint(&mut values)? as i32;
            if to.get_value(number).is_none() {
                let enumeration = to.full_name().to_owned();
                self.note(Incompatibility::NoEnumValue {
                    enumeration,
                    number,
                });
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn any(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<(), DecodeError> {
        let mut any = Any::decode(input)?;
        let name = any.type_url.rsplit_once('/').map_or("", |(_, name)| name);
        match self.counterpart(name) {
            Counterpart::Of(from, to) => {
                let mut value = Vec::with_capacity(any.value.len());
                self.message(from, to, &any.value, &mut value)?;
                if from.full_name() != to.full_name() {
                    any.type_url = format!("{}{}", resource_type::TYPE_URL_PREFIX, to.full_name());
                }
                any.value = value.into();
                any.encode_raw(out);
            }
            Counterpart::Itself => out.extend_from_slice(input),
            Counterpart::None => {
                let (message, to) = (name.to_owned(), self.to);
                self.note(Incompatibility::NoMessage { message, to });
            }
        }
        Ok(())
    }

    /// What an `Any` holds, by full name, and what it becomes.
    fn counterpart(&self, name: &str) -> Counterpart {
        match (self.to, schema::find(name)) {
            (ApiVersion::V3, Some(from)) => {
                successor(from).map_or(Counterpart::None, |to| Counterpart::Of(from, to))
            }
            (ApiVersion::V2, Some(from)) if from.api == ApiVersion::V3 => {
                let to = v2_name(name).and_then(|name| schema::find_in(ApiVersion::V2, name));
                match to {
                    Some(to) => Counterpart::Of(from, to),
                    None if is_versioned(name) => Counterpart::None,
                    None => Counterpart::Itself,
                }
            }
            (ApiVersion::V2, Some(_)) => Counterpart::Itself,
            (ApiVersion::V2, None) if is_versioned(name) => Counterpart::None,
            // An extension of somebody's own, which no version of the API is about.
            (_, None) => Counterpart::Itself,
        }
    }

    fn note(&mut self, obstacle: Incompatibility) {
        (self.note)(self.path, obstacle);
    }
}

enum Counterpart {
    Of(&'static Message, &'static Message),
    /// It is the same in both versions.
    Itself,
    None,
}

/// Whether two fields of one number mean the same. They do, by the rules of the API;
/// `QuicProtocolOptions` has an exception.
pub(super) fn are_one(from: &Field, to: &Field) -> bool {
    let (ty, into) = (from.shape.value(), to.shape.value());
    let is_map = |field: &Field| matches!(field.shape, Shape::Map { .. });
    let same_message = match (&ty.kind, &into.kind) {
        (Kind::Message(_), Kind::Message(_)) if is_map(from) => true,
        (Kind::Message(from), Kind::Message(to)) => {
            let (from, to) = (from.full_name(), to.full_name());
            from == to || v2_name(from) == Some(to) || v2_name(to) == Some(from)
        }
        _ => true,
    };
    same_message && is_map(from) == is_map(to) && ty.kind.wire_type() == into.kind.wire_type()
}

/// Whether the API's versions are about this message. `xds` began when v2 had ended.
fn is_versioned(name: &str) -> bool {
    name.starts_with("envoy.") || name.starts_with("xds.")
}

/// The field of the message that says in which version to ask, where it is not to stay.
fn asks_in(from: &Message, to: &Message) -> Option<u32> {
    if to.api != ApiVersion::V3 || from.full_name() == to.full_name() {
        return None;
    }
    let (_, number) = ASKS_IN.iter().find(|(name, _)| *name == to.full_name())?;
    Some(*number)
}

fn next<'a>(input: &mut &'a [u8]) -> Result<Occurrence<'a>, DecodeError> {
    let start = *input;
    let (number, wire) = decode_key(input)?;
    let mut body = *input;
    skip_field(wire, number, input, DecodeContext::default())?;
    if wire == WireType::LengthDelimited {
        decode_varint(&mut body)?;
    }
    Ok(Occurrence {
        number,
        wire,
        whole: &start[..start.len() - input.len()],
        body: &body[..body.len() - input.len()],
    })
}

/// The index of this occurrence among those of its number.
fn count(indexes: &mut Vec<(u32, usize)>, number: u32) -> usize {
    match indexes.iter_mut().find(|(known, _)| *known == number) {
        Some((_, index)) => {
            *index += 1;
            *index
        }
        None => {
            indexes.push((number, 0));
            0
        }
    }
}

/// Keys are texts or numbers.
fn key_text(key: &Occurrence<'_>) -> String {
    match key.wire {
        WireType::LengthDelimited => String::from_utf8_lossy(key.body).into_owned(),
        _ => decode_varint(&mut &*key.body).map_or_else(|_| String::new(), |key| key.to_string()),
    }
}

fn put(number: u32, body: &[u8], out: &mut Vec<u8>) {
    encode_key(number, WireType::LengthDelimited, out);
    encode_varint(body.len() as u64, out);
    out.extend_from_slice(body);
}
