//! YAML and JSON documents (S-72): one resource with `@type`, a list of them, or a `DiscoveryResponse`.
//!
//! Each resource may be wrapped in a `Resource` with name and TTL. The two parsers share the readers: a parser is a
//! serde deserializer. A YAML file is a stream of documents; a JSON file is one document.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use prost_reflect::DynamicMessage;
use serde::de::value::MapDeserializer;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::error::Category;
use serde_saphyr::{MessageFormatter, UserMessageFormatter};

use super::resource::{Draft, RESPONSE, ReadResult, WRAPPER, duration};
use super::tree::{MessageSeed, TYPE, find_type, typed_rest, unknown_field};
use super::value::Buffered;
use super::walk::Context;
use super::{canonical, inspector};
use crate::depth::{self, MAX_BRACKETS, MAX_DEPTH, brackets};
use crate::error::Reason;
use crate::path::Step;
use crate::schema::{self, Message};
use crate::validate::{self, Nested};
use crate::version_map::current_name;
use crate::{ApiVersion, Position};

/// Nodes that the aliases of a document of this size in bytes may expand to.
///
/// A node costs up to a kilobyte once it is a message, so the limit is in proportion to the text: eight nodes per byte
/// are ten times what files have that use a block of a hundred lines everywhere, and an alias bomb of one kilobyte ends
/// after a few megabytes.
fn max_replayed(bytes: usize) -> usize {
    (20_000 + 8 * bytes).min(1_000_000)
}

/// Reads a JSON document.
pub(super) fn read_json(text: &str, context: Context<'_>) -> ReadResult {
    if brackets(text.as_bytes()) > MAX_BRACKETS {
        return Err((Reason::too_deep(), None));
    }
    let mut deserializer = serde_json::Deserializer::from_str(text);
    deserializer.disable_recursion_limit();
    DocumentSeed(context)
        .deserialize(&mut deserializer)
        .and_then(|drafts| deserializer.end().map(|()| drafts))
        .map_err(|error| (json_reason(&error), json_position(&error)))
}

pub(super) fn json_reason(error: &serde_json::Error) -> Reason {
    // `Display` appends the position, which is returned separately.
    let text = error.to_string();
    let text = text
        .rsplit_once(" at line ")
        .map_or(text.as_str(), |(text, _)| text)
        .to_owned();
    match error.classify() {
        Category::Data => Reason::Value(text),
        _ => Reason::Syntax(text),
    }
}

pub(super) fn json_position(error: &serde_json::Error) -> Option<Position> {
    let line = u32::try_from(error.line()).ok().filter(|line| *line > 0)?;
    Some(Position {
        line,
        column: error.column().max(1) as u32,
    })
}

/// Splits a YAML stream into documents: the line at which each begins, from 0, and its text.
///
/// A line that begins with `---` or `...` always ends a document: no scalar may contain such a line (YAML 1.2.2,
/// section 9.1.2).
pub(super) fn yaml_documents(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut line = 0;
    let mut rest = text.strip_prefix('\u{feff}').unwrap_or(text);
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let start = line;
        let mut end = 0;
        for (index, part) in rest.split_inclusive('\n').enumerate() {
            if index > 0 && is_marker(part, "---") {
                break;
            }
            end += part.len();
            line += 1;
            if is_marker(part, "...") {
                break;
            }
        }
        let (document, others) = rest.split_at(end);
        rest = others;
        Some((start, document))
    })
    .filter(|(_, document)| !is_blank(document))
}

fn is_marker(line: &str, marker: &str) -> bool {
    line.strip_prefix(marker)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']))
}

/// Returns whether a document has only comments, directives and markers.
fn is_blank(document: &str) -> bool {
    document.lines().all(|line| {
        let line = line
            .strip_prefix("---")
            .or(line.strip_prefix("..."))
            .unwrap_or(line);
        let line = line.trim();
        line.is_empty() || line.starts_with('#') || line.starts_with('%')
    })
}

/// Reads one YAML document. Positions in errors count from the beginning of the document.
pub(super) fn read_yaml(text: &str, context: Context<'_>) -> ReadResult {
    serde_saphyr::with_deserializer_from_str_with_options(
        text,
        yaml_options(text.len()),
        |deserializer| DocumentSeed(context).deserialize(deserializer),
    )
    .map_err(|error| {
        let reason = yaml_reason(&error, text.len());
        (reason, error.location().map(yaml_position))
    })
}

/// Returns the parser options for text of this size in bytes.
pub(super) fn yaml_options(bytes: usize) -> serde_saphyr::Options {
    let mut options = serde_saphyr::Options::default();
    // YAML 1.2: `NO` is a string, and may be the name of an enum value.
    options.strict_booleans = true;
    options.with_snippet = false;
    options.alias_limits.max_total_replayed_events = max_replayed(bytes);
    options.budget = Some(budget(bytes));
    options
}

/// Returns limits in proportion to the size of the text, which has a limit of its own. A text without aliases never
/// exceeds them.
fn budget(bytes: usize) -> serde_saphyr::Budget {
    let mut budget = serde_saphyr::Budget::default();
    budget.max_events = 2 * bytes + max_replayed(bytes);
    budget.max_nodes = budget.max_events;
    budget.max_depth = MAX_BRACKETS;
    budget.max_total_scalar_bytes = 2 * bytes + (64 << 20);
    budget.max_total_comment_bytes = bytes;
    // An anchor may have many uses; the limit above bounds what they expand to.
    budget.enforce_alias_anchor_ratio = false;
    budget
}

pub(super) fn yaml_reason(error: &serde_saphyr::Error, bytes: usize) -> Reason {
    let text = UserMessageFormatter.format_message(error);
    // Inside an alias, the text also lists the uses of the alias. The position is returned separately.
    let text = text
        .split_once(" at line ")
        .map_or(&*text, |(text, _)| text)
        .to_owned();
    match error {
        serde_saphyr::Error::Budget { .. } => Reason::TooLarge(text),
        // Each alias wraps the text of the error, so the kind of the error is lost.
        _ if text.contains("alias replay limit exceeded") => {
            let limit = format!("aliases expand to more than {} nodes", max_replayed(bytes));
            Reason::TooLarge(limit)
        }
        serde_saphyr::Error::Message { .. } | serde_saphyr::Error::SerdeInvalidType { .. } => {
            Reason::Value(text)
        }
        _ => Reason::Syntax(text),
    }
}

pub(super) fn yaml_position(location: serde_saphyr::Location) -> Position {
    Position {
        line: location.line() as u32,
        column: location.column() as u32,
    }
}

/// Reads a document: one resource, a list, or a response.
struct DocumentSeed<'a>(Context<'a>);

impl<'de> DeserializeSeed<'de> for DocumentSeed<'_> {
    type Value = Vec<Draft>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for DocumentSeed<'_> {
    type Value = Vec<Draft>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a resource with `@type`, a list of them, or `resources:`")
    }

    /// A document of comments only.
    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Vec::new())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Self::Value, A::Error> {
        ResourcesVisitor(self.0).visit_seq(seq)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let context = self.0;
        let mut early = Vec::new();
        while let Some(key) = map.next_key::<String>()? {
            if key == TYPE {
                let schema = find_type(&map.next_value::<String>()?, context)?;
                if current_name(schema) == RESPONSE {
                    return response(schema, early, None, map, context);
                }
                return resource(schema, early, map, context).map(|draft| vec![draft]);
            }
            // No resource type has a field `resources`, so this is a response, and it need not be buffered.
            match schema::find(RESPONSE) {
                Some(schema) if key == "resources" => {
                    return response(schema, early, Some(key), map, context);
                }
                _ => early.push((key, map.next_value::<Buffered>()?)),
            }
        }
        if early.is_empty() {
            Ok(Vec::new())
        } else {
            Err(context.walk.stop(Reason::NoType))
        }
    }
}

/// Reads the resources of a list.
struct ResourcesVisitor<'a>(Context<'a>);

impl<'de> DeserializeSeed<'de> for ResourcesVisitor<'_> {
    type Value = Vec<Draft>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ResourcesVisitor<'_> {
    type Value = Vec<Draft>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of resources")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Vec::new())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut drafts = Vec::new();
        loop {
            let index = Step::Index(drafts.len());
            let next = || seq.next_element_seed(ResourceSeed(self.0));
            match self.0.walk.at(index, next)? {
                Some(draft) => drafts.push(draft),
                None => return Ok(drafts),
            }
        }
    }
}

/// Reads one resource of a list or a wrapper.
struct ResourceSeed<'a>(Context<'a>);

impl<'de> DeserializeSeed<'de> for ResourceSeed<'_> {
    type Value = Draft;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Draft, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ResourceSeed<'_> {
    type Value = Draft;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a resource with `@type`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Draft, A::Error> {
        let context = self.0;
        let mut early = Vec::new();
        while let Some(key) = map.next_key::<String>()? {
            if key == TYPE {
                let schema = find_type(&map.next_value::<String>()?, context)?;
                return resource(schema, early, map, context);
            }
            early.push((key, map.next_value::<Buffered>()?));
        }
        Err(context.walk.stop(Reason::NoType))
    }
}

/// Reads the rest of a resource of known type, which may be a wrapper.
fn resource<'de, A: MapAccess<'de>>(
    schema: &'static Message,
    early: Vec<(String, Buffered)>,
    map: A,
    context: Context<'_>,
) -> Result<Draft, A::Error> {
    let walk = context.walk;
    let (mark, path) = (walk.mark(), walk.path());
    let mut wrapped = Wrapped::default();
    let draft = if current_name(schema) == WRAPPER {
        wrapped.read(schema, MapDeserializer::new(early.into_iter()), context)?;
        wrapped.read(schema, map, context)?;
        match wrapped.draft.take() {
            Some(draft) => draft.wrapped(wrapped.name, wrapped.ttl),
            None => return Err(walk.stop(Reason::Value("missing field `resource`".to_owned()))),
        }
    } else {
        let message = typed_rest(schema, early, map, context)?;
        checked(schema, message, context).at(path)
    };
    walk.attribute(mark, &draft);
    Ok(draft.noticed(walk.take_notices()))
}

/// Validates and encodes a message that is a resource.
fn checked(schema: &'static Message, message: DynamicMessage, context: Context<'_>) -> Draft {
    let walk = context.walk;
    let is_v2 = schema.api == ApiVersion::V2;
    let (schema, message) = match canonical::to_current(schema, message, walk) {
        Ok(current) => current,
        Err((schema, message)) => return Draft::new(schema, &message, Bytes::new()),
    };
    if is_v2 {
        inspector::marks(schema, &message, &mut walk.path(), walk);
    }
    validate::check(
        schema,
        &message,
        &mut walk.path(),
        Nested::Skip,
        &mut |path, broken| {
            walk.note_at(path.clone(), broken.into());
        },
    );
    let mut value = Vec::new();
    canonical::encode(schema, &message, &mut value);
    let value = canonical::struct_to_current(schema, value.into(), walk);
    // The reader counts messages, but a `Struct` has three levels for each level of the text.
    if let Err(deep) = depth::measure(schema, &value, MAX_DEPTH) {
        let mut path = walk.path();
        deep.extend(&mut path);
        walk.note_at(path, Reason::too_deep());
    }
    let mut path = walk.path();
    context.advise(schema, &message, &value, &mut path);
    Draft::new(schema, &message, value)
}

/// The parts of a `Resource` wrapper that are read.
#[derive(Default)]
struct Wrapped {
    name: Option<String>,
    ttl: Option<Duration>,
    draft: Option<Draft>,
}

impl Wrapped {
    fn read<'de, A: MapAccess<'de>>(
        &mut self,
        schema: &'static Message,
        mut map: A,
        context: Context<'_>,
    ) -> Result<(), A::Error> {
        let walk = context.walk;
        while let Some(key) = map.next_key::<String>()? {
            let Some(field) = schema.field_named(&key) else {
                unknown(schema, key, &mut map, context)?;
                continue;
            };
            walk.at(Step::Field(&field.name), || {
                match field.name.as_str() {
                    "name" => self.name = map.next_value()?,
                    "ttl" => self.ttl = Some(map.next_value_seed(DurationSeed(context))?),
                    "resource" => self.draft = Some(map.next_value_seed(ResourceSeed(context))?),
                    // The version is computed from the content; the other fields are not read.
                    _ => drop(map.next_value::<IgnoredAny>()?),
                }
                Ok(())
            })?;
        }
        Ok(())
    }
}

/// Reads a non-negative `google.protobuf.Duration`.
struct DurationSeed<'a>(Context<'a>);

impl<'de> DeserializeSeed<'de> for DurationSeed<'_> {
    type Value = Duration;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Duration, D::Error> {
        let schema = schema::find("google.protobuf.Duration")
            .ok_or_else(|| D::Error::custom("no descriptor of Duration"))?;
        let message = MessageSeed {
            schema,
            context: self.0,
        }
        .deserialize(deserializer)?;
        duration(&message).ok_or_else(|| {
            self.0.walk.stop(Reason::Value(
                "negative duration: expected zero or more".to_owned(),
            ))
        })
    }
}

/// Reads the rest of a `DiscoveryResponse`. `key` is a key that was already taken from `map`.
fn response<'de, A: MapAccess<'de>>(
    schema: &'static Message,
    early: Vec<(String, Buffered)>,
    key: Option<String>,
    mut map: A,
    context: Context<'_>,
) -> Result<Vec<Draft>, A::Error> {
    let mut drafts = Vec::new();
    response_fields(
        schema,
        None,
        MapDeserializer::new(early.into_iter()),
        context,
        &mut drafts,
    )?;
    if let Some(key) = key {
        response_field(schema, key, &mut map, context, &mut drafts)?;
    }
    response_fields(schema, Some(TYPE), map, context, &mut drafts)?;
    Ok(drafts)
}

fn response_fields<'de, A: MapAccess<'de>>(
    schema: &'static Message,
    skip: Option<&str>,
    mut map: A,
    context: Context<'_>,
    drafts: &mut Vec<Draft>,
) -> Result<(), A::Error> {
    while let Some(key) = map.next_key::<String>()? {
        if Some(key.as_str()) != skip {
            response_field(schema, key, &mut map, context, drafts)?;
            continue;
        }
        let url = map.next_value::<String>()?;
        if current_name(find_type::<A::Error>(&url, context)?) != RESPONSE {
            let reason = "`@type` after `resources`: expected `@type` first".to_owned();
            return Err(context.walk.stop(Reason::Value(reason)));
        }
    }
    Ok(())
}

/// Reads one field of a response. The server makes version and nonce itself, so only the resources are read.
fn response_field<'de, A: MapAccess<'de>>(
    schema: &'static Message,
    key: String,
    map: &mut A,
    context: Context<'_>,
    drafts: &mut Vec<Draft>,
) -> Result<(), A::Error> {
    match schema.field_named(&key) {
        Some(field) if field.name == "resources" => {
            let resources = || map.next_value_seed(ResourcesVisitor(context));
            drafts.extend(context.walk.at(Step::Field(&field.name), resources)?);
        }
        Some(_) => drop(map.next_value::<IgnoredAny>()?),
        None => unknown(schema, key, map, context)?,
    }
    Ok(())
}

/// Records an unknown field and skips its value.
fn unknown<'de, A: MapAccess<'de>>(
    schema: &'static Message,
    key: String,
    map: &mut A,
    context: Context<'_>,
) -> Result<(), A::Error> {
    unknown_field(schema, key, context);
    map.next_value::<IgnoredAny>().map(drop)
}
