//! Certificates that the other side must refuse, and the words in which each implementation does so.

use oxds_testkit::certificates::{Authority, Issued};

use super::world::{Caller, OTHER, SERVER};
use crate::Fallible;
use crate::peers::grpc::Grpc;
use crate::peers::grpc_server::ServerMake;

/// Faults of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The time of the certificate is over.
    Expired,
    /// Another authority has issued the certificate.
    Stranger,
    /// The name is that of another service.
    OtherName,
}

impl Fault {
    pub(super) const ALL: [Self; 3] = [Self::Expired, Self::Stranger, Self::OtherName];

    /// Name of the process that has the certificate.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::Stranger => "stranger",
            Self::OtherName => "other",
        }
    }

    /// Issues the certificate to a service that should have this name.
    pub(super) fn issue(self, mesh: &Authority, identity: &str) -> Fallible<Issued> {
        Ok(match self {
            Self::Expired => mesh.issue_expired(&[identity])?,
            Self::Stranger => Authority::new("stranger")?.issue(&[identity])?,
            Self::OtherName => mesh.issue(&[OTHER])?,
        })
    }
}

/// Texts of the status of a call to a server with such a certificate.
pub(super) fn status_by_server(
    caller: Caller,
    server: ServerMake,
    fault: Fault,
) -> &'static [&'static str] {
    // XdsServer does not use a certificate of its own that has expired: it closes the connection.
    if server == ServerMake::Oxds && fault == Fault::Expired {
        return &["andshake"];
    }
    match (caller, fault) {
        (Caller::Channel, Fault::Expired) => &["invalid peer certificate", "expired"],
        (Caller::Channel, Fault::Stranger) => {
            &["its issuer is not an authority of certificate provider instance \"default\""]
        }
        (Caller::Channel, Fault::OtherName) => {
            &["no name of the certificate matches", OTHER, SERVER]
        }
        (Caller::Grpc(Grpc::Go), Fault::Expired) => &["certificate has expired"],
        (Caller::Grpc(Grpc::Go), Fault::Stranger) => &["certificate signed by unknown authority"],
        (Caller::Grpc(Grpc::Go), Fault::OtherName) => {
            &[OTHER, "do not match any of the accepted SANs"]
        }
        (Caller::Grpc(_), Fault::Expired) => &["certificate has expired"],
        (Caller::Grpc(_), Fault::Stranger) => &["unable to get local issuer certificate"],
        (Caller::Grpc(_), Fault::OtherName) => &["SAN"],
    }
}

/// Texts in the log of a server with such a certificate, which the client has refused.
pub(super) fn log_of_server(
    caller: Caller,
    server: ServerMake,
    fault: Fault,
) -> &'static [&'static str] {
    match (server, fault) {
        (ServerMake::Oxds, Fault::Expired) => &["WARN", "cert.pem", "the certificate has expired"],
        // C-core checks names after the handshake.
        (ServerMake::Oxds, Fault::OtherName) if matches!(caller, Caller::Grpc(Grpc::Core)) => {
            &["connection closed in its handshake"]
        }
        // C-core sends no alert, and so gets another end of this line.
        (ServerMake::Oxds, _) => &["WARN", "the client", "the handshake"],
        (ServerMake::Go, _) => &["failed to create ServerTransport", "tls: "],
        (ServerMake::Core, _) => &["andshake"],
    }
}

/// Texts of the status of a call by a client with such a certificate.
pub(super) fn status_by_client(
    caller: Caller,
    server: ServerMake,
    fault: Fault,
) -> &'static [&'static str] {
    match (caller, fault) {
        // RBAC.
        (_, Fault::OtherName) if server == ServerMake::Go => &["did not match an allow policy"],
        (_, Fault::OtherName) => &["Unauthorized RPC rejected"],
        // The channel does not use it.
        (Caller::Channel, Fault::Expired) => &["cert.pem", "the certificate has expired"],
        // C-core sends no alert.
        (Caller::Channel, Fault::Stranger) if server == ServerMake::Core => {
            &["the peer closed the connection"]
        }
        (Caller::Channel, Fault::Stranger) => &["alert"],
        (Caller::Grpc(_), _) => &[],
    }
}

/// Texts in the log of a server that has rejected the certificate of a client; `None` if a line in the log is not
/// required.
pub(super) fn log_by_client(
    caller: Caller,
    server: ServerMake,
    fault: Fault,
) -> Option<&'static [&'static str]> {
    Some(match (server, fault) {
        (ServerMake::Oxds, Fault::Expired) => {
            &["WARN", "invalid peer certificate: certificate expired"]
        }
        // grpc-go does not show a certificate of an authority that the server does not name.
        (ServerMake::Oxds, Fault::Stranger) if matches!(caller, Caller::Grpc(Grpc::Go)) => {
            &["WARN", "peer sent no certificates"]
        }
        (ServerMake::Oxds, Fault::Stranger) => &[
            "WARN",
            "its issuer is not an authority of certificate provider instance \"default\"",
        ],
        (ServerMake::Oxds, Fault::OtherName) => &["call denied", OTHER],
        // The channel has not shown it.
        (_, Fault::Expired) if matches!(caller, Caller::Channel) => return None,
        (_, Fault::OtherName) => return None,
        (ServerMake::Go, _) => &[
            "failed to create ServerTransport",
            "certificate signed by unknown authority",
        ],
        (ServerMake::Core, _) => &["CERTIFICATE_VERIFY_FAILED"],
    })
}
