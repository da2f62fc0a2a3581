//! Envoy as the client of `XdsServer` over mTLS. Envoy has its certificates by SDS, `XdsServer` from files.

use oxds_testkit::certificates::{Authority, Issued};

use super::faults::{Fault, log_by_client, log_of_server};
use super::world::{ADDRESS, CLIENT, Caller, FAILED, SERVER, World};
use super::{SOON, Scenario, only_at};
use crate::calls::{Calls, Counts};
use crate::certificates::secret;
use crate::config::{LISTENER, assignment, cluster_with, routes, socket_listener};
use crate::peers::envoy::Envoy;
use crate::peers::grpc::{Grpc, GrpcLoad};
use crate::peers::grpc_server::{GrpcServer, ServerMake};
use crate::peers::oxds::{Bootstrap, bootstrap};
use crate::peers::service_files::ServiceFiles;
use crate::wait::until;
use crate::wire::Protocol;
use crate::{Context, Fallible};

/// Secrets that the cluster refers to.
const IDENTITY: &str = "client-identity";
const ROOTS: &str = "mesh-roots";
/// Number of times that the cluster got new secrets.
const UPDATES: &str = "cluster.mesh.client_ssl_socket_factory.ssl_context_update_by_sds";

/// The client on the other side of Envoy's servers: it sends alerts, and the certificate that it has, as our channel
/// does.
const CALLER: Caller = Caller::Channel;

pub(super) fn scenarios() -> Vec<Scenario> {
    let name = "mtls_envoy_and_oxds_server";
    vec![
        Scenario::new(format!("{name}_refuse_invalid_certificates"), refuse),
        Scenario::new(format!("{name}_follow_new_certificates"), rotate),
    ]
}

/// A cluster over HTTP/2, whose endpoints must have the name [`SERVER`].
fn cluster() -> String {
    const ADS: &str = "{ ads: {}, resource_api_version: V3 }";
    cluster_with(
        "mesh",
        &format!(
            r#"typed_extension_protocol_options:
  envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
    "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
    explicit_http_config: {{ http2_protocol_options: {{}} }}
transport_socket:
  name: envoy.transport_sockets.tls
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext
    common_tls_context:
      tls_certificate_sds_secret_configs: [{{ name: {IDENTITY}, sds_config: {ADS} }}]
      combined_validation_context:
        default_validation_context:
          match_typed_subject_alt_names: [{{ san_type: URI, matcher: {{ exact: "{SERVER}" }} }}]
        validation_context_sds_secret_config: {{ name: {ROOTS}, sds_config: {ADS} }}
"#
        ),
    )
}

fn roots(authority: &Authority) -> String {
    let pem = authority.pem().replace('\n', "\n      ");
    format!(
        r#""@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret
name: {ROOTS}
validation_context:
  trusted_ca:
    inline_string: |
      {pem}
"#
    )
}

/// An Envoy, and load through it.
struct Edge {
    world: World,
    envoy: Envoy,
    load: GrpcLoad,
}

impl Edge {
    /// Starts with a valid certificate, and calls to this server.
    async fn start(world: World, server: &GrpcServer) -> Fallible<Self> {
        world.folder.write("listener.yaml", &[socket_listener()])?;
        let own = world.authority.issue(&[CLIENT])?;
        write_secrets(&world, &own, &world.authority)?;
        lead_to(&world, server)?;
        let cx = &world.cx;
        let server = world.oxds.grpc;
        let file = bootstrap(cx, Bootstrap::Envoy(Protocol::Delta), server).await?;
        let mut envoy = Envoy::start(cx, &file).await?;
        let target = format!("dns:///{}", envoy.listener(LISTENER).await?);
        let plain = bootstrap(cx, Bootstrap::Grpc, server).await?;
        let load = Grpc::Go.call_target(cx, &plain, &target)?;
        Ok(Self { world, envoy, load })
    }

    fn calls(&self) -> &Calls {
        &self.load.calls
    }

    /// Replaces Envoy's secrets, and waits until the cluster uses them.
    async fn renew(&self, own: &Issued, authority: &Authority) -> Fallible {
        // One update for each secret that has changed: the roots of the same authority have not.
        let changed = 1 + u64::from(authority.pem() != self.world.authority.pem());
        let wanted = self.envoy.stat(UPDATES).await? + changed;
        write_secrets(&self.world, own, authority)?;
        until("Envoy's new secrets", SOON, async || {
            Ok((self.envoy.stat(UPDATES).await? >= wanted).then_some(()))
        })
        .await
    }

    /// Waits until all calls fail, each with these texts.
    async fn fail(&self, what: &str, texts: &[&str]) -> Fallible {
        let what = format!("calls with {what} fail with {texts:?}");
        let wanted = |failure: &String| texts.iter().all(|text| failure.contains(text));
        let only =
            |counts: &Counts| counts.by_backend.is_empty() && counts.failures.iter().all(wanted);
        self.calls().settle(&what, FAILED, SOON, only).await?;
        Ok(())
    }
}

fn write_secrets(world: &World, own: &Issued, authority: &Authority) -> Fallible {
    let secrets = [secret(IDENTITY, own), roots(authority)];
    world.folder.write("secrets.yaml", &secrets)
}

/// Leads the calls to this server.
fn lead_to(world: &World, server: &GrpcServer) -> Fallible {
    let resources = [
        routes(&[("mesh", 1)]),
        cluster(),
        assignment("mesh", &[&[server.address]]),
    ];
    world.folder.write("mesh.yaml", &resources)
}

/// Counter of Envoy's connections that fail by the certificate of a server. Its statuses do not say why.
fn count_by_server(fault: Fault) -> &'static str {
    match fault {
        // The server closes the connection: it does not use the certificate.
        Fault::Expired => "cluster.mesh.upstream_cx_connect_fail",
        Fault::Stranger => "cluster.mesh.ssl.fail_verify_error",
        Fault::OtherName => "cluster.mesh.ssl.fail_verify_san",
    }
}

/// Text of the status of calls with such a certificate.
fn status_by_client(fault: Fault) -> &'static str {
    match fault {
        Fault::OtherName => "Unauthorized RPC rejected",
        _ => "upstream connect error",
    }
}

/// Given an Envoy and an `XdsServer` with certificates of the mesh,
/// then calls succeed; when they lead to a server whose certificate has expired, is of another authority, or has the
/// name of another service, then they fail, Envoy counts the reason, and the server logs it; when Envoy gets such a
/// certificate, then the first server refuses its connections, and logs the reason; and with the valid one calls
/// succeed again.
async fn refuse(cx: Context) -> Fallible {
    let world = World::start(cx).await?;
    let make = ServerMake::Oxds;
    let good = world
        .server(make, "good", &world.files("server", SERVER)?)
        .await?;
    let edge = Edge::start(world, &good).await?;
    let world = &edge.world;
    only_at(edge.calls(), "calls", &["good"]).await?;
    // A connection with another name is not closed: calls that succeed again need a new one.
    for fault in [Fault::OtherName, Fault::Expired, Fault::Stranger] {
        let issued = fault.issue(&world.authority, SERVER)?;
        let name = format!("{}-server", fault.name());
        let files = ServiceFiles::create(&world.cx, &name, &issued, &world.authority)?;
        let server = world.server(make, &name, &files).await?;
        lead_to(world, &server)?;
        edge.fail(&name, &["upstream connect error"]).await?;
        if edge.envoy.stat(count_by_server(fault)).await? == 0 {
            return Err(format!("{} is 0", count_by_server(fault)).into());
        }
        server
            .logs(log_of_server(CALLER, make, fault), SOON)
            .await?;

        // Envoy has no connection to the first server now, and so connects with the certificate that it has then.
        let own = fault.issue(&world.authority, CLIENT)?;
        edge.renew(&own, &world.authority).await?;
        lead_to(world, &good)?;
        let name = format!("{}-client", fault.name());
        edge.fail(&name, &[status_by_client(fault)]).await?;
        let texts = log_by_client(CALLER, make, fault).unwrap_or_default();
        good.logs(texts, SOON).await?;
        let own = world.authority.issue(&[CLIENT])?;
        edge.renew(&own, &world.authority).await?;
    }
    only_at(edge.calls(), "calls after the refusals", &["good"]).await
}

/// Given calls under way, when authority and certificates of both sides are replaced,
/// then calls continue, Envoy connects to another server with the new ones, and no call has failed.
async fn rotate(cx: Context) -> Fallible {
    let world = World::start(cx).await?;
    let make = ServerMake::Oxds;
    let theirs = world.files("server", SERVER)?;
    let first = world.server(make, "first", &theirs).await?;
    let edge = Edge::start(world, &first).await?;
    only_at(edge.calls(), "calls", &["first"]).await?;
    let mark = edge.calls().mark();
    let new = Authority::new("new")?;
    theirs.renew(&new.issue(&[SERVER, ADDRESS])?, &new)?;
    let mut second = edge.world.server(make, "second", &theirs).await?;
    second.serving(SOON).await?;
    edge.renew(&new.issue(&[CLIENT])?, &new).await?;
    lead_to(&edge.world, &second)?;
    only_at(edge.calls(), "calls after the rotation", &["second"]).await?;
    match edge.calls().since(mark).failures.first() {
        Some(failure) => Err(format!("a call failed: {failure}").into()),
        None => Ok(()),
    }
}
