//! A resource, encoded once for every response that carries it.

use std::{
    borrow::Cow,
    fmt,
    sync::{Arc, OnceLock},
    time::Duration,
};

use bytes::{Buf, Bytes, BytesMut};
use oxds_types::codec::{self, InvalidMessage, LoadedResource};
use oxds_types::discovery::{self, Any};
use oxds_types::name::canonical;
use oxds_types::reference::references;
use oxds_types::version_map::{NotRepresentable, to_v2, to_v3};
use oxds_types::{ApiVersion, Reference, ResourceType, Version};
use prost::encoding::{decode_varint, key_len};
use prost::{Message, Name};

use super::form::Form;
use super::origin::ResourceOrigin;
use super::ttl;
use super::wire::{
    ANY_TYPE_URL, ANY_VALUE, RESOURCE_ALIASES, RESOURCE_BODY, RESOURCE_NAME, RESOURCE_VERSION,
    RESOURCES, field_len, put_field, put_header,
};
use crate::protocol::Protocol;
use crate::resource::own_name;
use crate::time::duration;

/// Type and name of a resource: unique within one snapshot.
pub type ResourceKey = (ResourceType, Arc<str>);

/// Reasons why v2 cannot express a resource; at least one.
pub type Obstacles = Arc<[NotRepresentable]>;

/// One immutable resource: type, name, content, and the version, which is a hash of the content.
///
/// ```text
///  delta element:  [resources, len] [version] [name] [resource, len] [type_url] [value]
///  SotW element:                                     [resources, len] [type_url] [value]
/// ```
///
/// The bytes of the content are kept as they were given, and are never encoded again.
pub struct Resource {
    resource_type: ResourceType,
    name: Arc<str>,
    version: Version,
    // Not in `delta`: only clients that support TTLs get it.
    ttl: Option<Duration>,
    references: Arc<[Reference]>,
    origin: Option<ResourceOrigin>,
    /// The resource for clients of v2, or why v2 cannot express it. Made when the first of them asks.
    in_v2: OnceLock<Result<Arc<Resource>, Obstacles>>,
    delta: Bytes,
    /// Start of the SotW element in `delta`.
    sotw_at: usize,
    /// Start of the content in `delta`.
    value_at: usize,
}

/// Reason why an element of a discovery response is not a resource: see [`Resource::from_wire`].
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// The element has no body, as a heartbeat does.
    #[error("resource {name:?} has no body: expected a resource, not a heartbeat")]
    MissingBody {
        /// Name of the element.
        name: String,
    },
    /// The type URL is empty, or has no message name.
    #[error("malformed type_url {0:?}: expected type.googleapis.com/<message>")]
    MalformedTypeUrl(String),
    /// The bytes are not a message of the type, as far as they were read.
    #[error("malformed {message}: {reason}")]
    Malformed {
        /// Message of the type URL.
        message: String,
        /// Error of the decoder.
        reason: String,
    },
    /// Neither the wrapper nor the message has a name.
    #[error("{0} has no name: expected one in the message or in its Resource wrapper")]
    NoName(ResourceType),
    /// The TTL is negative or out of range.
    #[error("invalid ttl of {name:?}: expected a duration that is not negative")]
    InvalidTtl {
        /// Name of the element.
        name: String,
    },
    /// The resource came in v2 and cannot be translated to v3.
    #[error("v2 resource {name:?} cannot be expressed in v3: {}", first(.reasons))]
    NotRepresentable {
        /// Name of the resource.
        name: String,
        /// Fields and values that v2 cannot express; at least one.
        reasons: Vec<NotRepresentable>,
    },
}

fn first(reasons: &[NotRepresentable]) -> String {
    reasons.first().map(ToString::to_string).unwrap_or_default()
}

/// Messages in which a SotW response may wrap its resources.
const WRAPPERS: [&str; 2] = [
    "envoy.service.discovery.v3.Resource",
    "envoy.api.v2.Resource",
];

impl Resource {
    /// Makes a resource from an encoded message of its type. The name is kept in its [`canonical`] form.
    ///
    /// The version is a hash of the bytes. Replicas agree on it if they get equal bytes, so pass canonical ones (S-29).
    #[must_use]
    pub fn new(resource_type: ResourceType, name: impl Into<Arc<str>>, value: &[u8]) -> Self {
        let mut name: Arc<str> = name.into();
        if let Cow::Owned(spelt) = canonical(&name) {
            name = spelt.into();
        }
        Self::encoded(
            resource_type,
            ApiVersion::V3,
            name,
            Version::of(value),
            value,
        )
    }

    /// Makes a resource from an element of a delta response, as a server sent it: what a relay needs.
    ///
    /// The bytes of a v3 resource are kept as they came, unknown fields included; a v2 resource is translated to v3.
    /// The name is that of the wrapper, or of the message itself if the wrapper has none. The TTL is kept. The
    /// references are read from the message, so that make-before-break works on relayed resources. The version is a
    /// hash of the bytes, as everywhere: versions of different servers are not comparable, so the wrapper's version is
    /// ignored.
    ///
    /// The content is not validated, except for its depth: a relay serves what its server serves.
    ///
    /// # Errors
    /// The element has no body, no type, no name, or a TTL out of range; it nests more than 100 levels deep; or v3
    /// cannot express a v2 resource.
    pub fn from_wire(element: discovery::Resource) -> Result<Self, WireError> {
        let discovery::Resource {
            name,
            resource,
            ttl,
            ..
        } = element;
        let Some(any) = resource else {
            return Err(WireError::MissingBody { name });
        };
        let ttl = ttl.map(|ttl| duration(&ttl)).map(|ttl| {
            let invalid = || WireError::InvalidTtl { name: name.clone() };
            ttl.ok_or_else(invalid)
        });
        let resource = Self::from_any(any, name)?;
        Ok(Self {
            ttl: ttl.transpose()?,
            ..resource
        })
    }

    /// Makes a resource from an element of a SotW response, as a server sent it. See [`from_wire`](Self::from_wire).
    ///
    /// The element is the resource itself, or a `Resource` wrapper with name and TTL (client feature
    /// `xds.config.resource-in-sotw`).
    ///
    /// # Errors
    /// As [`from_wire`](Self::from_wire), and if a wrapper cannot be decoded.
    pub fn from_sotw_wire(element: Any) -> Result<Self, WireError> {
        let message = message_of(&element.type_url);
        if !WRAPPERS.contains(&message) {
            return Self::from_any(element, String::new());
        }
        let message = message.to_owned();
        let wrapper = discovery::Resource::decode(element.value);
        Self::from_wire(wrapper.map_err(|error| WireError::Malformed {
            message,
            reason: error.to_string(),
        })?)
    }

    /// `name` is that of the wrapper; empty without one.
    fn from_any(any: Any, name: String) -> Result<Self, WireError> {
        let Some((resource_type, api)) = ResourceType::from_type_url(&any.type_url) else {
            return Err(WireError::MalformedTypeUrl(any.type_url));
        };
        let name = if name.is_empty() {
            own_name(&any.value)
                .map_err(|invalid| WireError::Malformed {
                    message: resource_type.message().to_owned(),
                    reason: invalid.to_string(),
                })?
                .into_owned()
        } else {
            name
        };
        let value: Bytes = match api {
            ApiVersion::V3 => any.value,
            ApiVersion::V2 => match to_v3(message_of(&any.type_url), &any.value) {
                Ok(value) => value.into(),
                Err(reasons) => return Err(WireError::NotRepresentable { name, reasons }),
            },
        };
        Self::from_stored(resource_type, name.into(), &value)
    }

    /// Makes a resource from a v3 message of its type, as a store has it: as [`from_wire`](Self::from_wire), without an
    /// envelope.
    ///
    /// # Errors
    /// It has no name, or nests more than 100 levels deep.
    pub fn from_stored(
        resource_type: ResourceType,
        name: Arc<str>,
        value: &[u8],
    ) -> Result<Self, WireError> {
        if name.is_empty() {
            return Err(WireError::NoName(resource_type));
        }
        codec::check_depth(resource_type.message(), value).map_err(|error| {
            let message = resource_type.message().to_owned();
            let reason = error.to_string();
            WireError::Malformed { message, reason }
        })?;
        let references = references(&resource_type, value);
        Ok(Self::new(resource_type, name, value).with_references(references))
    }

    fn encoded(
        resource_type: ResourceType,
        api: ApiVersion,
        name: Arc<str>,
        version: Version,
        value: &[u8],
    ) -> Self {
        let type_url = resource_type.type_url_on(api);
        let alias = has_aliases(&resource_type).then_some(&*name);
        let delta = encode(type_url, &name, alias, version, value);
        let value_at = delta.len() - value.len();
        let sotw_at = delta.len() - field_len(RESOURCES, any_len(type_url, value));
        Self {
            resource_type,
            name,
            version,
            ttl: None,
            references: Arc::default(),
            origin: None,
            in_v2: OnceLock::new(),
            delta,
            sotw_at,
            value_at,
        }
    }

    /// Returns the resource for clients of v2, with the same version (S-62). It is made once and shared by all
    /// snapshots.
    ///
    /// # Errors
    /// The reasons why v2 cannot express it (S-63).
    pub fn in_v2(&self) -> &Result<Arc<Self>, Obstacles> {
        self.in_v2.get_or_init(|| {
            let value = to_v2(self.resource_type.message(), &self.value())?;
            let (resource_type, name) = self.key();
            let in_v2 = Self::encoded(resource_type, ApiVersion::V2, name, self.version, &value);
            Ok(Arc::new(Self {
                ttl: self.ttl,
                ..in_v2.with_references(Arc::clone(&self.references))
            }))
        })
    }

    /// Makes a resource from a message under the message's own name, with its references. The message is validated by
    /// the rules of the API ([`codec::check`]).
    ///
    /// # Errors
    /// The rules that the message breaks.
    ///
    /// ```
    /// use envoy_types::pb::envoy::config::cluster::v3::Cluster;
    /// use oxds_core::snapshot::Resource;
    ///
    /// let blue = Resource::of(&Cluster { name: "blue".into(), ..Cluster::default() })?;
    /// assert_eq!(&**blue.name(), "blue");
    /// # Ok::<_, oxds_types::codec::InvalidMessage>(())
    /// ```
    pub fn of<M: Message + Name>(message: &M) -> Result<Self, InvalidMessage> {
        codec::check(message, None).map(Self::from)
    }

    /// Makes a resource from a message under the given name, for messages without a name (`LbEndpoint`).
    ///
    /// # Errors
    /// The rules that the message breaks.
    pub fn named<M: Message + Name>(name: &str, message: &M) -> Result<Self, InvalidMessage> {
        codec::check(message, Some(name)).map(Self::from)
    }

    /// Makes a resource from a message that is not in Envoy's API. Nothing is validated.
    ///
    /// Replicas agree on its version (S-29) if they encode equal messages to equal bytes, so its maps must be
    /// `BTreeMap`s.
    ///
    /// ```
    /// use oxds_core::snapshot::Resource;
    ///
    /// #[derive(Clone, PartialEq, prost::Message)]
    /// struct Quota {
    ///     #[prost(uint64, tag = "1")]
    ///     per_second: u64,
    /// }
    ///
    /// impl prost::Name for Quota {
    ///     const NAME: &'static str = "Quota";
    ///     const PACKAGE: &'static str = "acme.mesh.v1";
    /// }
    ///
    /// let gold = Resource::own("gold", &Quota { per_second: 100 });
    /// assert_eq!(gold.resource_type().message(), "acme.mesh.v1.Quota");
    /// ```
    #[must_use]
    pub fn own<M: Message + Name>(name: impl Into<Arc<str>>, message: &M) -> Self {
        Self::new(ResourceType::of::<M>(), name, &message.encode_to_vec())
    }

    /// Sets the resources that this one refers to, for the order in which changes are sent (S-51, S-52).
    #[must_use]
    pub fn with_references(mut self, references: impl Into<Arc<[Reference]>>) -> Self {
        self.references = references.into();
        self
    }

    /// Sets the TTL: how long a client may keep the resource without an update or a heartbeat (S-49).
    #[must_use]
    pub fn with_ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// Sets the document that the resource comes from. It does not belong to the content: resources that differ only in
    /// it are equal.
    #[must_use]
    pub fn with_origin(mut self, origin: ResourceOrigin) -> Self {
        self.origin = Some(origin);
        self
    }

    /// Returns the type.
    #[must_use]
    pub fn resource_type(&self) -> &ResourceType {
        &self.resource_type
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Returns type and name.
    pub(crate) fn key(&self) -> ResourceKey {
        (self.resource_type.clone(), Arc::clone(&self.name))
    }

    /// Returns the version: a hash of the content.
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }

    /// Returns the TTL.
    #[must_use]
    pub fn ttl(&self) -> Option<Duration> {
        self.ttl
    }

    /// Returns the document that the resource comes from, if its store knows it.
    #[must_use]
    pub fn origin(&self) -> Option<&ResourceOrigin> {
        self.origin.as_ref()
    }

    /// Returns the resources that this one refers to.
    #[must_use]
    pub fn references(&self) -> &[Reference] {
        &self.references
    }

    /// Returns whether it refers to this resource.
    #[must_use]
    pub fn refers_to(&self, resource_type: &ResourceType, name: &str) -> bool {
        self.references
            .iter()
            .any(|needed| needed.resource_type == *resource_type && *needed.name == *name)
    }

    /// Returns the content: the encoded message, as it was given.
    #[must_use]
    pub fn value(&self) -> Bytes {
        self.delta.slice(self.value_at..)
    }

    /// Returns one element of a response's `resources`, with its field key. It is shared, not copied, unless it has a
    /// TTL and the client supports TTLs (S-49).
    pub(crate) fn element(&self, form: Form) -> Bytes {
        let Some(ttl) = self.ttl.filter(|_| form.ttl) else {
            return self.without_ttl(form.protocol);
        };
        let mut fields = self.without_ttl(Protocol::Delta);
        fields.advance(key_len(RESOURCES));
        // `encode` wrote this length, so it can be read.
        let len = decode_varint(&mut fields).unwrap_or_default();
        debug_assert_eq!(len, fields.len() as u64);
        ttl::element(form, &fields, ttl)
    }

    fn without_ttl(&self, protocol: Protocol) -> Bytes {
        match protocol {
            Protocol::Delta => self.delta.clone(),
            Protocol::Sotw => self.delta.slice(self.sotw_at..),
        }
    }
}

impl From<LoadedResource> for Resource {
    fn from(loaded: LoadedResource) -> Self {
        let resource = Self::new(loaded.resource_type, loaded.name, &loaded.any.value);
        Self {
            ttl: loaded.ttl,
            ..resource.with_references(loaded.references)
        }
    }
}

/// Equality as clients see it. Versions are hashes of the content, so the bytes need no comparison.
impl PartialEq for Resource {
    fn eq(&self, other: &Self) -> bool {
        (self.version, self.ttl) == (other.version, other.ttl)
            && self.resource_type == other.resource_type
            && self.name == other.name
    }
}

impl Eq for Resource {}

impl fmt::Debug for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Resource({} {}@{})",
            self.resource_type, self.name, self.version
        )
    }
}

/// Returns whether clients find resources of a type by their aliases. Envoy's VHDS accepts a virtual host as an answer
/// only if the name that it requested is among the aliases.
pub(crate) fn has_aliases(resource_type: &ResourceType) -> bool {
    *resource_type == ResourceType::VIRTUAL_HOST
}

/// Adds aliases to an element of a delta response.
pub(crate) fn with_aliases(mut element: Bytes, aliases: &[Arc<str>]) -> Bytes {
    if aliases.is_empty() {
        return element;
    }
    element.advance(key_len(RESOURCES));
    // Elements are written with their length, so it can be read.
    let len = decode_varint(&mut element).unwrap_or_default();
    debug_assert_eq!(len, element.len() as u64);
    let more = aliases
        .iter()
        .map(|alias| field_len(RESOURCE_ALIASES, alias.len()));
    let len = element.len() + more.sum::<usize>();
    let mut out = BytesMut::with_capacity(field_len(RESOURCES, len));
    put_header(&mut out, RESOURCES, len);
    out.extend_from_slice(&element);
    for alias in aliases {
        put_field(&mut out, RESOURCE_ALIASES, alias.as_bytes());
    }
    out.freeze()
}

/// Encodes the element which reports that no resource exists for an alias: a `Resource` without a body.
pub(crate) fn nothing_by_alias(name: &str) -> Bytes {
    let len = field_len(RESOURCE_NAME, name.len()) + field_len(RESOURCE_ALIASES, name.len());
    let mut out = BytesMut::with_capacity(field_len(RESOURCES, len));
    put_header(&mut out, RESOURCES, len);
    put_field(&mut out, RESOURCE_NAME, name.as_bytes());
    put_field(&mut out, RESOURCE_ALIASES, name.as_bytes());
    out.freeze()
}

fn encode(
    type_url: &str,
    name: &str,
    alias: Option<&str>,
    version: Version,
    value: &[u8],
) -> Bytes {
    let any_len = any_len(type_url, value);
    let resource_len = field_len(RESOURCE_VERSION, version.as_str().len())
        + field_len(RESOURCE_NAME, name.len())
        + alias.map_or(0, |alias| field_len(RESOURCE_ALIASES, alias.len()))
        + field_len(RESOURCE_BODY, any_len);
    let mut out = BytesMut::with_capacity(field_len(RESOURCES, resource_len));
    put_header(&mut out, RESOURCES, resource_len);
    put_field(&mut out, RESOURCE_VERSION, version.as_str().as_bytes());
    put_field(&mut out, RESOURCE_NAME, name.as_bytes());
    if let Some(alias) = alias {
        put_field(&mut out, RESOURCE_ALIASES, alias.as_bytes());
    }
    put_header(&mut out, RESOURCE_BODY, any_len);
    put_field(&mut out, ANY_TYPE_URL, type_url.as_bytes());
    // The value is written even if it is empty, where proto3 would omit it, so that its position is known.
    put_field(&mut out, ANY_VALUE, value);
    out.freeze()
}

fn any_len(type_url: &str, value: &[u8]) -> usize {
    field_len(ANY_TYPE_URL, type_url.len()) + field_len(ANY_VALUE, value.len())
}

fn message_of(type_url: &str) -> &str {
    type_url.rsplit('/').next().unwrap_or_default()
}
