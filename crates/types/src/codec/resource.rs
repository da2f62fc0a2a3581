//! Resources on their way from a file: how they are read, drafts, and the result.

use std::collections::BTreeSet;
use std::path::Path as FilePath;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use prost_reflect::{DynamicMessage, Kind};

use super::notice::Notice;
use crate::advice::GrpcRules;
use crate::discovery::Any;
use crate::error::Reason;
use crate::lifecycle::Policy;
use crate::path::FieldPath;
use crate::reference::references;
use crate::schema::Message;
use crate::{Error, Position, Reference, ResourceName, ResourceType, Version};

/// Full name of the message that holds a list of resources.
pub(super) const RESPONSE: &str = "envoy.service.discovery.v3.DiscoveryResponse";
/// Full name of the message that wraps a resource with its name and TTL.
pub(super) const WRAPPER: &str = "envoy.service.discovery.v3.Resource";

/// The encoding of a file of resources.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// YAML, one or more documents: `.yaml` and `.yml` files.
    Yaml,
    /// JSON in the proto3 mapping: `.json` files.
    Json,
    /// Protobuf text format: `.pb_text` and `.textproto` files.
    Text,
    /// Protobuf binary encoding: `.pb` files.
    Binary,
}

impl Format {
    /// Returns the format that the file extension selects; `None` for files that hold no resources (S-72).
    #[must_use]
    pub fn from_path(path: &FilePath) -> Option<Format> {
        match path.extension()?.to_str()? {
            "yaml" | "yml" => Some(Format::Yaml),
            "json" => Some(Format::Json),
            "pb_text" | "textproto" => Some(Format::Text),
            "pb" => Some(Format::Binary),
            _ => None,
        }
    }
}

/// Limits and tolerances of [`decode`](super::decode).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    /// Accepts fields that the descriptors do not know (`--allow-unknown-static-fields`) instead of rejecting the file:
    /// each is a warning (V-58). Resources from YAML and JSON lose these fields; binary bodies keep them. In text
    /// format unknown fields are always errors, because the parser cannot skip them.
    pub allow_unknown_fields: bool,
    /// Largest file that is parsed, in bytes. Larger files are errors.
    pub max_bytes: usize,
    /// Decides about deprecated fields and enum values (V-44, V-45). By default annotations alone decide.
    pub policy: Policy,
    /// Looks for deprecated and unfinished elements (V-44, V-45, V-59), and for parts without effect, as by default. A
    /// program whose resources are checked elsewhere may turn it off: then `policy` is not asked.
    pub check_life_cycle: bool,
    /// Certificate providers of the clients' bootstrap (gRFC A29). An instance in a TLS context that is not among them
    /// is a warning. `None`, the default: not known, and not checked.
    pub certificate_providers: Option<BTreeSet<String>>,
    /// Rules of gRPC clients and servers. A resource that they alone read (an API listener, the listener of a gRPC
    /// server, a cluster with a certificate provider) and that breaks one is a warning. `None`, the default: not
    /// checked.
    pub grpc_rules: Option<GrpcRules>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            allow_unknown_fields: false,
            max_bytes: 256 << 20,
            policy: Policy::default(),
            check_life_cycle: true,
            certificate_providers: None,
            grpc_rules: None,
        }
    }
}

/// A valid resource, read from a file or made from a message.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct LoadedResource {
    /// Type of the resource.
    pub resource_type: ResourceType,
    /// Name in [canonical form](crate::name::canonical).
    pub name: Arc<str>,
    /// Type URL (v3) and canonical bytes.
    pub any: Any,
    /// Hash of the canonical bytes.
    pub version: Version,
    /// Time to live, if the file wraps the resource in a `Resource` that has one.
    pub ttl: Option<Duration>,
    /// Resources that this one refers to, sorted, each once.
    pub references: Vec<Reference>,
    /// Findings that do not prevent the resource from being served: one per deprecated or unfinished element, per
    /// accepted unknown field, and per part that has no effect or that clients reject.
    pub warnings: Vec<Error>,
    /// Position of the resource in its file. `None` where the layout of the text is unusual.
    pub position: Option<Position>,
}

/// Result of reading a document: its resources, or the reason why reading stopped, with the parser's position.
pub(super) type ReadResult<T = Vec<Draft>> = Result<T, (Reason, Option<Position>)>;

/// A resource that was read and encoded, with its field path in the document.
#[derive(Debug)]
pub(super) struct Draft {
    schema: &'static Message,
    name: Option<String>,
    value: Bytes,
    ttl: Option<Duration>,
    pub(super) path: FieldPath,
    pub(super) notices: Vec<Notice>,
}

impl Draft {
    pub(super) fn new(schema: &'static Message, message: &DynamicMessage, value: Bytes) -> Draft {
        Draft {
            schema,
            name: own_name(schema, message),
            value,
            ttl: None,
            path: FieldPath::default(),
            notices: Vec::new(),
        }
    }

    /// Sets the path to the resource in its document.
    pub(super) fn at(mut self, path: FieldPath) -> Draft {
        self.path = path;
        self
    }

    /// Adds notices.
    pub(super) fn noticed(mut self, notices: Vec<Notice>) -> Draft {
        self.notices.extend(notices);
        self
    }

    /// Replaces the encoded content.
    pub(super) fn with_value(mut self, value: Bytes) -> Draft {
        self.value = value;
        self
    }

    /// Applies name and TTL of the wrapper around the resource. An empty name leaves the resource's own.
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

    /// Returns the resource, without position and warnings.
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

/// Returns the name in a message: `cluster_name` of a `ClusterLoadAssignment`, `name` of all others that have one.
fn own_name(schema: &Message, message: &DynamicMessage) -> Option<String> {
    let field = match schema.full_name() {
        "envoy.config.endpoint.v3.ClusterLoadAssignment" => "cluster_name",
        _ => "name",
    };
    let field = schema
        .field_named(field)
        .filter(|f| f.descriptor.kind() == Kind::String)?;
    let name = message.get_field(&field.descriptor);
    name.as_str()
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
}

/// Converts a `google.protobuf.Duration`; `None` if it is negative.
pub(super) fn duration(message: &DynamicMessage) -> Option<Duration> {
    let seconds = message.get_field_by_number(1)?.as_i64()?;
    let nanos = message.get_field_by_number(2)?.as_i32()?;
    Some(Duration::new(
        u64::try_from(seconds).ok()?,
        u32::try_from(nanos).ok()?,
    ))
}
