//! Scope and limits of a session.

use std::collections::BTreeSet;
use std::time::Duration;

use oxds_types::ResourceType;

/// Resource types that a stream carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// ADS stream: all types, in dependency order.
    Aggregated,
    /// Stream of a service for one type. A request without a type URL means this type; another type URL is an error.
    Single(ResourceType),
    /// A client that polls one type, over SotW: each response has all resources that it asks for, in one piece,
    /// and absence means removal, whatever the type. A poll may be answered by another server than the last one.
    Polled(ResourceType),
}

impl Scope {
    /// Returns the only type; `None` for ADS.
    #[must_use]
    pub fn single(&self) -> Option<&ResourceType> {
        match self {
            Self::Aggregated => None,
            Self::Single(resource_type) | Self::Polled(resource_type) => Some(resource_type),
        }
    }
}

/// Reaction to a request for a type that the server does not know (S-59).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum UnknownTypes {
    /// Answer with no resources, so that the client does not wait, and report an event.
    #[default]
    AnswerEmpty,
    /// End the stream with a status (`UNIMPLEMENTED`).
    EndStream,
}

/// Limits and hold times of a session. All sessions of a server share one as `Arc<Config>`.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Config {
    /// Longest time for which make-before-break holds a change back (S-53). The default is Envoy's
    /// `initial_fetch_timeout`, 15 s: a client that has not reacted by then does not wait any more either.
    pub hold: Duration,
    /// Longest time between the ACK of a new cluster and the subscription to its assignment; after it, routes to the
    /// cluster are sent anyway. Clients send both at once; one that never subscribes is delayed by this much.
    pub follow_up: Duration,
    /// Limit on names that a client may subscribe to per type (S-60, S-77). The default is ten times the largest
    /// reported fleet.
    pub max_names: usize,
    /// Limit on the bytes of one name or type URL. More than a host name needs, as `xdstp://` names carry context
    /// parameters.
    pub max_name_len: usize,
    /// Limit on types that a client may subscribe to on one stream. The default is three times the number in the API.
    pub max_types: usize,
    /// Limit on NACKed resources of one type that are kept by name, each with about 100 bytes. Of more, only that the
    /// client has not accepted them. The default is above what one delta response carries.
    pub max_nacked: usize,
    /// Whether resources of which a NACK names none are sent again in parts, to find the invalid ones.
    pub isolate: bool,
    /// `control_plane.identifier` of every response, which names the replica (S-65).
    pub identifier: Option<String>,
    /// Reaction to a type that is neither in the API nor in `own_types`.
    pub unknown_types: UnknownTypes,
    /// Types outside the API that the server knows, even without resources of them (S-61).
    pub own_types: BTreeSet<ResourceType>,
}

impl Config {
    /// Returns whether the server knows a type.
    #[must_use]
    pub fn knows(&self, resource_type: &ResourceType) -> bool {
        resource_type.short_name().is_some() || self.own_types.contains(resource_type)
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            hold: Duration::from_secs(15),
            follow_up: Duration::from_millis(250),
            max_names: 200_000,
            max_name_len: 4096,
            max_types: 32,
            max_nacked: 16_384,
            isolate: true,
            identifier: None,
            unknown_types: UnknownTypes::default(),
            own_types: BTreeSet::new(),
        }
    }
}
