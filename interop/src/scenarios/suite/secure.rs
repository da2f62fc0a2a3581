//! The secure mode of both programs: the cases of psm-interop's `security_test`. Certificates are files (gRFC A29).
//!
//! The suite's driver also reads the certificates of connections by channelz. Here the sides show it themselves:
//! neither a client nor a server in plaintext can speak with one over TLS.

use std::net::{Ipv4Addr, SocketAddr};

use oxds_testkit::certificates::Authority;

use super::super::{SETTLED, scenario::Ending};
use super::mesh::{Mesh, Roles};
use crate::certificates::Tls;
use crate::config::server::{Chain, listener, upstream_tls};
use crate::config::{Folder, api_listener, assignment, cluster, cluster_with, routes};
use crate::peers::control_plane::ControlPlane;
use crate::peers::service_files::ServiceFiles;
use crate::peers::suite::{SuiteClient, SuiteServer};
use crate::{Context, Fallible};

const HOST: &str = "secured";
const SERVER: &str = "spiffe://interop/server";
const OTHER: &str = "spiffe://interop/other";
/// `UNAVAILABLE`
const UNAVAILABLE: i32 = 14;

pub(super) fn add(add: &mut impl FnMut(&str, fn(Context, Roles) -> Ending)) {
    add("secure_mode", |cx, roles| Box::pin(secure_mode(cx, roles)));
}

/// Security that the control plane configures.
#[derive(Clone, Copy)]
struct Security {
    /// Name of the suite's case.
    case: &'static str,
    server: Option<Tls>,
    /// With the name that the client expects.
    client: Option<(Tls, &'static str)>,
    succeeds: bool,
}

const CASES: [Security; 6] = [
    Security {
        case: "mtls",
        server: Some(Tls::Mutual),
        client: Some((Tls::Mutual, SERVER)),
        succeeds: true,
    },
    Security {
        case: "tls",
        server: Some(Tls::Server),
        client: Some((Tls::Server, SERVER)),
        succeeds: true,
    },
    Security {
        case: "plaintext_fallback",
        server: None,
        client: None,
        succeeds: true,
    },
    Security {
        case: "mtls_error",
        server: Some(Tls::Mutual),
        client: Some((Tls::Server, SERVER)),
        succeeds: false,
    },
    Security {
        case: "server_authz_error",
        server: Some(Tls::Mutual),
        client: Some((Tls::Mutual, OTHER)),
        succeeds: false,
    },
    Security {
        case: "mtls after the errors",
        server: Some(Tls::Mutual),
        client: Some((Tls::Mutual, SERVER)),
        succeeds: true,
    },
];

/// Given client and server in secure mode, when both get the security of each case in turn, then calls succeed by mTLS,
/// TLS and plaintext, and fail if the server requires a certificate that the client does not show, or if the client
/// expects another name.
async fn secure_mode(cx: Context, roles: Roles) -> Fallible {
    let authority = Authority::new("suite")?;
    let folder = Folder::create(&cx.dir)?;
    let control_plane = ControlPlane::serve(&cx, roles.control_plane, &folder).await?;
    let bootstrap = async |name: &str, identity: &str| {
        let issued = authority.issue(&[identity])?;
        let files = ServiceFiles::create(&cx, name, &issued, &authority)?;
        files.bootstrap(&cx, control_plane.grpc()).await
    };
    let file = bootstrap("server", SERVER).await?;
    let server = SuiteServer::start_secure(&cx, roles.server, HOST, &file).await?;
    folder.write("listener.yaml", &[api_listener()])?;
    let file = bootstrap("client", "spiffe://interop/client").await?;
    write(&folder, &server, &CASES[0])?;
    let flags = ["--qps=100", "--secure_mode=true"];
    let client = SuiteClient::start(&cx, roles.client, &file, &flags).await?;
    let mut mesh = Mesh::of(folder, client, control_plane);
    for security in CASES {
        write(&mesh.folder, &server, &security)?;
        if security.succeeds {
            mesh.served_by(&[HOST]).await?;
        } else {
            let what = format!("calls of {} fail", security.case);
            let calls = i32::try_from(SETTLED)?;
            let failed = |by_method: &super::mesh::Codes| {
                let mut codes = by_method.values().flat_map(|codes| codes.keys());
                codes.all(|code| *code == UNAVAILABLE)
            };
            mesh.ended(&what, calls, failed).await?;
        }
    }
    Ok(())
}

fn write(folder: &Folder, server: &SuiteServer, security: &Security) -> Fallible {
    // The servers listen on all addresses, which the name of their listener has.
    let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, server.address.port()));
    let chain = Chain {
        tls: security.server,
        ..Chain::default()
    };
    let cluster = match security.client {
        Some((tls, name)) => cluster_with("secured", &upstream_tls(tls, name)),
        None => cluster("secured"),
    };
    let resources = [
        listener(any, chain),
        routes(&[("secured", 1)]),
        cluster,
        assignment("secured", &[&[server.address]]),
    ];
    folder.write("mesh.yaml", &resources)
}
