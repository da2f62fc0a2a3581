//! Peers of a source: what a feed connects to, for which resource type.

use std::sync::Arc;

use oxds_core::ads::{self, DataErrors, Protocol};
use oxds_types::ResourceType;

use super::error::SourceError;
use super::grpc::GrpcPeer;
use super::optional::OptionalPeer;
use super::spec::{Source, SourceSpecifier};
use crate::bootstrap::{Bootstrap, Server};
use crate::options::Options;

/// One server, URL or file of a source.
#[derive(Debug, Clone)]
pub(crate) enum Peer {
    Grpc(GrpcPeer),
    #[cfg_attr(
        not(any(feature = "file", feature = "rest")),
        expect(dead_code, reason = "the sources that make it are features")
    )]
    Optional(Arc<dyn OptionalPeer>),
}

impl Peer {
    /// Returns an ADS server.
    pub(crate) fn ads(server: Server, protocol: Protocol) -> Self {
        Self::Grpc(GrpcPeer {
            server,
            of_type: None,
            protocol,
        })
    }

    /// Returns its name in logs and errors.
    pub(crate) fn uri(&self) -> Arc<str> {
        match self {
            Self::Grpc(peer) => peer.server.uri.as_str().into(),
            Self::Optional(peer) => peer.uri(),
        }
    }

    /// Returns its description for the state machine.
    pub(crate) fn to_server(&self, options: &Options) -> ads::Server {
        let mut described = ads::Server::new(self.uri());
        let server = match self {
            Self::Grpc(peer) => {
                described.protocol = peer.protocol;
                &peer.server
            }
            Self::Optional(peer) => match peer.server() {
                Some(server) => server,
                None => return described,
            },
        };
        described.version = server.version();
        described.ignore_resource_deletion = server.features.ignore_resource_deletion;
        described.is_trusted = server.features.trusted_xds_server;
        // gRFC A88 replaces `ignore_resource_deletion` by `fail_on_data_errors`, where its handling is enabled.
        if options.data_error_handling {
            described.data_errors = if server.features.fail_on_data_errors {
                DataErrors::Drop
            } else {
                DataErrors::Keep
            };
            described.resource_timer_is_transient =
                server.features.resource_timer_is_transient_error;
        }
        described
    }

    /// Returns the server to which load can be reported; `None` for REST and files, which have no LRS.
    pub(crate) fn grpc_server(&self) -> Option<&Server> {
        match self {
            Self::Grpc(peer) => Some(&peer.server),
            Self::Optional(_) => None,
        }
    }
}

impl Source {
    /// Returns the peers of the source for a resource type, in order of preference.
    ///
    /// # Errors
    /// [`SourceError::NoService`] if the source cannot deliver the resource type; [`SourceError::FeatureOff`] if its
    /// feature is off.
    pub(crate) fn peers(
        &self,
        resource_type: &ResourceType,
        bootstrap: &Bootstrap,
        protocol: Protocol,
    ) -> Result<Vec<Peer>, SourceError> {
        match &self.specifier {
            SourceSpecifier::Ads => {
                let servers = bootstrap.servers.iter().cloned();
                Ok(servers.map(|server| Peer::ads(server, protocol)).collect())
            }
            SourceSpecifier::Grpc(grpc) => {
                let peers = grpc.peers(resource_type);
                peers.map(|peer| peer.map(Peer::Grpc)).collect()
            }
            #[cfg(feature = "rest")]
            SourceSpecifier::Rest(rest) => {
                let peers = rest.peers(resource_type);
                peers.map(|peer| peer.map(Peer::Optional)).collect()
            }
            #[cfg(not(feature = "rest"))]
            SourceSpecifier::Rest(_) => Err(SourceError::feature_off("source", "rest")),
            #[cfg(feature = "file")]
            SourceSpecifier::File(file) => Ok(vec![Peer::Optional(file.peer(resource_type))]),
            #[cfg(not(feature = "file"))]
            SourceSpecifier::File(_) => Err(SourceError::feature_off("source", "file")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c195_server_is_trusted_by_its_feature_alone() {
        for (features, is_trusted) in [
            (r#"["xds_v3"]"#, false),
            (r#"["xds_v3", "trusted_xds_server"]"#, true),
        ] {
            let json = format!(
                r#"{{ "xds_servers": [{{ "server_uri": "cp:1", "channel_creds": [{{ "type": "insecure" }}],
                     "server_features": {features} }}] }}"#
            );
            let bootstrap = Bootstrap::from_json(&json).expect("a valid bootstrap");
            let peer = Peer::ads(bootstrap.servers()[0].clone(), Protocol::Sotw);
            assert_eq!(peer.to_server(&Options::default()).is_trusted, is_trusted);
        }
    }
}
