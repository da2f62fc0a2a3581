//! Files in text format and binary, and messages of programs. `prost-reflect` reads a message as a whole; then its
//! fields are inspected and validated.
//!
//! A file is a `DiscoveryResponse` or an `Any`. In text format a comment may name another message type, as the text
//! format specification defines: `# proto-message: envoy.config.cluster.v3.Cluster`.

use bytes::Bytes;
use miette::Diagnostic;
use prost::Message as _;
use prost_reflect::DynamicMessage;

use super::canonical;
use super::inspector::{self, Unknown};
use super::resource::{Draft, RESPONSE, ReadResult, WRAPPER, duration};
use super::walk::Context;
use crate::depth::{self, MAX_BRACKETS, MAX_DEPTH, brackets};
use crate::discovery;
use crate::error::Reason;
use crate::path::{FieldPath, Step};
use crate::resource_type::TYPE_URL_PREFIX;
use crate::schema::{self, Message};
use crate::validate::{self, Nested};
use crate::version_map::current_name;
use crate::{ApiVersion, Position};

const ANY: &str = "google.protobuf.Any";

/// Whether the bytes of a resource come from its author, and so must be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bodies {
    /// Keep the bytes as they are in the file.
    Verbatim,
    /// Encode the message canonically.
    Canonical,
}

/// How the messages in a file are read, and how many messages carry this one.
#[derive(Clone, Copy)]
struct Carried<'a> {
    context: Context<'a>,
    bodies: Bodies,
    level: usize,
}

impl Carried<'_> {
    /// Returns the same for the content of a message. A response in a wrapper in a response … has no other end.
    fn inside(self) -> Result<Self, Reason> {
        if self.level < MAX_DEPTH {
            Ok(Self {
                level: self.level + 1,
                ..self
            })
        } else {
            Err(Reason::too_deep())
        }
    }
}

/// Reads a file in text format.
pub(super) fn read_text(text: &str, context: Context<'_>) -> ReadResult {
    if brackets(text.as_bytes()) > MAX_BRACKETS {
        return Err((Reason::too_deep(), None));
    }
    let schema = find(text_message(text))?;
    // Only the descriptors of v2 know the content of a v2 `Any`.
    let in_v2 = || schema::find_in(ApiVersion::V2, schema.full_name());
    let schema = mentions_v2(text).then(in_v2).flatten().unwrap_or(schema);
    let message = DynamicMessage::parse_text_format(schema.descriptor.clone(), text)
        .map_err(|error| (Reason::Syntax(error.to_string()), position(&error, text)))?;
    drafts(
        schema,
        &message,
        &mut FieldPath::default(),
        Carried {
            context,
            bodies: Bodies::Canonical,
            level: 0,
        },
    )
    .map_err(|reason| (reason, None))
}

/// Returns the message type of a file of resources: a response, unless the text says otherwise.
fn text_message(text: &str) -> &str {
    declared_message(text).unwrap_or(RESPONSE)
}

/// Returns the message type of a file: from its `proto-message` comment, or an `Any` if the text begins like one.
pub(super) fn declared_message(text: &str) -> Option<&str> {
    let comments = text
        .lines()
        .map(str::trim_start)
        .take_while(|line| line.starts_with('#'));
    for comment in comments {
        if let Some(name) = comment
            .trim_start_matches(['#', ' '])
            .strip_prefix("proto-message:")
        {
            return Some(name.trim());
        }
    }
    let first = text
        .lines()
        .map(str::trim_start)
        .find(|line| !line.is_empty() && !line.starts_with('#'));
    first.filter(|line| line.starts_with('[')).map(|_| ANY)
}

/// Returns whether the text has an `Any` of a type that only v2 has: `[type.googleapis.com/…] { … }`.
fn mentions_v2(text: &str) -> bool {
    let types = text.split('[').skip(1).filter_map(|rest| {
        let (url, _) = rest.split_once(']')?;
        Some(url.rsplit_once('/')?.1.trim())
    });
    let mut schemas = types.filter_map(schema::find);
    schemas.any(|schema| schema.api == ApiVersion::V2)
}

/// Reads a file in binary form.
pub(super) fn read_binary(bytes: &[u8], context: Context<'_>) -> ReadResult {
    let read = || {
        // Field 1 is the type URL of an `Any`, and the version of a response.
        let any = discovery::Any::decode(bytes)
            .ok()
            .filter(|any| any.type_url.starts_with(TYPE_URL_PREFIX));
        let schema =
            find(if any.is_some() { ANY } else { RESPONSE }).map_err(|(reason, _)| reason)?;
        let message = decode(schema, Bytes::copy_from_slice(bytes))?;
        drafts(
            schema,
            &message,
            &mut FieldPath::default(),
            Carried {
                context,
                bodies: Bodies::Verbatim,
                level: 0,
            },
        )
    };
    read().map_err(|reason| (reason, None))
}

/// Reads a message that a program made and encoded, as one resource.
pub(super) fn read_message(
    full_name: &str,
    bytes: Bytes,
    context: Context<'_>,
) -> ReadResult<Draft> {
    let schema = find(full_name)?;
    let read = || {
        let path = &mut FieldPath::default();
        check_depth(schema, &bytes, path, context)?;
        let mut message = decode(schema, bytes)?;
        let mut value = Vec::new();
        let draft = checked(schema, &message, Bytes::new(), path, context);
        canonical::normalise(schema, &mut message);
        canonical::encode(schema, &message, &mut value);
        Ok(draft.with_value(value.into()))
    };
    read().map_err(|reason| (reason, None))
}

/// Records unknown fields and marked elements of an encoded message.
pub(super) fn inspect(
    schema: &'static Message,
    value: &[u8],
    context: Context<'_>,
) -> Result<(), Reason> {
    let path = &mut FieldPath::default();
    check_depth(schema, value, path, context)?;
    let message = decode(schema, Bytes::copy_from_slice(value))?;
    let unknown = Unknown::by(context.options);
    inspector::inspect(schema, &message, path, unknown, context.walk);
    Ok(())
}

/// Returns the levels of an encoded message; 0 if it is unknown or too deep, since nothing descends into it then.
pub(super) fn levels(full_name: &str, value: &[u8]) -> usize {
    let schema = schema::find(full_name);
    let measured = schema.and_then(|schema| depth::measure(schema, value, MAX_DEPTH).ok());
    measured.unwrap_or_default()
}

fn find(name: &str) -> ReadResult<&'static Message> {
    schema::find(name).ok_or_else(|| (Reason::UnknownType(name.to_owned()), None))
}

fn decode(schema: &Message, bytes: Bytes) -> Result<DynamicMessage, Reason> {
    DynamicMessage::decode(schema.descriptor.clone(), bytes)
        .map_err(|error| Reason::Syntax(format!("malformed {}: {error}", schema.full_name())))
}

/// Returns the resources of a message: those of a response, the content of an `Any` or a wrapper, or the message
/// itself.
fn drafts(
    schema: &'static Message,
    message: &DynamicMessage,
    path: &mut FieldPath,
    carried: Carried<'_>,
) -> Result<Vec<Draft>, Reason> {
    match current_name(schema) {
        RESPONSE => {
            let mut found = Vec::new();
            let resources = message.get_field_by_name("resources");
            let resources = resources
                .as_ref()
                .and_then(|value| value.as_list())
                .unwrap_or_default();
            path.push(Step::Field("resources"));
            for (index, any) in resources
                .iter()
                .filter_map(|value| value.as_message())
                .enumerate()
            {
                path.push(Step::Index(index));
                found.extend(any_draft(any, path, carried)?);
                path.pop();
            }
            path.pop();
            Ok(found)
        }
        ANY => any_draft(message, path, carried),
        WRAPPER => wrapped(message, path, carried),
        _ => {
            let mut value = Vec::new();
            canonical::encode(schema, message, &mut value);
            Ok(vec![body(schema, value.into(), path, carried)?])
        }
    }
}

fn any_draft(
    any: &DynamicMessage,
    path: &mut FieldPath,
    carried: Carried<'_>,
) -> Result<Vec<Draft>, Reason> {
    let any: discovery::Any = any
        .transcode_to()
        .map_err(|error| Reason::Syntax(error.to_string()))?;
    let name = any.type_url.rsplit_once('/').map_or("", |(_, name)| name);
    let schema = schema::find(name).ok_or_else(|| Reason::UnknownType(any.type_url.clone()))?;
    match current_name(schema) {
        RESPONSE | WRAPPER | ANY => {
            let message = decode(schema, any.value)?;
            drafts(schema, &message, path, carried.inside()?)
        }
        _ => Ok(vec![body(schema, any.value, path, carried)?]),
    }
}

/// Checks the depth of a resource at `path` before anything descends into it.
fn check_depth(
    schema: &'static Message,
    value: &[u8],
    path: &FieldPath,
    context: Context<'_>,
) -> Result<(), Reason> {
    match depth::measure(schema, value, MAX_DEPTH) {
        Ok(_) => Ok(()),
        Err(deep) => Err(context.walk.stop_too_deep(path.clone(), deep)),
    }
}

/// Returns the resource with this encoded message.
fn body(
    schema: &'static Message,
    value: Bytes,
    path: &mut FieldPath,
    carried: Carried<'_>,
) -> Result<Draft, Reason> {
    let Carried {
        context, bodies, ..
    } = carried;
    check_depth(schema, &value, path, context)?;
    let (schema, value) = match canonical::bytes_to_current(schema, value, path, context.walk) {
        Ok(current) => current,
        Err((schema, value)) => {
            let message = decode(schema, value)?;
            return Ok(Draft::new(schema, &message, Bytes::new()).at(path.clone()));
        }
    };
    let mut message = decode(schema, value.clone())?;
    if bodies == Bodies::Verbatim {
        return Ok(checked(schema, &message, value, path, context));
    }
    canonical::normalise(schema, &mut message);
    let mut value = Vec::new();
    canonical::encode(schema, &message, &mut value);
    Ok(checked(schema, &message, value.into(), path, context))
}

fn wrapped(
    wrapper: &DynamicMessage,
    path: &mut FieldPath,
    carried: Carried<'_>,
) -> Result<Vec<Draft>, Reason> {
    let field = |name: &str| {
        wrapper
            .has_field_by_name(name)
            .then(|| wrapper.get_field_by_name(name))
            .flatten()
    };
    let name = field("name").and_then(|name| name.as_str().map(str::to_owned));
    let ttl = field("ttl").and_then(|ttl| duration(ttl.as_message()?));
    let any =
        field("resource").ok_or_else(|| Reason::Value("missing field `resource`".to_owned()))?;
    let Some(any) = any.as_message() else {
        return Ok(Vec::new());
    };
    path.push(Step::Field("resource"));
    let drafts = any_draft(any, path, carried)?;
    path.pop();
    Ok(drafts
        .into_iter()
        .map(|draft| draft.wrapped(name.clone(), ttl))
        .collect())
}

/// Inspects and validates a message that is a resource with these bytes.
fn checked(
    schema: &'static Message,
    message: &DynamicMessage,
    value: Bytes,
    path: &mut FieldPath,
    context: Context<'_>,
) -> Draft {
    let walk = context.walk;
    let mark = walk.mark();
    let unknown = Unknown::by(context.options);
    inspector::inspect(schema, message, path, unknown, walk);
    validate::check(schema, message, path, Nested::Check, &mut |path, broken| {
        walk.note_at(path.clone(), broken.into());
    });
    context.advise(schema, message, &value, path);
    let draft = Draft::new(schema, message, value).at(path.clone());
    walk.attribute(mark, &draft);
    draft.noticed(walk.take_notices())
}

pub(super) fn position(
    error: &prost_reflect::text_format::ParseError,
    text: &str,
) -> Option<Position> {
    let offset = error.labels()?.next()?.offset();
    text.get(..offset).map(Position::after)
}
