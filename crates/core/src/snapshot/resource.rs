//! A resource, encoded once for every response that will ever carry it.

use std::{
    borrow::Cow,
    fmt,
    sync::{Arc, OnceLock},
    time::Duration,
};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use oxds_types::codec::{self, InvalidMessage, LoadedResource};
use oxds_types::name::canonical;
use oxds_types::version_map::{NotRepresentable, to_v2};
use oxds_types::{ApiVersion, Reference, ResourceType, Version};
use prost::encoding::{
    WireType, decode_varint, encode_key, encode_varint, encoded_len_varint, key_len,
};
use prost::{Message, Name};

use super::{Form, Protocol, ttl};

// Field numbers of `discovery.proto`. `resources` is field 2 of both responses, and the body is field 2 of
// `Resource`: so the element of a SotW response is, byte for byte, the tail of the element of a delta response.
pub(super) const RESOURCES: u32 = 2;
pub(super) const RESOURCE_VERSION: u32 = 1;
const RESOURCE_BODY: u32 = 2;
pub(super) const RESOURCE_NAME: u32 = 3;
const RESOURCE_ALIASES: u32 = 4;
pub(super) const ANY_TYPE_URL: u32 = 1;
pub(super) const ANY_VALUE: u32 = 2;

/// Type and name of a resource: unique within one snapshot.
pub type ResourceKey = (ResourceType, Arc<str>);

/// One immutable resource: kind, name, content and the version that is a hash of the content.
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
    // Not in `delta`: only clients that understand it are told.
    ttl: Option<Duration>,
    references: Arc<[Reference]>,
    /// The same for clients of v2, or why they cannot have it. Made when the first of them asks.
    in_v2: OnceLock<Result<Arc<Resource>, Obstacles>>,
    delta: Bytes,
    /// Where the SotW element begins in `delta`.
    sotw_at: usize,
    /// Where the content begins in `delta`.
    value_at: usize,
}

impl Resource {
    /// A resource whose content is this encoded message of its kind. Its name is kept as [`canonical`] spells it.
    ///
    /// Replicas that are given equal bytes agree on the version (S-29): give canonical ones.
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

    fn encoded(
        resource_type: ResourceType,
        api: ApiVersion,
        name: Arc<str>,
        version: Version,
        value: &[u8],
    ) -> Self {
        // What has a v2 form at all, but is no resource of v2, is never asked for in v2.
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
            in_v2: OnceLock::new(),
            delta,
            sotw_at,
            value_at,
        }
    }

    /// The same resource, of the same version, as clients of v2 are given it (S-62): once made, it is shared by all
    /// snapshots that it is in. An error: it says what v2 cannot (S-63).
    pub fn in_v2(&self) -> &Result<Arc<Self>, Obstacles> {
        self.in_v2.get_or_init(|| {
            let value = to_v2(self.resource_type.message(), &self.value())?;
            let (resource_type, name) = self.key();
            let old = Self::encoded(resource_type, ApiVersion::V2, name, self.version, &value);
            Ok(Arc::new(Self {
                ttl: self.ttl,
                ..old.with_references(Arc::clone(&self.references))
            }))
        })
    }

    /// The resource that is this message, under the name that it gives itself; with its references, and checked by the
    /// API's own rules ([`codec::check`]).
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

    /// The same under another name, for messages that have none (`LbEndpoint`).
    pub fn named<M: Message + Name>(name: &str, message: &M) -> Result<Self, InvalidMessage> {
        codec::check(message, Some(name)).map(Self::from)
    }

    /// The resource of this name that is a message of one's own, which the API does not have: nothing is checked.
    ///
    /// Replicas agree on its version (S-29) if they encode equal messages alike: let its maps be `BTreeMap`s.
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

    /// What this resource needs, for the order in which changes are sent (S-51, S-52).
    #[must_use]
    pub fn with_references(mut self, references: impl Into<Arc<[Reference]>>) -> Self {
        self.references = references.into();
        self
    }

    /// How long a client may keep the resource without hearing of it (S-49).
    #[must_use]
    pub fn with_ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// Its kind.
    #[must_use]
    pub fn resource_type(&self) -> &ResourceType {
        &self.resource_type
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// What it is told apart from others by.
    pub(crate) fn key(&self) -> ResourceKey {
        (self.resource_type.clone(), Arc::clone(&self.name))
    }

    /// The hash of its content.
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }

    /// How long a client may keep it without hearing of it.
    #[must_use]
    pub fn ttl(&self) -> Option<Duration> {
        self.ttl
    }

    /// What it needs.
    #[must_use]
    pub fn references(&self) -> &[Reference] {
        &self.references
    }

    /// Whether it needs this one.
    #[must_use]
    pub fn refers_to(&self, resource_type: &ResourceType, name: &str) -> bool {
        self.references
            .iter()
            .any(|needed| needed.resource_type == *resource_type && *needed.name == *name)
    }

    /// The content: the encoded message, as it was given.
    #[must_use]
    pub fn value(&self) -> Bytes {
        self.delta.slice(self.value_at..)
    }

    /// One element of a response's `resources`, with its field key. Shared, not copied, unless it has a TTL that the
    /// client is told (S-49).
    pub(crate) fn element(&self, form: Form) -> Bytes {
        let Some(ttl) = self.ttl.filter(|_| form.ttl) else {
            return self.without_ttl(form.protocol);
        };
        let mut fields = self.without_ttl(Protocol::Delta);
        fields.advance(key_len(RESOURCES));
        // What was written here is a length that can be read.
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

/// What v2 cannot say of a resource: at least one thing.
pub type Obstacles = Arc<[NotRepresentable]>;

/// Equal to a client: versions are content hashes, so the bytes need not be looked at.
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

/// Whether clients find resources of a kind by their aliases: Envoy, waiting for a virtual host, takes an answer for
/// one only if the name it asked for is among its aliases.
pub(crate) fn has_aliases(resource_type: &ResourceType) -> bool {
    *resource_type == ResourceType::VIRTUAL_HOST
}

/// What tells a client that waits for aliases that there is no such resource: it has no body.
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
    // The value is the last field even when it is empty, where proto3 would leave it out: its place is known then.
    put_field(&mut out, ANY_VALUE, value);
    out.freeze()
}

fn any_len(type_url: &str, value: &[u8]) -> usize {
    field_len(ANY_TYPE_URL, type_url.len()) + field_len(ANY_VALUE, value.len())
}

/// Length of a length-delimited field of `len` bytes, key and length included.
pub(crate) fn field_len(field: u32, len: usize) -> usize {
    key_len(field) + encoded_len_varint(len as u64) + len
}

pub(crate) fn put_field(out: &mut BytesMut, field: u32, bytes: &[u8]) {
    put_header(out, field, bytes.len());
    out.put_slice(bytes);
}

pub(super) fn put_header(out: &mut BytesMut, field: u32, len: usize) {
    encode_key(field, WireType::LengthDelimited, out);
    encode_varint(len as u64, out);
}
