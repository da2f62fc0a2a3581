//! What is written in v2 becomes v3, in which everything is kept (S-64).

use bytes::Bytes;
use prost_reflect::DynamicMessage;

use super::canonical;
use super::walk::Walk;
use crate::ApiVersion;
use crate::error::Reason;
use crate::path::Path;
use crate::schema::Message;
use crate::version_map::{Incompatibility, rewrite, successor};

/// A message and what it is one of. As an error: what v3 lacks is missing from it, and was noted;
/// there is no use in looking for more that is wrong.
type Current<T> = Result<(&'static Message, T), (&'static Message, T)>;

/// A message read from a text, in v3.
pub(super) fn message(
    schema: &'static Message,
    message: DynamicMessage,
    walk: &Walk,
) -> Current<DynamicMessage> {
    if schema.api == ApiVersion::V3 {
        return Ok((schema, message));
    }
    let mut value = Vec::new();
    canonical::encode(schema, &message, &mut value);
    let decode = |(schema, value): (&'static Message, Bytes)| {
        // It was encoded here: what is in the way was noted, and nothing else can be.
        let message = DynamicMessage::decode(schema.descriptor.clone(), value).unwrap_or(message);
        (schema, message)
    };
    match bytes(schema, value.into(), &mut walk.path(), walk) {
        Ok(current) => Ok(decode(current)),
        Err(current) => Err(decode(current)),
    }
}

/// The same for an encoded message that `path` leads to. Bytes without anything of v2 stay as
/// they are.
pub(super) fn bytes(
    schema: &'static Message,
    value: Bytes,
    path: &mut Path,
    walk: &Walk,
) -> Current<Bytes> {
    let mark = walk.mark();
    let mut note = |path: &Path, obstacle| walk.note_at(path.clone(), Reason::OnlyV2(obstacle));
    let Some(current) = successor(schema) else {
        let message = schema.full_name().to_owned();
        let to = ApiVersion::V3;
        note(path, Incompatibility::NoMessage { message, to });
        return Err((schema, value));
    };
    let rewritten = rewrite(schema, current, &value, path, &mut note);
    let value = if rewritten == value {
        value
    } else {
        rewritten.into()
    };
    if walk.mark() == mark {
        Ok((current, value))
    } else {
        Err((current, value))
    }
}
