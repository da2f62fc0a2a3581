//! ResourceParsers that resources are read as.
//!
//! ```text
//!   bytes ──► ResourceParsers ──► every type that this kind is watched as ──► ParsedResource ──► get::<T>()
//!                         one refuses them: invalid, for all           one Arc<T> for all watchers
//! ```

use std::any::{Any, TypeId, type_name};
use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use oxds_types::ResourceType;
use prost::{Message, Name};
use smallvec::SmallVec;

use crate::ads::ServerId;

use super::{Assignment, Cluster, Invalid, Listener, RouteConfig};

/// What a resource can be watched as: a view, or any generated message that has a type URL.
pub trait Typed: Send + Sync + Sized + 'static {
    /// The kind of the resources.
    fn resource_type() -> ResourceType;

    /// Reads and checks the encoded message.
    ///
    /// # Errors
    /// The rule that it breaks: it becomes the detail of a NACK.
    fn parse(value: &[u8]) -> Result<Self, Invalid>;
}

/// A message is checked no further than that it can be decoded: see [`ResourceParser::checked`].
impl<M: Message + Name + Default + 'static> Typed for M {
    fn resource_type() -> ResourceType {
        ResourceType::from_message(&M::full_name()).0
    }

    fn parse(value: &[u8]) -> Result<Self, Invalid> {
        Ok(M::decode(value)?)
    }
}

type Read = Arc<dyn Any + Send + Sync>;
type Reader = dyn Fn(&[u8]) -> Result<Read, Invalid> + Send + Sync;

/// A [`Typed`] as a value, with what else is required of it.
#[derive(Clone)]
pub struct ResourceParser {
    resource_type: ResourceType,
    id: TypeId,
    name: &'static str,
    reader: Arc<Reader>,
}

impl ResourceParser {
    /// The type as it is.
    #[must_use]
    pub fn of<T: Typed>() -> Self {
        Self::checked::<T>(|_| Ok(()))
    }

    /// The type with rules of one's own: what breaks them is rejected, as what cannot be decoded is.
    #[must_use]
    pub fn checked<T: Typed>(
        check: impl Fn(&T) -> Result<(), Invalid> + Send + Sync + 'static,
    ) -> Self {
        let reader = move |value: &[u8]| {
            let read = T::parse(value)?;
            check(&read)?;
            Ok(Arc::new(read) as Read)
        };
        Self {
            resource_type: T::resource_type(),
            id: TypeId::of::<T>(),
            name: type_name::<T>(),
            reader: Arc::new(reader),
        }
    }

    /// The kind that it reads.
    #[must_use]
    pub fn resource_type(&self) -> &ResourceType {
        &self.resource_type
    }

    /// A reader that panics has met what it was not made for: that resource is invalid, and life goes on (C-120).
    fn read(&self, value: &[u8]) -> Result<Read, Invalid> {
        let read = catch_unwind(AssertUnwindSafe(|| (self.reader)(value)));
        read.unwrap_or_else(|_| Err(Invalid::new(format!("makes {} panic", self.name))))
    }
}

impl fmt::Debug for ResourceParser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// The types that resources are read as, by kind. A kind may have several: a resource is valid if all of them take it.
/// Of a kind without any, everything is valid.
#[derive(Debug, Clone, Default)]
pub struct ResourceParsers {
    resource_types: BTreeMap<ResourceType, SmallVec<[ResourceParser; 1]>>,
}

impl ResourceParsers {
    /// What a gRPC channel reads: the views, with gRPC's rules.
    #[must_use]
    pub fn grpc() -> Self {
        let mut types = Self::default();
        types.register(ResourceParser::of::<Listener>());
        types.register(ResourceParser::of::<RouteConfig>());
        types.register(ResourceParser::of::<Cluster>());
        types.register(ResourceParser::of::<Assignment>());
        types
    }

    /// Adds a type. `false` if it is there already: the first one stands, with its rules.
    pub fn register(&mut self, added: ResourceParser) -> bool {
        let types = self
            .resource_types
            .entry(added.resource_type.clone())
            .or_default();
        let is_new = types.iter().all(|known| known.id != added.id);
        if is_new {
            types.push(added);
        }
        is_new
    }

    /// How many types read a kind.
    #[must_use]
    pub fn len(&self, resource_type: &ResourceType) -> usize {
        self.resource_types
            .get(resource_type)
            .map_or(0, SmallVec::len)
    }

    /// Reads a resource as every type of its kind. It gets bytes of its own: those of a whole response must not live on
    /// with one of its resources.
    ///
    /// # Errors
    /// The first rule that it breaks.
    pub fn read(
        &self,
        resource_type: &ResourceType,
        value: &[u8],
    ) -> Result<ParsedResource, Invalid> {
        let read = self.read_as_all(resource_type, value)?;
        let value = value.into();
        Ok(ParsedResource { value, read })
    }

    fn read_as_all(
        &self,
        resource_type: &ResourceType,
        value: &[u8],
    ) -> Result<SmallVec<[Read; 1]>, Invalid> {
        let types = self.resource_types.get(resource_type).into_iter().flatten();
        types.map(|of| of.read(value)).collect()
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

/// A resource that was accepted: its bytes, as they came, and what the types of its kind made of them. Cheap to clone.
#[derive(Clone, Default)]
pub struct ParsedResource {
    // `Bytes` would take twice the room here, and an allocation more.
    value: Arc<[u8]>,
    read: SmallVec<[Read; 1]>,
}

impl ParsedResource {
    /// What its maker has read already; it has no bytes.
    #[must_use]
    pub fn of<T: Typed>(read: Arc<T>) -> Self {
        Self {
            value: Arc::default(),
            read: SmallVec::from_buf([read as Read]),
        }
    }

    /// The encoded message, as it came.
    #[must_use]
    pub fn value(&self) -> &[u8] {
        &self.value
    }

    /// Reads its bytes again: as it is read by these, if they take it.
    pub(crate) fn reread(&mut self, resource_type: &ResourceType, types: &ResourceParsers) {
        if let Ok(read) = types.read_as_all(resource_type, &self.value) {
            self.read = read;
        }
    }

    /// The same resource, if what was read of it depends on which server sent it, and that is another one than before.
    pub(crate) fn moved_to(&self, server: ServerId) -> Option<Self> {
        let moved = |read: &Read| read.downcast_ref::<Cluster>()?.moved_to(server);
        let (index, moved) =
            (self.read.iter().enumerate()).find_map(|(index, read)| Some((index, moved(read)?)))?;
        let mut resource = self.clone();
        resource.read[index] = Arc::new(moved);
        Some(resource)
    }

    /// The same for all who watch it; `None` if its kind is not read as this type.
    #[must_use]
    pub fn get<T: Typed>(&self) -> Option<Arc<T>> {
        let mut read = self.read.iter();
        read.find_map(|read| Arc::clone(read).downcast().ok())
    }
}

impl fmt::Debug for ParsedResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (length, types) = (self.value.len(), self.read.len());
        write!(f, "Resource({length} bytes, {types} types)")
    }
}
