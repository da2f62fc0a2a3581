//! Rewrites encoded messages from one API version to the other, along the descriptors of both.

use prost::DecodeError;
use prost::Message as _;
use prost::encoding::{
    DecodeContext, WireType, decode_key, decode_varint, encode_key, encode_varint, skip_field,
};
use prost_reflect::{EnumDescriptor, Kind};
use thiserror::Error;

use super::names::{successor, v2_name};
use crate::depth::{MAX_DEPTH, TooDeep};
use crate::discovery::Any;
use crate::path::{FieldPath, Step};
use crate::schema::{self, Field, Message, Shape, Type, WellKnown};
use crate::{ApiVersion, resource_type};

/// `ApiVersion.V3`, the same in both versions.
const API_V3: u64 = 2;
/// Fields that select the API version of further requests, see the front page of the module.
const VERSION_FIELDS: &[(&str, u32)] = &[
    ("envoy.config.core.v3.ConfigSource", 6),
    ("envoy.config.core.v3.ApiConfigSource", 8),
];

/// A construct that one API version has and the other lacks.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Incompatibility {
    /// The message has no field with this number, or one with another meaning.
    #[error("{message} has no such field")]
    NoField {
        /// Full name of the message in the version that lacks the field.
        message: String,
    },
    /// The field is a list with more than one item, and is not a list in the other version.
    #[error("more than one value: the field is not a list in {message}")]
    NotAList {
        /// Full name of the message in the version in which the field is not a list.
        message: String,
    },
    /// The enum has no value with this number.
    #[error("{enumeration} has no value {number}")]
    NoEnumValue {
        /// Full name of the enum in the version that lacks the value.
        enumeration: String,
        /// Number of the value.
        number: i32,
    },
    /// The message has no counterpart in the other version.
    #[error("{message} does not exist in {}", match to { ApiVersion::V2 => "v2", ApiVersion::V3 => "v3" })]
    NoMessage {
        /// Full name of the message in the version that has it.
        message: String,
        /// The version that lacks the message.
        to: ApiVersion,
    },
    /// The bytes do not decode as the message.
    #[error("malformed: {0}")]
    Malformed(String),
}

/// Receives the path to a field, and the reason for which it cannot be converted.
type Note<'a> = dyn FnMut(&FieldPath, Incompatibility) + 'a;

/// Rewrites an encoded message at `path` from one version to the other, or within v3, where only the v2 `Any` messages in
/// it change. Fields that cannot be converted are noted and omitted, so the result is then useful only to find more.
pub(crate) fn rewrite(
    from: &'static Message,
    to: &'static Message,
    input: &[u8],
    path: &mut FieldPath,
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
    path: &'a mut FieldPath,
    note: &'a mut Note<'n>,
}

/// One occurrence of a field in the encoded message.
struct Occurrence<'a> {
    number: u32,
    wire: WireType,
    /// The field with its key.
    whole: &'a [u8],
    /// The field without its key, and without its length if it has one.
    body: &'a [u8],
}

impl Rewriter<'_, '_> {
    /// Rewrites the fields of a message.
    fn message(
        &mut self,
        from: &'static Message,
        to: &'static Message,
        mut input: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), DecodeError> {
        if self.depth > MAX_DEPTH {
            let limit = TooDeep::limit();
            self.note(Incompatibility::Malformed(limit));
            return Ok(());
        }
        self.depth += 1;
        let version_field = version_field(from, to);
        let mut indexes = Vec::new();
        while !input.is_empty() {
            let occurrence = next(&mut input)?;
            if Some(occurrence.number) != version_field {
                self.field(from, to, &occurrence, &mut indexes, out)?;
            }
        }
        if let Some(number) = version_field {
            encode_key(number, WireType::Varint, out);
            encode_varint(API_V3, out);
        }
        self.depth -= 1;
        Ok(())
    }

    /// Rewrites one field. `indexes` has the number of items so far of each list field of the message.
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
        let Some((source, target)) = source.zip(target).filter(|(s, t)| same_meaning(s, t)) else {
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

    /// Rewrites one entry of a map: a message with the fields 1 (key) and 2 (value).
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

    /// Rewrites one value: of a single field, a list item, or a map entry.
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
                "expected a {}",
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

    /// Returns whether an enum has this value, or all values of a packed list.
    fn has_values(
        &mut self,
        to: &EnumDescriptor,
        at: &Occurrence<'_>,
    ) -> Result<bool, DecodeError> {
        let mut values = at.body;
        while !values.is_empty() {
            // Negative values are encoded in ten bytes, sign-extended to 64 bits.
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

    /// Rewrites an `Any` and its type URL.
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

    /// Returns the conversion of the message in an `Any`, by its full name.
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
            // A custom extension is not part of the API, so it is the same in both versions.
            (_, None) => Counterpart::Itself,
        }
    }

    fn note(&mut self, cause: Incompatibility) {
        (self.note)(self.path, cause);
    }
}

/// Conversion of the message in an `Any`.
enum Counterpart {
    /// Rewrite from the first schema to the second.
    Of(&'static Message, &'static Message),
    /// The message is the same in both versions.
    Itself,
    /// The other version has no such message.
    None,
}

/// Returns whether two fields with the same number have the same meaning. The API requires it; `QuicProtocolOptions` has
/// the one exception.
pub(super) fn same_meaning(from: &Field, to: &Field) -> bool {
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

/// Returns whether a message belongs to the versioned API. The `xds` packages are younger than v2.
fn is_versioned(name: &str) -> bool {
    name.starts_with("envoy.") || name.starts_with("xds.")
}

/// Returns the number of the field that selects the API version of further requests, if the conversion must set it.
fn version_field(from: &Message, to: &Message) -> Option<u32> {
    if to.api != ApiVersion::V3 || from.full_name() == to.full_name() {
        return None;
    }
    let (_, number) = VERSION_FIELDS
        .iter()
        .find(|(name, _)| *name == to.full_name())?;
    Some(*number)
}

/// Reads the next field.
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

/// Counts this occurrence of a field, and returns its index.
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

/// Formats the key of a map entry for a path. Keys are strings or integers.
fn key_text(key: &Occurrence<'_>) -> String {
    match key.wire {
        WireType::LengthDelimited => String::from_utf8_lossy(key.body).into_owned(),
        _ => decode_varint(&mut &*key.body).map_or_else(|_| String::new(), |key| key.to_string()),
    }
}

/// Appends a length-delimited field.
fn put(number: u32, body: &[u8], out: &mut Vec<u8>) {
    encode_key(number, WireType::LengthDelimited, out);
    encode_varint(body.len() as u64, out);
    out.extend_from_slice(body);
}
