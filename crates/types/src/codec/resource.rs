//! From a message that was read to a resource that can be served.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use prost_reflect::{DynamicMessage, Kind as Type};

use super::LoadedResource;
use crate::discovery::Any;
use crate::error::Reason;
use crate::path::Path;
use crate::reference::references;
use crate::schema::Message;
use crate::{ResourceName, ResourceType, Version};

/// A resource read and encoded, its place kept as a path.
#[derive(Debug)]
pub(super) struct Draft {
    schema: &'static Message,
    name: Option<String>,
    value: Bytes,
    ttl: Option<Duration>,
    pub(super) path: Path,
}

impl Draft {
    pub(super) fn new(schema: &'static Message, message: &DynamicMessage, value: Bytes) -> Draft {
        Draft {
            schema,
            name: name(schema, message),
            value,
            ttl: None,
            path: Path::default(),
        }
    }

    /// The resource was found here.
    pub(super) fn at(mut self, path: Path) -> Draft {
        self.path = path;
        self
    }

    /// These bytes are its content.
    pub(super) fn with_value(mut self, value: Bytes) -> Draft {
        self.value = value;
        self
    }

    /// A wrapper around the resource says this.
    pub(super) fn wrapped(mut self, name: Option<String>, ttl: Option<Duration>) -> Draft {
        self.name = name.filter(|name| !name.is_empty()).or(self.name);
        self.ttl = ttl;
        self
    }

    pub(super) fn resource_type(&self) -> ResourceType {
        ResourceType::from_message(self.schema.full_name()).0
    }

    pub(super) fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// The resource, still without position and warnings.
    pub(super) fn finish(self) -> Result<LoadedResource, Reason> {
        let resource_type = self.resource_type();
        let name = self
            .name
            .ok_or_else(|| Reason::NoName(self.schema.full_name().to_owned()))?;
        let name = ResourceName::parse(&name).map_err(|e| Reason::Value(e.to_string()))?;
        Ok(LoadedResource {
            name: Arc::from(name.canonical().as_ref()),
            version: Version::of(&self.value),
            references: references(&resource_type, &self.value),
            any: Any {
                type_url: resource_type.type_url().to_owned(),
                value: self.value,
            },
            resource_type,
            ttl: self.ttl,
            warnings: Vec::new(),
            position: None,
        })
    }
}

/// The name that a message gives itself: `cluster_name` of an assignment, `name` of all others
/// that have one.
fn name(schema: &Message, message: &DynamicMessage) -> Option<String> {
    let field = match schema.full_name() {
        "envoy.config.endpoint.v3.ClusterLoadAssignment" => "cluster_name",
        _ => "name",
    };
    let field = schema
        .field_named(field)
        .filter(|f| f.descriptor.kind() == Type::String)?;
    let name = message.get_field(&field.descriptor);
    name.as_str()
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
}

/// A `google.protobuf.Duration` that is not negative.
pub(super) fn duration(message: &DynamicMessage) -> Option<Duration> {
    let seconds = message.get_field_by_number(1)?.as_i64()?;
    let nanos = message.get_field_by_number(2)?.as_i32()?;
    Some(Duration::new(
        u64::try_from(seconds).ok()?,
        u32::try_from(nanos).ok()?,
    ))
}
