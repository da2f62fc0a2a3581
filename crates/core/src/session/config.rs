//! What a session may be told about its server.

use std::collections::BTreeSet;
use std::time::Duration;

use oxds_types::ResourceType;

/// Which kinds a stream carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// An ADS stream: any kind, ordered among each other.
    Aggregated,
    /// A stream of a service for one kind. A request without a type URL means this kind; any other is an error.
    Single(ResourceType),
}

/// What to do with a request for a kind that the server does not know (S-59).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UnknownTypes {
    /// Answer with no resources, so that the client does not wait, and say so in an event.
    #[default]
    AnswerEmpty,
    /// End the stream with a status.
    EndStream,
}

/// The limits and the patience of a session. One for all sessions of a server: share it as `Arc<Config>`.
#[derive(Debug, Clone)]
pub struct Config {
    /// How long a change may be held back so that nothing breaks before it is replaced (S-53). Envoy's default
    /// timeout for a first fetch is 15 s: a client that did not react by then does not wait any more either.
    pub hold: Duration,
    /// How long the subscription to a new cluster's assignment may follow the cluster's acknowledgement before routes
    /// to the cluster are sent anyway. Clients send both at once; a client that never subscribes loses this much.
    pub follow_up: Duration,
    /// RequestedNames that a client may subscribe to per kind (S-60, S-77). Ten times the largest fleet that was reported.
    pub max_names: usize,
    /// Bytes of one name, or of a type URL. `xdstp://` names carry context parameters, hence more than a host name needs.
    pub max_name_len: usize,
    /// Kinds that a client may ask for on one stream: three times as many as the API has.
    pub max_types: usize,
    /// Resources of one kind whose rejection is remembered by name. What was rejected beyond it is counted only.
    pub max_nacked: usize,
    /// `control_plane.identifier` of every response: names the replica (S-65).
    pub identifier: Option<String>,
    /// What to do with a kind that is neither of the API nor one of one's own.
    pub unknown_types: UnknownTypes,
    /// Kinds of one's own that the server knows, be there a resource of them or not (S-61).
    pub own_types: BTreeSet<ResourceType>,
}

impl Config {
    /// Whether the server knows a kind at all.
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
            max_nacked: 1024,
            identifier: None,
            unknown_types: UnknownTypes::default(),
            own_types: BTreeSet::new(),
        }
    }
}
