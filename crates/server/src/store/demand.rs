//! The demand signal: which resources clients ask for, for stores that fetch resources on demand.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use oxds_types::ResourceType;

use crate::cache::Cache;

/// A handle to what clients ask for at present: the union of the subscriptions of all open streams.
///
/// A store receives it by [`Store::watch_demand`](super::Store::watch_demand). A request that polls (`Fetch` or REST)
/// is part of it only while it waits for a change.
#[derive(Debug)]
pub struct Demand(Cache);

/// The subscriptions of all clients to one resource type.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TypeDemand {
    /// Whether a client subscribes to all resources of the type (a wildcard).
    pub wildcard: bool,
    /// The names that clients subscribe to, whether or not they exist.
    pub names: BTreeSet<Arc<str>>,
}

impl Demand {
    pub(crate) fn new(cache: Cache) -> Self {
        Self(cache)
    }

    /// Returns what clients ask for now, by resource type. Types that no client asks for are absent.
    ///
    /// The cost follows the number of names that clients subscribe to. Call it once after each
    /// [`changed`](Self::changed), not for each resource.
    #[must_use]
    pub fn by_type(&self) -> BTreeMap<ResourceType, TypeDemand> {
        let mut wanted: BTreeMap<ResourceType, TypeDemand> = BTreeMap::new();
        for view in self.0.views() {
            view.subscriptions(|resource_type, wildcard, names| {
                let mut names = names.cloned().peekable();
                // A type that is only observed is not wanted.
                if wildcard || names.peek().is_some() {
                    let of_type = wanted.entry(resource_type.clone()).or_default();
                    of_type.wildcard |= wildcard;
                    of_type.names.extend(names);
                }
            });
        }
        wanted
    }

    /// Waits until a subscription was added or removed since the last call returned. The first call returns at once if
    /// there was any since the server started.
    ///
    /// Many subscriptions that change in a short time may cause one return. Cancel-safe.
    pub async fn changed(&mut self) {
        self.0.subscriptions_changed().await;
    }
}
