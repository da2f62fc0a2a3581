//! The client, configured by `oxds-server`, with servers of this suite.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use oxds_interop_xds::messages::{
    ClientConfigureRequest, ClientConfigureResponse, ConfiguredMetadata,
    LoadBalancerAccumulatedStatsRequest, LoadBalancerAccumulatedStatsResponse,
    LoadBalancerStatsRequest, LoadBalancerStatsResponse, MetadataType, RpcType, path,
};
use oxds_interop_xds::wire::Connection;
use oxds_server::{DirStore, LoadReports, Server, dir};
use tempfile::TempDir;
use tokio::process::Command;
use tonic::Code;

use crate::support::{CLIENT, Program, SOON, call, run, server};

/// Routes `xds:///svc` to one endpoint.
fn resources(endpoint: SocketAddr) -> String {
    let (ip, port) = (endpoint.ip(), endpoint.port());
    format!(
        r#"
- "@type": type.googleapis.com/envoy.config.listener.v3.Listener
  name: svc
  api_listener:
    api_listener:
      "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
      stat_prefix: svc
      rds: {{ route_config_name: routes, config_source: {{ ads: {{}} }} }}
      http_filters:
      - name: router
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router
- "@type": type.googleapis.com/envoy.config.route.v3.RouteConfiguration
  name: routes
  virtual_hosts:
  - {{ name: all, domains: ["*"], routes: [ {{ match: {{ prefix: "" }}, route: {{ cluster: c }} }} ] }}
- "@type": type.googleapis.com/envoy.config.cluster.v3.Cluster
  name: c
  type: EDS
  eds_cluster_config: {{ eds_config: {{ ads: {{}} }} }}
  lrs_server: {{ self: {{}} }}
- "@type": type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment
  cluster_name: c
  endpoints:
  - locality: {{ zone: z }}
    load_balancing_weight: 1
    lb_endpoints:
    - endpoint: {{ address: {{ socket_address: {{ address: {ip}, port_value: {port} }} }} }}
"#
    )
}

/// A control plane, a server and a client.
struct Mesh {
    client: Program,
    stats: Connection,
    loads: LoadReports,
    _server: Program,
    _folder: TempDir,
}

impl Mesh {
    async fn start(arguments: &[&str]) -> Self {
        let (server, endpoint) = server(&["--host_name_override=h"]).await;
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("all.yaml"), resources(endpoint)).unwrap();
        let store = DirStore::open(folder.path(), dir::Options::default()).unwrap();
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        // No report is due before the test has ended, except the last.
        let loads = LoadReports::every(Duration::from_secs(3_600));
        let control_plane = Server::builder()
            .grpc(any)
            .store(store)
            .load_reports(loads.clone())
            .bind()
            .await
            .unwrap();
        let uri = control_plane.grpc_addr();
        tokio::spawn(control_plane.run(std::future::pending()));

        let mut command = Command::new(CLIENT);
        command
            .args(["--server=xds:///svc", "--stats_port=0"])
            .args(arguments);
        let bootstrap = format!(
            r#"{{"xds_servers":[{{"server_uri":"{uri}","channel_creds":[{{"type":"insecure"}}],"server_features":["xds_v3"]}}],"node":{{"id":"n"}}}}"#
        );
        command.env("GRPC_XDS_BOOTSTRAP_CONFIG", bootstrap);
        command.env_remove("GRPC_XDS_BOOTSTRAP");
        let mut client = Program::start(command);
        let stats = Connection::open(client.address("stats ").await)
            .await
            .unwrap();
        Self {
            client,
            stats,
            loads,
            _server: server,
            _folder: folder,
        }
    }

    async fn next(&self, num_rpcs: i32, keys: &[&str]) -> LoadBalancerStatsResponse {
        let request = LoadBalancerStatsRequest {
            num_rpcs,
            timeout_sec: 15,
            metadata_keys: keys.iter().map(ToString::to_string).collect(),
        };
        let answer = call(&self.stats, path::CLIENT_STATS, request, &[]).await;
        answer.unwrap().into_inner()
    }

    async fn total(&self) -> LoadBalancerAccumulatedStatsResponse {
        let request = LoadBalancerAccumulatedStatsRequest {};
        let answer = call(&self.stats, path::ACCUMULATED_STATS, request, &[]).await;
        answer.unwrap().into_inner()
    }

    async fn configure(&self, request: ClientConfigureRequest) -> Result<(), Code> {
        let answer =
            call::<_, ClientConfigureResponse>(&self.stats, path::CONFIGURE, request, &[]).await;
        answer.map(|_| ()).map_err(|status| status.code())
    }
}

/// `UnaryCall`s with `rpc-behavior`.
fn unary_as(behaviour: &str, timeout_sec: i32) -> ClientConfigureRequest {
    ClientConfigureRequest {
        types: vec![RpcType::UnaryCall.into()],
        metadata: vec![ConfiguredMetadata {
            kind: RpcType::UnaryCall.into(),
            key: "rpc-behavior".to_owned(),
            value: behaviour.to_owned(),
        }],
        timeout_sec,
    }
}

/// Given both methods, then the stats count them by host and method, and show the requested metadata.
#[tokio::test]
async fn stats_are_by_host_and_method() {
    let mesh = Mesh::start(&["--qps=100", "--rpc=UnaryCall,EmptyCall"]).await;
    let seen = mesh.next(40, &["HOSTNAME"]).await;
    assert_eq!(seen.rpcs_by_peer, BTreeMap::from([("h".to_owned(), 40)]));
    assert_eq!(seen.num_failures, 0);
    for method in ["UnaryCall", "EmptyCall"] {
        assert_eq!(
            seen.rpcs_by_method[method].rpcs_by_peer["h"], 20,
            "{method}"
        );
    }
    let metadata = &seen.metadatas_by_peer["h"].rpc_metadata;
    assert_eq!(metadata.len(), 40);
    for call in metadata {
        let [entry] = &call.metadata[..] else {
            panic!("{call:?}");
        };
        assert_eq!((&*entry.key, &*entry.value), ("hostname", "h"));
        assert_eq!(entry.kind(), MetadataType::Initial);
    }
}

/// When `Configure` changes method, metadata and deadline, then the calls after it follow, and the totals count them by
/// method and status.
#[tokio::test]
async fn configure_takes_effect_at_once() {
    let mesh = Mesh::start(&["--qps=50", "--rpc=EmptyCall"]).await;
    mesh.next(5, &[]).await;
    mesh.configure(unary_as("error-code-8", 0)).await.unwrap();
    let seen = mesh.next(10, &[]).await;
    assert_eq!((seen.num_failures, seen.rpcs_by_peer.len()), (10, 0));

    mesh.configure(unary_as("keep-open", 1)).await.unwrap();
    assert_eq!(mesh.next(3, &[]).await.num_failures, 3);
    mesh.configure(ClientConfigureRequest::default())
        .await
        .unwrap();
    let begun = mesh.total().await.num_rpcs_started_by_method.clone();
    let results = |stats: &LoadBalancerAccumulatedStatsResponse, kind: &str| {
        stats.stats_per_method[kind].result.clone()
    };
    let all_ended = tokio::time::timeout(SOON, async {
        loop {
            let total = mesh.total().await;
            let ended = |kind: &str| results(&total, kind).values().sum::<i32>();
            if begun.iter().all(|(kind, n)| ended(kind) == *n) {
                return total;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    let total = all_ended.await.expect("every call ends");
    assert_eq!(
        total.num_rpcs_started_by_method, begun,
        "no call is planned"
    );
    let unary = results(&total, "UNARY_CALL");
    let codes: Vec<_> = unary.keys().copied().collect();
    assert_eq!(
        codes,
        [
            Code::DeadlineExceeded as i32,
            Code::ResourceExhausted as i32
        ]
    );
    assert_eq!(
        results(&total, "EMPTY_CALL")
            .keys()
            .copied()
            .collect::<Vec<_>>(),
        [0]
    );

    let unknown = ClientConfigureRequest {
        types: vec![9],
        ..ClientConfigureRequest::default()
    };
    assert_eq!(mesh.configure(unknown).await, Err(Code::InvalidArgument));
}

/// Given `--fail_on_failed_rpc`, when a call fails after others have succeeded, then the client ends with 1.
#[tokio::test]
async fn failed_call_ends_the_client_if_requested() {
    let mesh = Mesh::start(&["--qps=50", "--fail_on_failed_rpc=true"]).await;
    mesh.next(5, &[]).await;
    mesh.configure(unary_as("error-code-14", 0)).await.unwrap();
    assert_eq!(mesh.client.end().await.code(), Some(1));
}

/// Given unreported calls, when the client is interrupted, then it sends a load report before it ends.
#[tokio::test]
async fn last_load_report_is_sent_on_interrupt() {
    let mesh = Mesh::start(&["--qps=50"]).await;
    mesh.next(5, &[]).await;
    mesh.client.interrupt().await;
    assert_eq!(mesh.client.end().await.code(), Some(0));
    let loads = mesh.loads.loads();
    let places = loads.iter().flat_map(|load| &load.localities);
    let reported: u64 = places.map(|place| place.requests.succeeded).sum();
    assert!(reported >= 5, "{loads:?}");
}

/// Given an expected status, then it counts as success, and another status does not.
#[tokio::test]
async fn an_expected_status_is_a_success() {
    let arguments = [
        "--qps=50",
        "--fail_on_failed_rpc=true",
        "--expect_status=UNAVAILABLE",
        "--metadata=UnaryCall:rpc-behavior:error-code-14",
    ];
    let mesh = Mesh::start(&arguments).await;
    assert_eq!(mesh.next(10, &[]).await.num_failures, 10);
    mesh.configure(unary_as("error-code-8", 0)).await.unwrap();
    assert_eq!(mesh.client.end().await.code(), Some(1));
}

#[tokio::test]
async fn answers_are_printed_as_drivers_look_for_them() {
    let mut mesh = Mesh::start(&["--qps=20", "--print_response=True"]).await;
    let line = mesh
        .client
        .line("Greeting: Hello world, this is h, from ")
        .await;
    line.parse::<SocketAddr>().unwrap();
}

#[tokio::test]
async fn unsupported_flags_are_refused_at_the_start() {
    for (flags, words) in [
        (
            &["--enable_csm_observability"][..],
            "--enable_csm_observability is not supported",
        ),
        (
            &["--rpc=Unary"][..],
            "\"Unary\": there are EmptyCall and UnaryCall",
        ),
        (&["--qps=0"][..], "--qps"),
        (&[][..], "GRPC_XDS_BOOTSTRAP"),
    ] {
        let mut arguments = vec!["--server=xds:///svc", "--stats_port=0"];
        arguments.extend(flags);
        let output = run(CLIENT, &arguments).await;
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(words), "{said}");
    }
}
