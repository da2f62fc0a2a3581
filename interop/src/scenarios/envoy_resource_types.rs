//! Envoy and the resource types beside listeners, routes, clusters and endpoints (S-61): secrets, runtime, extensions,
//! virtual hosts.

use std::net::SocketAddr;
use std::path::PathBuf;

use oxds_testkit::certificates::Authority;
use tokio::net::TcpStream;
use tokio_rustls::rustls::pki_types::ServerName;

use super::{SOON, Scenario};
use crate::backend::Backend;
use crate::certificates::secret;
use crate::config::{Folder, LISTENER, ROUTES, assignment, cluster, routes};
use crate::peers::envoy::Envoy;
use crate::peers::oxds::Oxds;
use crate::wait::until;
use crate::{Context, Fallible, http};

const ADS: &str = "{ ads: {}, resource_api_version: V3 }";
/// VHDS has its own delta stream. Envoy requests hosts as they are needed, and waits for a first one only this long.
const VHDS: &str = "{ resource_api_version: V3, initial_fetch_timeout: 0.1s, api_config_source: { api_type: DELTA_GRPC, transport_api_version: V3, grpc_services: [{ envoy_grpc: { cluster_name: xds } }] } }";
const ROUTER: &str = r#"{ name: envoy.filters.http.router, typed_config: { "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router } }"#;
const MANAGER: &str = "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";

pub(super) fn scenarios() -> Vec<Scenario> {
    let secrets = "envoy_sds_rotates_a_certificate".to_owned();
    let runtime = "envoy_rtds_flips_a_key".to_owned();
    let extension = "envoy_ecds_replaces_a_filter".to_owned();
    let hosts = "envoy_vhds_gets_routes_on_demand".to_owned();
    vec![
        Scenario::new(secrets, rotates_a_certificate),
        Scenario::new(runtime, flips_a_key),
        Scenario::new(extension, replaces_a_filter),
        Scenario::new(hosts, gets_routes_on_demand),
    ]
}

/// The bootstrap file for an Envoy that uses delta, for ADS and for the runtime layer `flags`.
fn bootstrap(cx: &Context, server: SocketAddr) -> Fallible<PathBuf> {
    let (ip, port) = (server.ip(), server.port());
    let file = format!(
        r#"node: {{ id: interop-1, cluster: interop }}
dynamic_resources:
  ads_config:
    api_type: DELTA_GRPC
    transport_api_version: V3
    grpc_services: [{{ envoy_grpc: {{ cluster_name: xds }} }}]
  lds_config: {ADS}
  cds_config: {ADS}
layered_runtime:
  layers:
  - name: flags
    rtds_layer: {{ name: flags, rtds_config: {ADS} }}
static_resources:
  clusters:
  - name: xds
    connect_timeout: 1s
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {{ http2_protocol_options: {{}} }}
    load_assignment:
      cluster_name: xds
      endpoints: [{{ lb_endpoints: [{{ endpoint: {{ address: {{ socket_address: {{ address: {ip}, port_value: {port} }} }} }} }}] }}]
"#
    );
    let path = cx.dir.join("bootstrap.yaml");
    std::fs::write(&path, file)?;
    Ok(path)
}

/// The scenarios' listener, with filters before the router and a transport socket.
fn listener(filters: &str, transport_socket: &str) -> String {
    format!(
        r#""@type": type.googleapis.com/envoy.config.listener.v3.Listener
name: {LISTENER}
address: {{ socket_address: {{ address: 127.0.0.1, port_value: 0 }} }}
filter_chains:
- filters:
  - name: envoy.filters.network.http_connection_manager
    typed_config:
      "@type": {MANAGER}
      stat_prefix: ingress
      rds: {{ route_config_name: {ROUTES}, config_source: {ADS} }}
      http_filters: [{filters}{ROUTER}]
{transport_socket}"#
    )
}

/// A served folder, and an Envoy that it configures.
struct Edge {
    folder: Folder,
    envoy: Envoy,
    /// Address of Envoy's listener.
    address: SocketAddr,
    _oxds: Oxds,
    _backend: Backend,
}

impl Edge {
    /// Starts with this listener, routes to `blue`, and one more file.
    async fn start(
        cx: &Context,
        listener: String,
        routes: String,
        (file, document): (&str, String),
    ) -> Fallible<Self> {
        let backend = Backend::start("blue").await?;
        let folder = Folder::create(&cx.dir)?;
        let endpoints = assignment("blue", &[&[backend.address]]);
        folder.write("mesh.yaml", &[listener, routes, cluster("blue"), endpoints])?;
        folder.write(file, &[document])?;
        let oxds = Oxds::serve(cx, &folder).await?;
        let mut envoy = Envoy::start(cx, &bootstrap(cx, oxds.grpc)?).await?;
        let address = envoy.listener(LISTENER).await?;
        Ok(Self {
            folder,
            envoy,
            address,
            _oxds: oxds,
            _backend: backend,
        })
    }
}

impl Edge {
    /// Number of times that Envoy got listeners.
    async fn listener_updates(&self) -> Fallible<u64> {
        self.envoy.stat("listener_manager.lds.update_success").await
    }

    /// Asserts that the listener was not sent again when a resource that it refers to changed.
    async fn kept_its_listener(&self, updates: u64) -> Fallible {
        if self.listener_updates().await? == updates {
            Ok(())
        } else {
            Err("the listener was sent again when a resource that it refers to changed".into())
        }
    }
}

/// The certificate that a server sends to a client of `authority`.
async fn shown(address: SocketAddr, authority: &Authority) -> Fallible<Vec<u8>> {
    let stream = TcpStream::connect(address).await?;
    let name = ServerName::try_from("shop.example")?;
    let stream = authority
        .connector(None, &[])?
        .connect(name, stream)
        .await?;
    let certificates = stream.get_ref().1.peer_certificates();
    let first = certificates.and_then(|all| all.first());
    Ok(first.ok_or("no certificate")?.to_vec())
}

/// Given a listener whose certificate comes by SDS,
/// when the file with the secret is replaced,
/// then new connections get the new certificate, and the listener was not replaced.
async fn rotates_a_certificate(cx: Context) -> Fallible {
    const NAME: &str = "shop-certificate";
    let authority = Authority::new("interop")?;
    let issue = || authority.issue(&["shop.example"]);
    let socket = format!(
        r#"  transport_socket:
    name: tls
    typed_config:
      "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext
      common_tls_context:
        alpn_protocols: [h2]
        tls_certificate_sds_secret_configs: [{{ name: {NAME}, sds_config: {ADS} }}]
"#
    );
    let (old, new) = (issue()?, issue()?);
    let edge = Edge::start(
        &cx,
        listener("", &socket),
        routes(&[("blue", 1)]),
        ("secret.yaml", secret(NAME, &old)),
    )
    .await?;
    let before = shown(edge.address, &authority).await?;
    let updates = edge.listener_updates().await?;
    edge.folder.write("secret.yaml", &[secret(NAME, &new)])?;
    until("the new certificate", SOON, async || {
        let now = shown(edge.address, &authority).await?;
        Ok((now != before).then_some(()))
    })
    .await?;
    edge.kept_its_listener(updates).await
}

/// Given a runtime layer by RTDS,
/// when the file sets its key to another value,
/// then Envoy's runtime has it.
async fn flips_a_key(cx: Context) -> Fallible {
    let layer = |value: u32| {
        format!(
            "\"@type\": type.googleapis.com/envoy.service.runtime.v3.Runtime\nname: flags\nlayer: {{ shop.share: {value} }}\n"
        )
    };
    let edge = Edge::start(
        &cx,
        listener("", ""),
        routes(&[("blue", 1)]),
        ("runtime.yaml", layer(10)),
    )
    .await?;
    let is = async |value: &str| {
        until(&format!("shop.share at {value}"), SOON, async || {
            let now = edge.envoy.runtime("shop.share").await?;
            Ok((now.as_deref() == Some(value)).then_some(()))
        })
        .await
    };
    is("10").await?;
    edge.folder.write("runtime.yaml", &[layer(90)])?;
    is("90").await
}

/// Given a filter whose configuration comes by ECDS,
/// when the file is edited,
/// then responses show the new configuration, and the listener was not replaced.
async fn replaces_a_filter(cx: Context) -> Fallible {
    const MUTATION: &str =
        "type.googleapis.com/envoy.extensions.filters.http.header_mutation.v3.HeaderMutation";
    let filter = format!(
        "{{ name: mark, config_discovery: {{ config_source: {ADS}, type_urls: [{MUTATION}] }} }}, "
    );
    let extension = |mark: &str| {
        format!(
            r#""@type": type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig
name: mark
typed_config:
  "@type": {MUTATION}
  mutations: {{ response_mutations: [{{ append: {{ header: {{ key: x-mark, value: {mark} }} }} }}] }}
"#
        )
    };
    let edge = Edge::start(
        &cx,
        listener(&filter, ""),
        routes(&[("blue", 1)]),
        ("extension.yaml", extension("one")),
    )
    .await?;
    let marked = async |mark: &str| {
        until(&format!("responses marked {mark}"), SOON, async || {
            let response = http::ask(edge.address, "shop").await?;
            let header = response.headers().get("x-mark");
            Ok(header.is_some_and(|value| value == mark).then_some(()))
        })
        .await
    };
    marked("one").await?;
    let updates = edge.listener_updates().await?;
    edge.folder.write("extension.yaml", &[extension("two")])?;
    marked("two").await?;
    edge.kept_its_listener(updates).await
}

/// Given routes whose virtual hosts come by VHDS, on demand,
/// when a host is requested that Envoy does not know yet,
/// then Envoy requests it from the control plane, and the first request is answered; a host that does not exist gets a
/// 404; and an edit of the host is followed.
async fn gets_routes_on_demand(cx: Context) -> Fallible {
    let on_demand = r#"{ name: envoy.filters.http.on_demand, typed_config: { "@type": type.googleapis.com/envoy.extensions.filters.http.on_demand.v3.OnDemand } }, "#;
    let routes = format!(
        "\"@type\": type.googleapis.com/envoy.config.route.v3.RouteConfiguration\nname: {ROUTES}\nvhds: {{ config_source: {VHDS} }}\n"
    );
    let host = |status: u16| {
        format!(
            r#""@type": type.googleapis.com/envoy.config.route.v3.VirtualHost
name: {ROUTES}/late.example
domains: [late.example]
routes:
- match: {{ prefix: / }}
  direct_response: {{ status: {status} }}
"#
        )
    };
    let edge = Edge::start(
        &cx,
        listener(on_demand, ""),
        routes,
        ("host.yaml", host(201)),
    )
    .await?;
    let answer = async |host: &str| Ok(http::ask(edge.address, host).await?.status().as_u16());
    let first: Fallible<u16> = answer("late.example").await;
    match first? {
        201 => {}
        other => return Err(format!("the first request is answered {other}").into()),
    }
    let unknown: Fallible<u16> = answer("gone.example").await;
    match unknown? {
        404 => {}
        other => return Err(format!("gone.example answers {other}").into()),
    }
    edge.folder.write("host.yaml", &[host(202)])?;
    until("late.example answers 202", SOON, async || {
        match answer("late.example").await? {
            202 => Ok(Some(())),
            other => Err(format!("it answers {other}").into()),
        }
    })
    .await
}
