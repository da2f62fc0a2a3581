//! One end of a source: what is connected to, for which kind.

use std::sync::Arc;

use oxds_core::ads::{self, DataErrors, Protocol};
use oxds_core::poll::PollTiming;
use oxds_types::ResourceType;
use oxds_types::resource_type::Service;

use super::{File, Grpc, Origin, Rest, Source, SourceError};
use crate::bootstrap::{Bootstrap, Server};
use crate::client::Options;

/// What a feed is opened to.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Peer {
    Grpc(GrpcPeer),
    Rest(RestPeer),
    File(File, ResourceType),
}

/// A gRPC service.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct GrpcPeer {
    pub(crate) server: Server,
    /// Whose own service is asked; none: ADS.
    pub(crate) of: Option<ResourceType>,
    pub(crate) protocol: Protocol,
}

/// A URL to post to.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RestPeer {
    pub(crate) server: Server,
    pub(crate) path: String,
    pub(crate) pace: PollTiming,
}

impl GrpcPeer {
    /// The service and its method; none, if the kind has none such.
    pub(crate) fn method(&self) -> Option<(&'static Service, &'static str)> {
        let version = self.server.version();
        let service = match &self.of {
            Some(resource_type) => resource_type.service(version)?,
            None => Service::aggregated(version),
        };
        let method = match self.protocol {
            Protocol::Sotw => service.stream,
            Protocol::Delta => service.delta,
        };
        Some((service, method?))
    }
}

impl Peer {
    /// An ADS server.
    pub(crate) fn ads(server: Server, protocol: Protocol) -> Self {
        Self::Grpc(GrpcPeer {
            server,
            of: None,
            protocol,
        })
    }

    /// How errors and logs name it.
    pub(crate) fn uri(&self) -> Arc<str> {
        match self {
            Self::Grpc(peer) => peer.server.uri.as_str().into(),
            Self::Rest(peer) => {
                let scheme = match peer.server.credentials.is_private() {
                    true => "https",
                    false => "http",
                };
                let (host, path) = (peer.server.address.authority(), &peer.path);
                format!("{scheme}://{host}{path}").into()
            }
            Self::File(file, _) => file.path.display().to_string().into(),
        }
    }

    /// What the machine is to know of it.
    pub(crate) fn described(&self, options: &Options) -> ads::Server {
        let mut described = ads::Server::new(self.uri());
        let server = match self {
            Self::Grpc(peer) => {
                described.protocol = peer.protocol;
                &peer.server
            }
            Self::Rest(peer) => &peer.server,
            Self::File(..) => return described,
        };
        described.version = server.version();
        described.ignore_resource_deletion = server.features.ignore_resource_deletion;
        if options.data_error_handling {
            described.data_errors = match server.features.fail_on_data_errors {
                true => DataErrors::Drop,
                false => DataErrors::Keep,
            };
            described.silence_is_transient = server.features.resource_timer_is_transient_error;
        }
        described
    }

    /// To whom load can be reported.
    pub(crate) fn grpc_server(&self) -> Option<&Server> {
        match self {
            Self::Grpc(peer) => Some(&peer.server),
            Self::Rest(_) | Self::File(..) => None,
        }
    }
}

impl Source {
    /// Whether what it takes to watch a kind at it serves all kinds.
    pub(crate) fn is_aggregated(&self) -> bool {
        matches!(&self.origin, Origin::Grpc(grpc) if grpc.aggregated)
    }

    /// Its ends, the most wanted first.
    ///
    /// # Errors
    /// The kind cannot be had from such a source.
    pub(crate) fn peers(
        &self,
        resource_type: &ResourceType,
        bootstrap: &Bootstrap,
        protocol: Protocol,
    ) -> Result<Vec<Peer>, SourceError> {
        match &self.origin {
            Origin::Ads => {
                let servers = bootstrap.servers.iter().cloned();
                Ok(servers.map(|server| Peer::ads(server, protocol)).collect())
            }
            Origin::Grpc(grpc) => grpc.peers(resource_type),
            Origin::Rest(rest) => rest.peers(resource_type),
            Origin::File(file) => Ok(vec![Peer::File(file.clone(), resource_type.clone())]),
        }
    }
}

impl Grpc {
    fn peers(&self, resource_type: &ResourceType) -> Result<Vec<Peer>, SourceError> {
        let protocol = self.protocol;
        let peers = self.servers.iter().cloned().map(|server| {
            let of = (!self.aggregated).then(|| resource_type.clone());
            let peer = GrpcPeer {
                server,
                of,
                protocol,
            };
            match peer.method() {
                Some(_) => Ok(Peer::Grpc(peer)),
                None => Err(SourceError::no_service(resource_type, protocol)),
            }
        });
        peers.collect()
    }
}

impl Rest {
    fn peers(&self, resource_type: &ResourceType) -> Result<Vec<Peer>, SourceError> {
        let peers = self.servers.iter().cloned().map(|server| {
            let service = resource_type.service(server.version());
            let path = service.and_then(|service| service.rest);
            let path = path.ok_or_else(|| SourceError::NoService {
                resource_type: resource_type.clone(),
                how: "REST",
            })?;
            Ok(Peer::Rest(RestPeer {
                server,
                path: format!("{}{path}", self.prefix),
                pace: self.pace,
            }))
        });
        peers.collect()
    }
}
