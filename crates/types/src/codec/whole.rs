//! Text format and binary: files whose message is read whole by `prost-reflect`, and then looked
//! at.
//!
//! A file is a `DiscoveryResponse` or an `Any`; in text format a comment may say otherwise:
//! `# proto-message: envoy.config.cluster.v3.Cluster`, as the text format's specification has it.

use bytes::Bytes;
use miette::Diagnostic;
use prost::Message as _;
use prost_reflect::DynamicMessage;

use super::document::{RESPONSE, WRAPPER};
use super::inspect::inspect;
use super::resource::{Draft, duration};
use super::tree::Context;
use super::{canonical, current};
use crate::discovery;
use crate::error::{self, Reason};
use crate::path::{Path, Step};
use crate::resource_type::TYPE_URL_PREFIX;
use crate::schema::{self, Message};
use crate::validate::{self, Nested};
use crate::version_map::current_name;
use crate::{ApiVersion, Position};

const ANY: &str = "google.protobuf.Any";
/// Messages nest at most this deep, see `Walk`. Here it guards the stack of the text parser.
const MAX_DEPTH: usize = 100;

type Failure = (Reason, Option<Position>);

/// Whether the bytes of a resource are the author's, and so are kept as they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bodies {
    AsTheyAre,
    Canonical,
}

/// Reads a file in text format.
pub(super) fn read_text(text: &str, context: Context<'_>) -> Result<Vec<Draft>, Failure> {
    check_depth(text)?;
    let schema = find(text_message(text))?;
    // What an `Any` of v2 holds, only the pool of v2 can read.
    let in_v2 = || schema::find_in(ApiVersion::V2, schema.full_name());
    let schema = mentions_v2(text).then(in_v2).flatten().unwrap_or(schema);
    let message = DynamicMessage::parse_text_format(schema.descriptor.clone(), text)
        .map_err(|error| (Reason::Syntax(error.to_string()), position(&error, text)))?;
    drafts(
        schema,
        &message,
        &mut Path::default(),
        context,
        Bodies::Canonical,
    )
    .map_err(|reason| (reason, None))
}

/// What the file says it is; otherwise by how it begins.
fn text_message(text: &str) -> &str {
    let comments = text
        .lines()
        .map(str::trim_start)
        .take_while(|line| line.starts_with('#'));
    for comment in comments {
        if let Some(name) = comment
            .trim_start_matches(['#', ' '])
            .strip_prefix("proto-message:")
        {
            return name.trim();
        }
    }
    let first = text
        .lines()
        .map(str::trim_start)
        .find(|line| !line.is_empty() && !line.starts_with('#'));
    if first.is_some_and(|line| line.starts_with('[')) {
        ANY
    } else {
        RESPONSE
    }
}

/// Whether something is packed in the text that only v2 has: `[type.googleapis.com/…] { … }`.
fn mentions_v2(text: &str) -> bool {
    let types = text.split('[').skip(1).filter_map(|rest| {
        let (url, _) = rest.split_once(']')?;
        Some(url.rsplit_once('/')?.1.trim())
    });
    let mut schemas = types.filter_map(schema::find);
    schemas.any(|schema| schema.api == ApiVersion::V2)
}

fn check_depth(text: &str) -> Result<(), Failure> {
    let (mut depth, mut quote, mut comment, mut escaped) = (0usize, None, false, false);
    for byte in text.bytes() {
        match (byte, quote) {
            (b'\n', _) => (comment, escaped) = (false, false),
            _ if comment => {}
            (_, Some(_)) if escaped => escaped = false,
            (b'\\', Some(_)) => escaped = true,
            (b'"' | b'\'', Some(open)) if open == byte => quote = None,
            (_, Some(_)) => {}
            (b'"' | b'\'', None) => quote = Some(byte),
            (b'#', None) => comment = true,
            (b'{' | b'<' | b'[', None) => depth += 1,
            (b'}' | b'>' | b']', None) => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > 2 * MAX_DEPTH {
            let limit = format!("messages are nested more than {MAX_DEPTH} deep");
            return Err((Reason::TooLarge(limit), None));
        }
    }
    Ok(())
}

/// Reads a file in binary form.
pub(super) fn read_binary(bytes: &[u8], context: Context<'_>) -> Result<Vec<Draft>, Failure> {
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
            &mut Path::default(),
            context,
            Bodies::AsTheyAre,
        )
    };
    read().map_err(|reason| (reason, None))
}

/// Reads a message that a program made and encoded.
pub(super) fn read_message(
    full_name: &str,
    bytes: Bytes,
    context: Context<'_>,
) -> Result<Draft, Failure> {
    let schema = find(full_name)?;
    let read = || {
        let mut message = decode(schema, bytes)?;
        let mut value = Vec::new();
        let path = &mut Path::default();
        let draft = checked(schema, &message, Bytes::new(), path, context);
        canonical::normalise(schema, &mut message);
        canonical::encode(schema, &message, &mut value);
        Ok(draft.with_value(value.into()))
    };
    read().map_err(|reason| (reason, None))
}

fn find(name: &str) -> Result<&'static Message, Failure> {
    schema::find(name).ok_or_else(|| (Reason::UnknownType(name.to_owned()), None))
}

fn decode(schema: &Message, bytes: Bytes) -> Result<DynamicMessage, Reason> {
    DynamicMessage::decode(schema.descriptor.clone(), bytes)
        .map_err(|error| Reason::Syntax(format!("not a {}: {error}", schema.full_name())))
}

/// The resources in a message: those of a response, that in an `Any` or a wrapper, or itself.
fn drafts(
    schema: &'static Message,
    message: &DynamicMessage,
    path: &mut Path,
    context: Context<'_>,
    bodies: Bodies,
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
                found.extend(any_draft(any, path, context, bodies)?);
                path.pop();
            }
            path.pop();
            Ok(found)
        }
        ANY => any_draft(message, path, context, bodies),
        WRAPPER => wrapped(message, path, context, bodies),
        _ => {
            let mut value = Vec::new();
            canonical::encode(schema, message, &mut value);
            Ok(vec![body(schema, value.into(), path, context, bodies)?])
        }
    }
}

fn any_draft(
    any: &DynamicMessage,
    path: &mut Path,
    context: Context<'_>,
    bodies: Bodies,
) -> Result<Vec<Draft>, Reason> {
    let any: discovery::Any = any
        .transcode_to()
        .map_err(|error| Reason::Syntax(error.to_string()))?;
    let name = any.type_url.rsplit_once('/').map_or("", |(_, name)| name);
    let schema = schema::find(name).ok_or_else(|| Reason::UnknownType(any.type_url.clone()))?;
    match current_name(schema) {
        RESPONSE | WRAPPER | ANY => {
            let message = decode(schema, any.value)?;
            drafts(schema, &message, path, context, bodies)
        }
        _ => Ok(vec![body(schema, any.value, path, context, bodies)?]),
    }
}

/// The resource whose encoded message this is.
fn body(
    schema: &'static Message,
    value: Bytes,
    path: &mut Path,
    context: Context<'_>,
    bodies: Bodies,
) -> Result<Draft, Reason> {
    let (schema, value) = match current::bytes(schema, value, path, context.walk) {
        Ok(current) => current,
        Err((schema, value)) => {
            let message = decode(schema, value)?;
            return Ok(Draft::new(schema, &message, Bytes::new()).at(path.clone()));
        }
    };
    let mut message = decode(schema, value.clone())?;
    if bodies == Bodies::AsTheyAre {
        return Ok(checked(schema, &message, value, path, context));
    }
    canonical::normalise(schema, &mut message);
    let mut value = Vec::new();
    canonical::encode(schema, &message, &mut value);
    Ok(checked(schema, &message, value.into(), path, context))
}

fn wrapped(
    wrapper: &DynamicMessage,
    path: &mut Path,
    context: Context<'_>,
    bodies: Bodies,
) -> Result<Vec<Draft>, Reason> {
    let field = |name: &str| {
        wrapper
            .has_field_by_name(name)
            .then(|| wrapper.get_field_by_name(name))
            .flatten()
    };
    let name = field("name").and_then(|name| name.as_str().map(str::to_owned));
    let ttl = field("ttl").and_then(|ttl| duration(ttl.as_message()?));
    let any = field("resource").ok_or_else(|| Reason::Value("no `resource` in it".to_owned()))?;
    let Some(any) = any.as_message() else {
        return Ok(Vec::new());
    };
    path.push(Step::Field("resource"));
    let drafts = any_draft(any, path, context, bodies)?;
    path.pop();
    Ok(drafts
        .into_iter()
        .map(|draft| draft.wrapped(name.clone(), ttl))
        .collect())
}

/// Looks at a message that is a resource with these bytes.
fn checked(
    schema: &'static Message,
    message: &DynamicMessage,
    value: Bytes,
    path: &mut Path,
    context: Context<'_>,
) -> Draft {
    let walk = context.walk;
    let mark = walk.mark();
    inspect(
        schema,
        message,
        path,
        context.options,
        &mut |path, reason| {
            walk.note_at(path.clone(), reason);
        },
    );
    validate::check(schema, message, path, Nested::Check, &mut |path, broken| {
        walk.note_at(path.clone(), broken.into());
    });
    let draft = Draft::new(schema, message, value).at(path.clone());
    walk.attribute(mark, &draft);
    draft
}

fn position(error: &prost_reflect::text_format::ParseError, text: &str) -> Option<Position> {
    let offset = error.labels()?.next()?.offset();
    text.get(..offset).map(error::end_of)
}
