//! The shapes of a document (S-72): one resource with `@type`, a list of them, or a
//! `DiscoveryResponse`; each resource perhaps wrapped in a `Resource` with name and TTL.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use prost_reflect::DynamicMessage;
use serde::de::value::MapDeserializer;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::buffer::Node;
use super::resource::Draft;
use super::tree::{Context, MessageSeed, TYPE, find_type, typed_rest};
use super::{canonical, current};
use crate::error::Reason;
use crate::path::Step;
use crate::schema::{self, Message};
use crate::validate::{self, Nested};
use crate::version_map::current_name;

pub(super) const RESPONSE: &str = "envoy.service.discovery.v3.DiscoveryResponse";
pub(super) const WRAPPER: &str = "envoy.service.discovery.v3.Resource";

/// Reads a document.
pub(super) struct DocumentSeed<'a>(pub(super) Context<'a>);

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

    /// Nothing but comments.
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
            // No resource begins like a response; this spares buffering a large one.
            match schema::find(RESPONSE) {
                Some(schema) if key == "resources" => {
                    return response(schema, early, Some(key), map, context);
                }
                _ => early.push((key, map.next_value::<Node>()?)),
            }
        }
        if early.is_empty() {
            Ok(Vec::new())
        } else {
            Err(context.walk.stop(Reason::NoType))
        }
    }
}

/// Reads the elements of a list.
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

/// Reads one resource.
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
            early.push((key, map.next_value::<Node>()?));
        }
        Err(context.walk.stop(Reason::NoType))
    }
}

/// Reads the rest of a resource of known type, wrapped or not.
fn resource<'de, A: MapAccess<'de>>(
    schema: &'static Message,
    early: Vec<(String, Node)>,
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
            None => return Err(walk.stop(Reason::Value("no `resource` in it".to_owned()))),
        }
    } else {
        let message = typed_rest(schema, early, map, context)?;
        checked(schema, message, context).at(path)
    };
    walk.attribute(mark, &draft);
    Ok(draft)
}

/// Checks a message that is a resource, and encodes it.
fn checked(schema: &'static Message, message: DynamicMessage, context: Context<'_>) -> Draft {
    let walk = context.walk;
    let (schema, message) = match current::message(schema, message, walk) {
        Ok(current) => current,
        Err((schema, message)) => return Draft::new(schema, &message, Bytes::new()),
    };
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
    Draft::new(schema, &message, Bytes::from(value))
}

/// What a `Resource` says about the resource in it.
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
                    // The version is ours to make; the rest is not for servers.
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
        super::resource::duration(&message).ok_or_else(|| {
            self.0
                .walk
                .stop(Reason::Value("a negative duration".to_owned()))
        })
    }
}

/// Reads the rest of a `DiscoveryResponse`. `key` is one already taken from `map`.
fn response<'de, A: MapAccess<'de>>(
    schema: &'static Message,
    early: Vec<(String, Node)>,
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
            let reason = "`@type` must come before `resources`".to_owned();
            return Err(context.walk.stop(Reason::Value(reason)));
        }
    }
    Ok(())
}

/// Version, nonce and the like are made by the server: only the resources are taken.
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

fn unknown<'de, A: MapAccess<'de>>(
    schema: &'static Message,
    key: String,
    map: &mut A,
    context: Context<'_>,
) -> Result<(), A::Error> {
    super::tree::unknown_field(schema, key, context);
    map.next_value::<IgnoredAny>().map(drop)
}
