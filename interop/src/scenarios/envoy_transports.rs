//! Envoy over everything but ADS: the services of single types (S-61), REST (S-56); and its load reports (S-66).

use std::net::SocketAddr;
use std::path::PathBuf;

use serde_json::Value;

use super::envoy::resources;
use super::{SOON, Scenario, only_at};
use crate::backend::Backend;
use crate::config::{Folder, LISTENER, socket_listener};
use crate::http::HttpLoad;
use crate::peers::envoy::Envoy;
use crate::peers::oxds::Oxds;
use crate::wait::until;
use crate::{Context, Fallible, http};

/// The config source of routes and endpoints in every folder here.
const ADS: &str = "{ ads: {}, resource_api_version: V3 }";

pub(super) fn scenarios() -> Vec<Scenario> {
    let follow = |transport: Transport| {
        let name = format!("envoy_{}_follows_an_edit", transport.name());
        Scenario::new(name, move |cx| follows_an_edit(cx, transport))
    };
    let reports = "envoy_reports_its_load".to_owned();
    let mut all = Vec::from(Transport::ALL.map(follow));
    all.push(Scenario::new(reports, reports_its_load));
    all
}

/// Transport by which Envoy requests each type.
#[derive(Clone, Copy, Debug)]
enum Transport {
    /// A SotW stream per type.
    Grpc,
    /// A delta stream per type.
    DeltaGrpc,
    /// A REST poll per type.
    Rest,
}

impl Transport {
    const ALL: [Self; 3] = [Self::Grpc, Self::DeltaGrpc, Self::Rest];

    fn name(self) -> &'static str {
        match self {
            Self::Grpc => "per_type_sotw",
            Self::DeltaGrpc => "per_type_delta",
            Self::Rest => "rest",
        }
    }

    /// The `ConfigSource` of this transport.
    fn source(self) -> String {
        let how = match self {
            Self::Grpc => "api_type: GRPC, grpc_services: [{ envoy_grpc: { cluster_name: xds } }]",
            Self::DeltaGrpc => {
                "api_type: DELTA_GRPC, grpc_services: [{ envoy_grpc: { cluster_name: xds } }]"
            }
            Self::Rest => "api_type: REST, cluster_names: [rest], refresh_delay: 0.2s",
        };
        format!(
            "{{ resource_api_version: V3, api_config_source: {{ transport_api_version: V3, {how} }} }}"
        )
    }
}

/// The bootstrap file for an Envoy that uses this transport, and reports its load.
fn bootstrap(cx: &Context, transport: Transport, oxds: &Oxds) -> Fallible<PathBuf> {
    let source = transport.source();
    let assignment = |name: &str, address: SocketAddr| {
        let (ip, port) = (address.ip(), address.port());
        let address = format!("{{ socket_address: {{ address: {ip}, port_value: {port} }} }}");
        let endpoint = format!("{{ endpoint: {{ address: {address} }} }}");
        format!("{{ cluster_name: {name}, endpoints: [{{ lb_endpoints: [{endpoint}] }}] }}")
    };
    let (grpc, rest) = (assignment("xds", oxds.grpc), assignment("rest", oxds.http));
    let file = format!(
        r#"node: {{ id: interop-1, cluster: interop }}
dynamic_resources:
  lds_config: {source}
  cds_config: {source}
cluster_manager:
  load_stats_config:
    api_type: GRPC
    transport_api_version: V3
    grpc_services: [{{ envoy_grpc: {{ cluster_name: xds }} }}]
static_resources:
  clusters:
  - name: xds
    connect_timeout: 1s
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {{ http2_protocol_options: {{}} }}
    load_assignment: {grpc}
  - name: rest
    connect_timeout: 1s
    load_assignment: {rest}
"#
    );
    let path = cx.dir.join("bootstrap.yaml");
    std::fs::write(&path, file)?;
    Ok(path)
}

/// The folder's files, with every `ads` in them replaced by the transport.
fn write(folder: &Folder, transport: Transport, file: &str, documents: &[String]) -> Fallible {
    let source = transport.source();
    let documents: Vec<_> = documents
        .iter()
        .map(|text| text.replace(ADS, &source))
        .collect();
    folder.write(file, &documents)
}

/// A control plane, and an Envoy under load that uses one transport.
struct Edge {
    folder: Folder,
    oxds: Oxds,
    load: HttpLoad,
    _envoy: Envoy,
}

impl Edge {
    async fn start(
        cx: &Context,
        transport: Transport,
        blue: &Backend,
        green: &Backend,
    ) -> Fallible<Self> {
        let folder = Folder::create(&cx.dir)?;
        write(&folder, transport, "listener.yaml", &[socket_listener()])?;
        let mesh = resources(&[("blue", 1)], blue, green);
        write(&folder, transport, "mesh.yaml", &mesh)?;
        let oxds = Oxds::serve(cx, &folder).await?;
        let mut envoy = Envoy::start(cx, &bootstrap(cx, transport, &oxds)?).await?;
        let load = HttpLoad::start(envoy.listener(LISTENER).await?, 3);
        Ok(Self {
            folder,
            oxds,
            load,
            _envoy: envoy,
        })
    }

    async fn served_by(&self, backend: &str) -> Fallible {
        only_at(&self.load.calls, "traffic", &[backend]).await
    }
}

/// Given an Envoy that requests each type separately, and load on blue,
/// when the route is edited to green,
/// then the traffic follows and no request fails.
async fn follows_an_edit(cx: Context, transport: Transport) -> Fallible {
    let (blue, green) = (
        Backend::start("blue").await?,
        Backend::start("green").await?,
    );
    let edge = Edge::start(&cx, transport, &blue, &green).await?;
    edge.served_by("blue").await?;
    let mesh = resources(&[("green", 1)], &blue, &green);
    write(&edge.folder, transport, "mesh.yaml", &mesh)?;
    edge.served_by("green").await?;
    edge.load.calls.none_failed()
}

/// Given an Envoy under load that reports it,
/// then the status page shows its requests to the cluster, and a rate.
async fn reports_its_load(cx: Context) -> Fallible {
    let (blue, green) = (
        Backend::start("blue").await?,
        Backend::start("green").await?,
    );
    let edge = Edge::start(&cx, Transport::DeltaGrpc, &blue, &green).await?;
    edge.served_by("blue").await?;
    until("Envoy's load in /status.json", SOON, async || {
        let page = http::get(edge.oxds.http, "/status.json").await?;
        let status: Value = serde_json::from_slice(&page)?;
        let loads = status["loads"].as_array().into_iter().flatten();
        let of_blue = |load: &&Value| load["node"] == "interop-1" && load["cluster"] == "blue";
        let Some(load) = loads.into_iter().find(of_blue) else {
            return Ok(None);
        };
        let locality = &load["localities"][0];
        let issued = locality["requests"]["issued"].as_u64().unwrap_or(0);
        let rate = locality["rate_60s"].as_f64().unwrap_or(0.0);
        if issued > 0 && rate > 0.0 && locality["locality"][0] == "here" {
            Ok(Some(()))
        } else {
            Err(load.to_string().into())
        }
    })
    .await
}
