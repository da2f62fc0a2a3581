//! Configuration of a client: its servers, its authorities, and its behaviour towards them.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use oxds_types::ApiVersion;
use oxds_types::discovery::{Node, VersionedTypeUrl};
use oxds_types::name::canonical;

use super::authority_id::AuthorityId;
use crate::protocol::Protocol;
use crate::resource::{ResourceCheck, ResourceParsers};
use crate::server_id::ServerId;

/// Configuration of a [`Client`](super::Client). Names without an authority belong to the first authority.
#[derive(Debug, Clone)]
pub struct ClientConfig {
    /// Node that identifies the client in its requests.
    pub node: Node,
    /// Time after a request without an answer for a resource, after which the resource counts as missing: 15 s
    /// (gRFC A27). Twice that for a server with [`resource_timer_is_transient`](Server::resource_timer_is_transient)
    /// (gRFC A88).
    pub resource_timeout: Duration,
    /// Handling of a response that has a name twice: accepted by default, as gRPC does not check it (C-82).
    pub duplicates: Duplicates,
    /// Syntax of resource names: federated by default (gRFC A47).
    pub name_syntax: NameSyntax,
    /// Types as which resources are parsed: the views of a gRPC channel by default.
    pub parsers: ResourceParsers,
    /// Check of every received resource, before it is parsed: none by default.
    pub check: Option<ResourceCheck>,
    /// Whether resources expire when their TTL ends.
    ///
    /// gRPC clients ignore TTLs (C-83). A server sends TTLs only to nodes with the client feature
    /// `xds.config.supports-resource-ttl`; the creator of the node adds it.
    pub resource_ttl: bool,
    /// Majors of resources that the client accepts, with their newest versions: the first request of a type has those
    /// of its resource. The creator of the node adds the client feature (V-50).
    pub versioned_type_urls: Arc<[VersionedTypeUrl]>,
    pub(super) servers: Vec<Server>,
    pub(super) authorities: Vec<Vec<ServerId>>,
    /// Authorities that fall back on reachability alone.
    pub(super) reachability_only: BTreeSet<AuthorityId>,
}

/// One server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// Address of the server, for error texts.
    pub uri: Arc<str>,
    /// Protocol variant of its streams: SotW by default, as in gRPC, which has no delta (gRFC A27).
    pub protocol: Protocol,
    /// Transport API version of requests: v3 by default (gRFC A30). The server may answer in either version.
    pub version: ApiVersion,
    /// Whether resources stay in use after the server deletes them (gRFC A53), where [`DataErrors::DropDeleted`] would
    /// drop them.
    pub ignore_resource_deletion: bool,
    /// Handling of a cached resource when the server sends a data error for it.
    pub data_errors: DataErrors,
    /// Whether a missing answer means that the server is slow, not that the resource does not exist. The resource
    /// timeout is doubled then (gRFC A88).
    pub resource_timer_is_transient: bool,
    /// Whether its routes may rewrite the authority of RPCs: the server feature `trusted_xds_server` (gRFC A81).
    pub is_trusted: bool,
}

/// Handling of a cached resource after a data error: its server deletes it, sends an invalid one, or reports that it
/// does not exist or is denied (gRFC A88).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum DataErrors {
    /// Drop deleted resources and keep all others: the behaviour before gRFC A88.
    #[default]
    DropDeleted,
    /// Keep the cached resource after every data error.
    Keep,
    /// Drop the cached resource after every data error: the server feature `fail_on_data_errors`.
    Drop,
}

/// Handling of a response that has a name twice. The protocol forbids it; gRPC does not check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Duplicates {
    /// Do not check for duplicates.
    #[default]
    Accept,
    /// Reject the response; the first resource with the name is applied.
    Reject,
}

/// Syntax of resource names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NameSyntax {
    /// `xdstp:` names have parts, and are cached and sent in one form: see [`canonical`].
    #[default]
    Federated,
    /// Every name is used as it is spelled (C-48).
    Opaque,
}

impl NameSyntax {
    /// Returns the form in which a name is cached and sent.
    pub(super) fn spelling(self, name: &str) -> Cow<'_, str> {
        match self {
            Self::Federated => canonical(name),
            Self::Opaque => Cow::Borrowed(name),
        }
    }
}

/// Effect of one error on a cached resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ErrorEffect {
    /// The cached resource stays in use: the error is ambient.
    Keep,
    /// The cached resource is dropped: the error takes its place.
    Drop,
}

impl Server {
    /// Returns a server without server features.
    #[must_use]
    pub fn new(uri: impl Into<Arc<str>>) -> Self {
        Self {
            uri: uri.into(),
            protocol: Protocol::Sotw,
            version: ApiVersion::V3,
            ignore_resource_deletion: false,
            data_errors: DataErrors::default(),
            resource_timer_is_transient: false,
            is_trusted: false,
        }
    }

    pub(super) fn effect_of_deletion(&self) -> ErrorEffect {
        match self.data_errors {
            DataErrors::DropDeleted | DataErrors::Drop => ErrorEffect::Drop,
            DataErrors::Keep => ErrorEffect::Keep,
        }
    }

    /// Returns the effect of an error other than a deletion. A transient error says nothing about the resource itself.
    pub(super) fn effect_of_error(&self, is_transient: bool) -> ErrorEffect {
        match self.data_errors {
            DataErrors::Drop if !is_transient => ErrorEffect::Drop,
            _ => ErrorEffect::Keep,
        }
    }

    /// Returns whether deletions are ignored, and must be logged as such (gRFC A53).
    pub(super) fn ignores_deletions(&self) -> bool {
        self.ignore_resource_deletion && self.data_errors == DataErrors::DropDeleted
    }
}

impl ClientConfig {
    /// Returns gRPC's defaults, without servers.
    #[must_use]
    pub fn new(node: Node) -> Self {
        Self {
            node,
            resource_timeout: Duration::from_secs(15),
            duplicates: Duplicates::default(),
            name_syntax: NameSyntax::default(),
            parsers: ResourceParsers::grpc(),
            check: None,
            resource_ttl: false,
            versioned_type_urls: Arc::default(),
            servers: Vec::new(),
            authorities: Vec::new(),
            reachability_only: BTreeSet::new(),
        }
    }

    /// Returns gRPC's defaults, with one server for every name.
    #[must_use]
    pub fn with_server(server: Server, node: Node) -> Self {
        let mut config = Self::new(node);
        let server = config.add_server(server);
        config.add_authority(vec![server]);
        config
    }

    /// Returns the resource timeout of this server.
    pub(super) fn timeout_of(&self, server: &Server) -> Duration {
        if server.resource_timer_is_transient {
            // gRFC A88: 30 s in place of 15 s.
            self.resource_timeout.saturating_mul(2)
        } else {
            self.resource_timeout
        }
    }

    /// Adds a server. Authorities that list the same server share its stream.
    pub fn add_server(&mut self, server: Server) -> ServerId {
        self.servers.push(server);
        ServerId::at(self.servers.len() - 1)
    }

    /// Adds an authority with servers of this configuration, in order of priority (gRFC A71).
    pub fn add_authority(&mut self, servers: Vec<ServerId>) -> AuthorityId {
        self.authorities.push(servers);
        AuthorityId::at(self.authorities.len() - 1)
    }

    /// Makes an authority fall back as soon as its server is unreachable, even if every name is cached.
    ///
    /// This is for resources that change so often that cached ones soon are useless, such as endpoints (gRFC A95).
    pub fn fall_back_on_reachability_only(&mut self, authority: AuthorityId) {
        self.reachability_only.insert(authority);
    }
}
