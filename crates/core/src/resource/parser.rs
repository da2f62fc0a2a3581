//! Parsers: the Rust types as which the resources of a type are read.
//!
//! ```text
//!   bytes ──► ResourceParsers ──► every parser of the resource type ──► ParsedResource ──► get::<T>()
//!                                 one rejects them: invalid for all      one Arc<T> for all watchers
//! ```

use std::any::{Any, TypeId, type_name};
use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use oxds_types::ResourceType;
use prost::{Message, Name};
use smallvec::SmallVec;

use super::cluster::Cluster;
use super::invalid::Invalid;
use super::listener::Listener;
use super::route::RouteConfig;
use crate::server_id::ServerId;

/// A Rust type as which resources can be watched: a view, or any generated message with a type URL.
pub trait Typed: Send + Sync + Sized + 'static {
    /// Returns the resource type.
    fn resource_type() -> ResourceType;

    /// Parses and validates the encoded message.
    ///
    /// # Errors
    /// The rule that it breaks, for the NACK.
    fn parse(value: &[u8]) -> Result<Self, Invalid>;
}

/// A generated message is only decoded, not validated: see [`ResourceParser::checked`].
impl<M: Message + Name + Default + 'static> Typed for M {
    fn resource_type() -> ResourceType {
        ResourceType::from_message(&M::full_name()).0
    }

    fn parse(value: &[u8]) -> Result<Self, Invalid> {
        Ok(M::decode(value)?)
    }
}

type ParsedValue = Arc<dyn Any + Send + Sync>;
type ParseFn = dyn Fn(&[u8]) -> Result<ParsedValue, Invalid> + Send + Sync;

/// Parser for one [`Typed`], with additional rules.
#[derive(Clone)]
pub struct ResourceParser {
    resource_type: ResourceType,
    id: TypeId,
    name: &'static str,
    parse: Arc<ParseFn>,
}

impl ResourceParser {
    /// Returns the parser of a type, without additional rules.
    #[must_use]
    pub fn of<T: Typed>() -> Self {
        Self::checked::<T>(|_| Ok(()))
    }

    /// Returns the parser of a type with additional rules. A resource that breaks them is NACKed, like one that cannot
    /// be decoded.
    #[must_use]
    pub fn checked<T: Typed>(
        check: impl Fn(&T) -> Result<(), Invalid> + Send + Sync + 'static,
    ) -> Self {
        let parse = move |value: &[u8]| {
            let parsed = T::parse(value)?;
            check(&parsed)?;
            Ok(Arc::new(parsed) as ParsedValue)
        };
        Self {
            resource_type: T::resource_type(),
            id: TypeId::of::<T>(),
            name: type_name::<T>(),
            parse: Arc::new(parse),
        }
    }

    /// Returns the parser of a type whose rules depend on more than the message.
    pub(super) fn with<T: Typed>(
        parse: impl Fn(&[u8]) -> Result<T, Invalid> + Send + Sync + 'static,
    ) -> Self {
        Self {
            resource_type: T::resource_type(),
            id: TypeId::of::<T>(),
            name: type_name::<T>(),
            parse: Arc::new(move |value| Ok(Arc::new(parse(value)?) as ParsedValue)),
        }
    }

    /// Returns the resource type.
    #[must_use]
    pub fn resource_type(&self) -> &ResourceType {
        &self.resource_type
    }

    /// Parses a message. A resource that makes the parser panic is invalid; other resources are not affected (C-120).
    fn parse(&self, value: &[u8]) -> Result<ParsedValue, Invalid> {
        let parsed = catch_unwind(AssertUnwindSafe(|| (self.parse)(value)));
        parsed.unwrap_or_else(|_| Err(Invalid::new(format!("makes {} panic", self.name))))
    }
}

impl fmt::Debug for ResourceParser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// Parsers by resource type.
///
/// A resource is valid if every parser of its type accepts it. Without a parser, every resource of a type is valid.
#[derive(Debug, Clone, Default)]
pub struct ResourceParsers {
    resource_types: BTreeMap<ResourceType, SmallVec<[ResourceParser; 1]>>,
}

impl ResourceParsers {
    /// Adds a parser. Returns `false` if its Rust type is registered already: then the first parser stays, with its
    /// rules.
    pub fn register(&mut self, added: ResourceParser) -> bool {
        let parsers = self
            .resource_types
            .entry(added.resource_type.clone())
            .or_default();
        let is_new = parsers.iter().all(|known| known.id != added.id);
        if is_new {
            parsers.push(added);
        }
        is_new
    }

    /// Returns the number of parsers of a resource type.
    #[must_use]
    pub fn len(&self, resource_type: &ResourceType) -> usize {
        self.resource_types
            .get(resource_type)
            .map_or(0, SmallVec::len)
    }

    /// Parses a resource with every parser of its type.
    ///
    /// The bytes are copied, so that one resource does not keep a whole response in memory.
    ///
    /// # Errors
    /// The first rule that the resource breaks.
    pub fn parse(
        &self,
        resource_type: &ResourceType,
        value: &[u8],
    ) -> Result<ParsedResource, Invalid> {
        let parsed = self.parse_all(resource_type, value)?;
        let value = value.into();
        Ok(ParsedResource { value, parsed })
    }

    fn parse_all(
        &self,
        resource_type: &ResourceType,
        value: &[u8],
    ) -> Result<SmallVec<[ParsedValue; 1]>, Invalid> {
        let parsers = self.resource_types.get(resource_type).into_iter().flatten();
        parsers.map(|parser| parser.parse(value)).collect()
    }
}

impl IntoIterator for ResourceParsers {
    type Item = ResourceParser;
    type IntoIter = std::iter::Flatten<
        std::collections::btree_map::IntoValues<ResourceType, SmallVec<[ResourceParser; 1]>>,
    >;

    fn into_iter(self) -> Self::IntoIter {
        self.resource_types.into_values().flatten()
    }
}

/// An accepted resource: its bytes as they came, and the result of each parser. Cheap to clone.
#[derive(Clone, Default)]
pub struct ParsedResource {
    // `Bytes` would take twice the space here, and one more allocation.
    value: Arc<[u8]>,
    parsed: SmallVec<[ParsedValue; 1]>,
}

impl ParsedResource {
    /// Makes a resource from a parsed value. It has no bytes.
    #[must_use]
    pub fn of<T: Typed>(parsed: Arc<T>) -> Self {
        Self {
            value: Arc::default(),
            parsed: SmallVec::from_buf([parsed as ParsedValue]),
        }
    }

    /// Returns the encoded message, as it came.
    #[must_use]
    pub fn value(&self) -> &[u8] {
        &self.value
    }

    /// Parses the bytes again. The old result stays if a parser rejects them.
    pub(crate) fn reparse(&mut self, resource_type: &ResourceType, parsers: &ResourceParsers) {
        if let Ok(parsed) = parsers.parse_all(resource_type, &self.value) {
            self.parsed = parsed;
        }
    }

    /// Returns the resource as sent by `server`, which is a `trusted_xds_server` or not, if its parsed value depends on
    /// the server and differs before.
    pub(crate) fn moved_to(&self, server: ServerId, is_trusted: bool) -> Option<Self> {
        let moved = |parsed: &ParsedValue| -> Option<ParsedValue> {
            if let Some(cluster) = parsed.downcast_ref::<Cluster>() {
                return Some(Arc::new(cluster.moved_to(server)?));
            }
            if let Some(routes) = parsed.downcast_ref::<RouteConfig>() {
                return Some(Arc::new(routes.moved_to(is_trusted)?));
            }
            let listener = parsed.downcast_ref::<Listener>()?;
            Some(Arc::new(listener.moved_to(is_trusted)?))
        };
        let mut values = self.parsed.iter().enumerate();
        let (index, moved) = values.find_map(|(index, value)| Some((index, moved(value)?)))?;
        let mut resource = self.clone();
        resource.parsed[index] = moved;
        Some(resource)
    }

    /// Returns the value that the parser of `T` made, shared by all watchers; `None` without such a parser.
    #[must_use]
    pub fn get<T: Typed>(&self) -> Option<Arc<T>> {
        let mut parsed = self.parsed.iter();
        parsed.find_map(|parsed| Arc::clone(parsed).downcast().ok())
    }
}

impl fmt::Debug for ParsedResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (length, types) = (self.value.len(), self.parsed.len());
        write!(f, "ParsedResource({length} bytes, {types} types)")
    }
}
