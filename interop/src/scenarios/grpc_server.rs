//! xDS-enabled gRPC servers, configured by `oxds serve` (gRFC A36): C-core's, and `XdsServer` with clients of other
//! languages.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{SETTLED, SOON, Scenario, only_at};
use crate::config::Folder;
use crate::config::server::{Chain, listener};
use crate::peers::grpc::Grpc;
use crate::peers::grpc_server::{GrpcServer, ServerMake};
use crate::peers::oxds::{Bootstrap, Oxds, bootstrap};
use crate::wait::until;
use crate::{Context, Fallible};

/// A serving server answers the preface at once; this limit is for a busy machine.
const GREETING: Duration = Duration::from_secs(1);

pub(super) fn scenarios() -> Vec<Scenario> {
    let mut scenarios = Vec::new();
    for (make, client) in [
        (ServerMake::Core, Grpc::Core),
        (ServerMake::Oxds, Grpc::Core),
        (ServerMake::Oxds, Grpc::Go),
    ] {
        let name = match make {
            ServerMake::Oxds => {
                format!("oxds_server_follows_its_listener_for_{}", client.name())
            }
            make => format!("{}_server_follows_its_listener", make.name()),
        };
        let run = move |cx| follows_its_listener(cx, make, client);
        scenarios.push(Scenario::new(name, run));
    }
    scenarios
}

/// Effect of the server's routes on calls.
#[derive(Clone, Copy)]
enum Action {
    /// Handles them itself.
    Serve,
    /// Would forward them, which a server cannot: it fails them.
    Forward,
}

/// Part of the status of an RPC whose route is for clients.
fn refusal_of_routes(make: ServerMake) -> &'static str {
    match make {
        ServerMake::Oxds => "the action of the route is not non_forwarding_action",
        _ => "unsupported action",
    }
}

/// The listener, and the routes that it refers to.
fn resources(address: SocketAddr, action: Action) -> [String; 2] {
    let action = match action {
        Action::Serve => "non_forwarding_action: {}",
        Action::Forward => "route: { cluster: elsewhere }",
    };
    let chain = Chain {
        routes: Some("server-routes"),
        ..Chain::default()
    };
    let listener = listener(address, chain);
    let routes = format!(
        r#""@type": type.googleapis.com/envoy.config.route.v3.RouteConfiguration
name: server-routes
virtual_hosts:
- name: all
  domains: ["*"]
  routes:
  - match: {{ prefix: "" }}
    {action}
"#
    );
    [listener, routes]
}

/// Given a server without a listener, so that it accepts no connection,
/// when its listener and routes come, then it serves;
/// when the routes change to an action that a server must not take, then it fails calls with the reason;
/// when they are fixed, it serves; and when the listener is deleted, it serves no new connection.
async fn follows_its_listener(cx: Context, make: ServerMake, client: Grpc) -> Fallible {
    let folder = Folder::create(&cx.dir)?;
    let oxds = Oxds::serve(&cx, &folder).await?;
    let file = bootstrap(&cx, Bootstrap::Grpc, oxds.grpc).await?;
    let mut server = GrpcServer::start(&cx, make, &file, "served").await?;
    let address = server.address;
    greets(&mut server, false).await?;

    folder.write("server.yaml", &resources(address, Action::Serve))?;
    greets(&mut server, true).await?;
    let load = client.call_target(&cx, &file, &format!("dns:///{address}"))?;
    let served = async || only_at(&load.calls, "calls", &["served"]).await;
    served().await?;

    folder.write("server.yaml", &resources(address, Action::Forward))?;
    load.calls
        .settle("calls refused", SETTLED, SOON, |counts| {
            let mut failures = counts.failures.iter();
            counts.by_backend.is_empty() && failures.all(|f| f.contains(refusal_of_routes(make)))
        })
        .await?;

    folder.write("server.yaml", &resources(address, Action::Serve))?;
    served().await?;

    folder.remove("server.yaml")?;
    greets(&mut server, false).await
}

/// Waits until it serves new connections, or until it does not.
async fn greets(server: &mut GrpcServer, wanted: bool) -> Fallible {
    let what = if wanted {
        "the server greets connections"
    } else {
        "the server greets none"
    };
    until(what, SOON, async || {
        server.running()?;
        Ok((greeting(server.address).await == wanted).then_some(()))
    })
    .await
}

/// The preface of a client, and an empty SETTINGS frame (RFC 9113, section 3.4). `XdsServer` reads it before it sends
/// its own.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// Whether a new connection gets its first byte, of HTTP/2 SETTINGS. Without a listener C-core accepts nothing; once it
/// had one, it leaves its socket to the kernel, which still connects.
async fn greeting(address: SocketAddr) -> bool {
    let greeted = async {
        let mut socket = TcpStream::connect(address).await?;
        socket.write_all(PREFACE).await?;
        socket.read_u8().await
    };
    matches!(timeout(GREETING, greeted).await, Ok(Ok(_)))
}
