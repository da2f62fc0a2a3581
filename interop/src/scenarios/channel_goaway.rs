//! Our channel beside gRPC's C-core, behind an Envoy that ends its connections.

use super::{SOON, Scenario};
use crate::backend::Backend;
use crate::config::{Folder, api_listener, assignment, cluster, routes};
use crate::peers::channel::ChannelLoad;
use crate::peers::envoy::Envoy;
use crate::peers::grpc::Grpc;
use crate::peers::oxds::{Bootstrap, Oxds, bootstrap};
use crate::{Context, Fallible};

/// Requests after which Envoy sends GOAWAY on a connection.
const PER_CONNECTION: usize = 100;
/// Calls that must succeed: thirty connections of each client.
const CALLS: usize = 30 * PER_CONNECTION;

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![Scenario::new(
        "d1_channel_and_grpc_core_outlive_envoys_goaways".to_owned(),
        outlive_goaways,
    )]
}

/// Given an Envoy that sends GOAWAY after every 100 requests of a connection,
/// when our channel and C-core call through it,
/// then no call fails, and the channel is not slower than half of C-core: it never waits for a backoff.
async fn outlive_goaways(cx: Context) -> Fallible {
    let backend = Backend::start("behind").await?;
    let file = cx.dir.join("edge.yaml");
    std::fs::write(&file, edge(&backend))?;
    let mut envoy = Envoy::start(&cx, &file).await?;
    let address = envoy.listener("edge").await?;

    let folder = Folder::create(&cx.dir)?;
    folder.write("listener.yaml", &[api_listener()])?;
    let mesh = [
        routes(&[("edge", 1)]),
        cluster("edge"),
        assignment("edge", &[&[address]]),
    ];
    folder.write("mesh.yaml", &mesh)?;
    let oxds = Oxds::serve(&cx, &folder).await?;
    let file = bootstrap(&cx, Bootstrap::Grpc, oxds.grpc).await?;
    let core = Grpc::Core.call(&cx, &file)?;
    let ours = ChannelLoad::start(&file)?;
    core.calls.next(PER_CONNECTION, SOON).await?;
    ours.calls.next(PER_CONNECTION, SOON).await?;

    let (core_before, ours_before) = (core.calls.mark(), ours.calls.mark());
    core.calls.next(CALLS, SOON).await?;
    let (core_calls, ours_calls) = (
        core.calls.mark() - core_before,
        ours.calls.mark() - ours_before,
    );
    ours.calls.none_failed()?;
    core.calls.none_failed()?;
    if ours_calls < core_calls / 2 {
        let calls = format!("{ours_calls} calls of the channel, {core_calls} of C-core");
        return Err(calls.into());
    }
    let connections = envoy.stat("http.edge.downstream_cx_http2_total").await?;
    let wanted = u64::try_from((core_calls + ours_calls) / PER_CONNECTION / 2)?;
    if connections < wanted {
        return Err(format!("{connections} connections: Envoy did not end them").into());
    }
    Ok(())
}

/// Envoy's configuration: one listener before one backend.
fn edge(backend: &Backend) -> String {
    let (ip, port) = (backend.address.ip(), backend.address.port());
    format!(
        r#"static_resources:
  listeners:
  - name: edge
    address: {{ socket_address: {{ address: 127.0.0.1, port_value: 0 }} }}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: edge
          common_http_protocol_options: {{ max_requests_per_connection: {PER_CONNECTION} }}
          route_config:
            virtual_hosts:
            - {{ name: all, domains: ["*"], routes: [{{ match: {{ prefix: "" }}, route: {{ cluster: backend }} }}] }}
          http_filters:
          - name: envoy.filters.http.router
            typed_config: {{ "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router }}
  clusters:
  - name: backend
    type: STATIC
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {{ http2_protocol_options: {{}} }}
    load_assignment:
      cluster_name: backend
      endpoints:
      - lb_endpoints:
        - endpoint: {{ address: {{ socket_address: {{ address: {ip}, port_value: {port} }} }} }}
"#
    )
}
