//! Authorization of calls to xDS-enabled servers by RBAC (gRFC A41): the same verdict of every server, and of our
//! engine, in every case.
//!
//! ```text
//!   cases ─► routes with rules ─► oxds serve ─► server ◄── calls with chosen headers, source address, certificate
//!                 └─────────────────────────► our engine        └── status of each, compared with the engine and the table
//! ```

mod cases;
mod engine;
mod resources;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use oxds_core::rbac::PeerIdentity;
use oxds_testkit::certificates::Authority;
use tokio_rustls::TlsConnector;

use self::cases::{Case, Client, IDENTITIES, IdentityCase, PLAINTEXT};
use self::engine::{Engine, Received};
use self::resources::{Route, listener, routes, service};
use super::{SOON, Scenario};
use crate::certificates::Tls;
use crate::config::Folder;
use crate::peers::grpc_server::{GrpcServer, ServerMake};
use crate::peers::oxds::{Bootstrap, Oxds, bootstrap};
use crate::peers::service_files::ServiceFiles;
use crate::raw::{ALPN, RawClient, RawStatus};
use crate::{Context, Fallible};

/// Authority of all calls.
const AUTHORITY: &str = "shop.example";
/// `PERMISSION_DENIED`
const DENIED: u32 = 7;

pub(super) fn scenarios() -> Vec<Scenario> {
    let of = |make: ServerMake| {
        let server = make.name();
        [
            Scenario::new(format!("rbac_{server}_server_agrees"), move |cx| {
                agrees(cx, make)
            }),
            Scenario::new(
                format!("rbac_{server}_server_agrees_about_mtls_identities"),
                move |cx| agrees_about_identities(cx, make),
            ),
        ]
    };
    let makes = [ServerMake::Go, ServerMake::Oxds];
    makes.into_iter().flat_map(of).collect()
}

/// Verdicts about a call that differ from the expected one.
#[derive(Default)]
struct Differences(Vec<String>);

impl Differences {
    fn compare(
        &mut self,
        call: &str,
        expected: bool,
        engine: bool,
        server: &RawStatus,
    ) -> Fallible {
        let allowed = match server.0 {
            0 => true,
            DENIED => false,
            _ => return Err(format!("{call}: {server:?}").into()),
        };
        if (engine, allowed) != (expected, expected) {
            let text = format!("{call}: expected {expected}, engine {engine}, server {server:?}");
            self.0.push(text);
        }
        Ok(())
    }

    fn none(self) -> Fallible {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(self.0.join("\n     ").into())
        }
    }
}

/// Given a server, whose routes have the rules of the cases, and a client that sends the requests of the cases,
/// then the server denies exactly the calls that our engine denies.
async fn agrees(cx: Context, make: ServerMake) -> Fallible {
    let folder = Folder::create(&cx.dir)?;
    let oxds = Oxds::serve(&cx, &folder).await?;
    let file = bootstrap(&cx, Bootstrap::Grpc, oxds.grpc).await?;
    let mut server = GrpcServer::start(&cx, make, &file, "rbac").await?;
    let address = server.address;
    let text = routes(
        &PLAINTEXT.iter().map(of_case).collect::<Vec<_>>(),
        address.port(),
    );
    folder.write("server.yaml", &[listener(address, None), text.clone()])?;
    server.serving(SOON).await?;

    let engine = Engine::of_routes(&text)?;
    let mut differences = Differences::default();
    for case in PLAINTEXT {
        for call in case.calls {
            let source = IpAddr::V4(Ipv4Addr::new(127, 0, 0, call.source));
            let path = format!("{}/{}", service(case.name), call.method);
            let mut client = RawClient::connect(source, address, None).await?;
            let status = client.call(AUTHORITY, &path, call.headers).await?;
            let allowed = engine.allows(&Received {
                path: &path,
                authority: AUTHORITY,
                headers: call.headers,
                destination: address,
                source: SocketAddr::new(source, 1),
                tls: None,
            })?;
            differences.compare(&format!("{path} {call:?}"), call.allowed, allowed, &status)?;
        }
    }
    differences.none()
}

fn of_case(case: &Case) -> Route {
    Route {
        name: case.name,
        rules: case.filters.map(str::to_owned),
    }
}

fn of_identity_case(case: &IdentityCase) -> Route {
    let principal = case.principal;
    let rules = format!(
        "policies: {{ p: {{ permissions: [{{ any: true }}], principals: [{principal}] }} }}"
    );
    Route {
        name: case.name,
        rules: [rules, String::new()],
    }
}

/// Given a server with TLS, where clients must show a certificate, and one where they show none,
/// when clients with a URI, with DNS names, with a subject only and without a certificate call them,
/// then they deny exactly the calls that our engine denies.
async fn agrees_about_identities(cx: Context, make: ServerMake) -> Fallible {
    let folder = Folder::create(&cx.dir)?;
    let oxds = Oxds::serve(&cx, &folder).await?;
    let authority = Authority::new("interop")?;
    let own = ServiceFiles::create(&cx, "server", &authority.issue(&["127.0.0.1"])?, &authority)?;
    let file = own.bootstrap(&cx, oxds.grpc).await?;
    let mut mutual = GrpcServer::start(&cx, make, &file, "mutual").await?;
    let mut anonymous = GrpcServer::start(&cx, make, &file, "anonymous").await?;
    let all: Vec<_> = IDENTITIES.iter().map(of_identity_case).collect();
    let text = routes(&all, mutual.address.port());
    let listeners = [(&mutual, Tls::Mutual), (&anonymous, Tls::Server)]
        .map(|(server, tls)| listener(server.address, Some(tls)));
    folder.write(
        "server.yaml",
        &[&listeners[..], std::slice::from_ref(&text)].concat(),
    )?;
    mutual.serving(SOON).await?;
    anonymous.serving(SOON).await?;

    let engine = Engine::of_routes(&text)?;
    let mut differences = Differences::default();
    for client in Client::ALL {
        let (connector, identity) = credentials(&authority, client)?;
        let address = match &identity {
            Some(_) => mutual.address,
            None => anonymous.address,
        };
        let source = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let mut connection = RawClient::connect(source, address, Some(&connector)).await?;
        for case in IDENTITIES {
            let path = format!("{}/Add", service(case.name));
            let status = connection.call(AUTHORITY, &path, &[]).await?;
            let allowed = engine.allows(&Received {
                path: &path,
                authority: AUTHORITY,
                headers: &[],
                destination: address,
                source: SocketAddr::new(source, 1),
                tls: Some(identity.as_ref()),
            })?;
            let expected = case.matches.contains(&client);
            differences.compare(&format!("{path} {client:?}"), expected, allowed, &status)?;
        }
    }
    differences.none()
}

/// Returns the TLS of a client, and its identity as a server sees it.
fn credentials(
    authority: &Authority,
    client: Client,
) -> Fallible<(TlsConnector, Option<PeerIdentity>)> {
    let Some(names) = client.names() else {
        return Ok((authority.connector(None, &[ALPN])?, None));
    };
    let issued = authority.issue(names)?;
    let (uri_sans, dns_sans) = names
        .iter()
        .map(ToString::to_string)
        .partition(|name: &String| name.contains("://"));
    let identity = PeerIdentity {
        uri_sans,
        dns_sans,
        // The subject of rcgen's certificates, unless they are given another one.
        subject: "CN=rcgen self signed cert".to_owned(),
    };
    Ok((authority.connector(Some(&issued), &[ALPN])?, Some(identity)))
}
