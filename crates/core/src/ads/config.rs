//! Which servers there are, in which order each authority asks them, and how the client behaves towards them.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use oxds_types::ApiVersion;
use oxds_types::discovery::Node;
use oxds_types::name::canonical;

use super::cache::Loss;
use crate::resource::ResourceParsers;
use crate::snapshot::Protocol;

/// How a client behaves. The first authority is the one of names that have none.
#[derive(Debug, Clone)]
pub struct ClientConfig {
    /// Who asks.
    pub node: Node,
    /// How long a server may be silent about a resource before it counts as missing: 15 s (gRFC A27). Twice that where its
    /// silence is transient (gRFC A88).
    pub resource_timeout: Duration,
    /// What to make of a response that holds a name twice: accepted by default (DEC-4).
    pub duplicates: Duplicates,
    /// What names are: federated by default (gRFC A47).
    pub names: NameSyntax,
    /// What resources are read as: a gRPC channel's views by default.
    pub types: ResourceParsers,
    /// Whether resources end when their time to live does. gRPC knows none (C-83); a server sends it to nodes alone that
    /// have the feature `xds.config.supports-resource-ttl`, which is for the maker of the node to add.
    pub resource_ttl: bool,
    pub(super) servers: Vec<Server>,
    pub(super) authorities: Vec<Vec<ServerId>>,
    pub(super) eager: BTreeSet<AuthorityId>,
}

/// One server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// Where it is, for error texts.
    pub uri: Arc<str>,
    /// How it is asked: full states, as gRPC does, unless told (DEC-2).
    pub protocol: Protocol,
    /// In which version of the API it is asked: v3, as gRPC does today, unless told (gRFC A30). It may answer in either.
    pub version: ApiVersion,
    /// What it deletes stays in use (gRFC A53), where [`DataErrors::DropDeleted`] would drop it.
    pub ignore_resource_deletion: bool,
    /// What becomes of what is held when something is wrong with it.
    pub data_errors: DataErrors,
    /// Its silence means that it is slow, and not that there is no such resource; it may last twice as long (gRFC A88).
    pub silence_is_transient: bool,
}

/// What becomes of a resource that is held when its server deletes it, or sends an invalid one, or an error that says that
/// there is none for us (gRFC A88).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum DataErrors {
    /// As before A88: what is deleted is dropped, with anything else it stays in use.
    #[default]
    DropDeleted,
    /// It stays in use, whatever it is.
    Keep,
    /// It is dropped, whatever it is: `fail_on_data_errors`.
    Drop,
}

/// A server of one [`ClientConfig`]. The default is the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ServerId(u32);

/// An authority of one [`ClientConfig`]. The default is the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct AuthorityId(u32);

/// What to make of a response that holds a name twice. The protocol forbids it; gRPC does not look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Duplicates {
    /// Nothing: duplicates are not looked for.
    #[default]
    Accept,
    /// The response is rejected; the first one counts.
    Reject,
}

/// What names are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NameSyntax {
    /// An `xdstp` name has parts, and one spelling that is kept and sent: see [`canonical`].
    #[default]
    Federated,
    /// Every name is taken as it is spelt (C-48).
    Opaque,
}

impl NameSyntax {
    /// Returns the form under which a name is kept and sent.
    pub(super) fn spelling(self, name: &str) -> Cow<'_, str> {
        match self {
            Self::Federated => canonical(name),
            Self::Opaque => Cow::Borrowed(name),
        }
    }
}

impl Server {
    /// A server without features.
    #[must_use]
    pub fn new(uri: impl Into<Arc<str>>) -> Self {
        Self {
            uri: uri.into(),
            protocol: Protocol::Sotw,
            version: ApiVersion::V3,
            ignore_resource_deletion: false,
            data_errors: DataErrors::default(),
            silence_is_transient: false,
        }
    }

    pub(super) fn loss_by_deletion(&self) -> Loss {
        match self.data_errors {
            DataErrors::DropDeleted | DataErrors::Drop => Loss::Drop,
            DataErrors::Keep => Loss::Keep,
        }
    }

    /// `transient`: by an error that says nothing of the resource.
    pub(super) fn loss_by_error(&self, transient: bool) -> Loss {
        match self.data_errors {
            DataErrors::Drop if !transient => Loss::Drop,
            _ => Loss::Keep,
        }
    }

    /// It keeps what it deletes, and that is to be logged.
    pub(super) fn ignores_deletions(&self) -> bool {
        self.ignore_resource_deletion && self.data_errors == DataErrors::DropDeleted
    }
}

impl ServerId {
    /// Its place among the servers, in the order in which they were added.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }

    pub(super) fn at(index: usize) -> Self {
        Self(index as u32)
    }
}

impl AuthorityId {
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }

    pub(super) fn at(index: usize) -> Self {
        Self(index as u32)
    }
}

impl ClientConfig {
    /// gRPC's defaults; no server yet.
    #[must_use]
    pub fn new(node: Node) -> Self {
        Self {
            node,
            resource_timeout: Duration::from_secs(15),
            duplicates: Duplicates::default(),
            names: NameSyntax::default(),
            types: ResourceParsers::grpc(),
            resource_ttl: false,
            servers: Vec::new(),
            authorities: Vec::new(),
            eager: BTreeSet::new(),
        }
    }

    /// gRPC's defaults, with one server for every name.
    #[must_use]
    pub fn with_server(server: Server, node: Node) -> Self {
        let mut config = Self::new(node);
        let server = config.add_server(server);
        config.add_authority(vec![server]);
        config
    }

    /// How long this server may be silent about a resource.
    pub(super) fn patience(&self, server: &Server) -> Duration {
        match server.silence_is_transient {
            true => self.resource_timeout.saturating_mul(2),
            false => self.resource_timeout,
        }
    }

    /// Adds a server. Authorities that name one server share its stream.
    pub fn add_server(&mut self, server: Server) -> ServerId {
        self.servers.push(server);
        ServerId::at(self.servers.len() - 1)
    }

    /// Adds an authority, with servers of this configuration, the most wanted first (gRFC A71).
    pub fn add_authority(&mut self, servers: Vec<ServerId>) -> AuthorityId {
        self.authorities.push(servers);
        AuthorityId::at(self.authorities.len() - 1)
    }

    /// Makes an authority ask its next server as soon as one cannot be reached, even if it has an answer for every
    /// name: for what changes so often that what is held is soon of no use, such as endpoints (gRFC A95).
    pub fn fall_back_on_reachability_only(&mut self, authority: AuthorityId) {
        self.eager.insert(authority);
    }
}
