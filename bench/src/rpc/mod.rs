//! R-1 and R-2: what one unary RPC costs, over four backends.
//!
//! Every variant drives the same `tonic::client::Grpc` with the same codec and the same backends, in a process of its
//! own, so that only the channel below it differs: oxds, tonic-xds, tonic's `Channel::balance_list`, and a bare round
//! robin over hyper connections, which is the floor. Variants take turns within a round, and the table compares medians
//! over rounds.

pub(crate) mod bytes_codec;
pub(crate) mod callee;
pub(crate) mod client;
pub(crate) mod variant;

use std::time::Duration;

pub(crate) use variant::Variant;

use crate::Plan;
use crate::report::{Row, Table, Target, median};
use crate::roles::{Part, Role};
use client::Measured;

/// Backends behind the service, as in the design.
const BACKENDS: usize = 4;

pub(crate) fn run(plan: &Plan, table: &mut Table) -> Result<(), String> {
    let backends = (0..BACKENDS)
        .map(|_| Part::start(&Role::Backend))
        .collect::<Result<Vec<_>, _>>()?;
    let addresses: Vec<String> = backends
        .iter()
        .map(|part| part.hello().to_owned())
        .collect();
    let folder = service_folder(&addresses).map_err(|error| format!("service folder: {error}"))?;
    let control = Part::start(&Role::ControlPlane {
        folder: folder.path().to_owned(),
    })?;
    let (rounds, length) = match plan.smoke {
        true => (1, Duration::from_millis(300)),
        false => (5, Duration::from_secs(3)),
    };
    let measure = |variant, in_flight| {
        Part::start(&Role::Client {
            variant,
            in_flight,
            millis: length.as_millis() as u64,
            control_plane: control.hello().to_owned(),
            backends: addresses.clone(),
        })?
        .finish::<Measured>()
    };
    for (id, in_flight) in [("R-1", 32), ("R-2", 1)] {
        if plan.wants(id) {
            compare(id, in_flight, rounds, &measure, table)?;
        }
    }
    Ok(())
}

fn compare(
    id: &str,
    in_flight: usize,
    rounds: usize,
    measure: &dyn Fn(Variant, usize) -> Result<Measured, String>,
    table: &mut Table,
) -> Result<(), String> {
    let mut results: Vec<Vec<Measured>> = vec![Vec::new(); Variant::ALL.len()];
    for _ in 0..rounds {
        for (variant, measured) in Variant::ALL.iter().zip(&mut results) {
            measured.push(measure(*variant, in_flight)?);
        }
    }
    let figures = |figure: fn(&Measured) -> f64| -> Vec<f64> {
        results
            .iter()
            .map(|runs| median(runs.iter().map(figure).collect()))
            .collect()
    };
    let cpu = figures(|m| m.cpu_micros_per_rpc);
    let rate = figures(|m| 1e6 / m.rpcs_per_second);
    let p50 = figures(|m| m.p50_micros);
    for (index, peer) in Variant::ALL.iter().enumerate().skip(1) {
        let mut row = |what: &str, figure: &[f64], target| {
            table.row(&Row {
                id,
                what,
                ours: figure[0],
                peer: (peer.name(), figure[index]),
                target,
            });
        };
        if id == "R-1" {
            let target = match peer {
                Variant::Hyper => Target::AtMost(1.05),
                Variant::TonicXds => Target::AtMost(0.5),
                _ => Target::None,
            };
            row("CPU per RPC, 32 in flight (us)", &cpu, target);
            row("wall time per RPC, 32 in flight (us)", &rate, Target::None);
        } else {
            row(
                "median latency, 1 in flight (us)",
                &p50,
                Target::AtMost(1.0),
            );
        }
    }
    Ok(())
}

/// The service as a folder of YAML: one listener, one cluster, every backend in one locality.
fn service_folder(backends: &[String]) -> std::io::Result<tempfile::TempDir> {
    let endpoints: String = backends
        .iter()
        .filter_map(|address| address.rsplit_once(':'))
        .map(|(host, port)| {
            format!(
                "  - endpoint: {{ address: {{ socket_address: {{ address: {host}, port_value: {port} }} }} }}\n"
            )
        })
        .collect();
    let folder = tempfile::tempdir()?;
    std::fs::write(
        folder.path().join("bench.yaml"),
        format!("{SERVICE}{endpoints}"),
    )?;
    Ok(folder)
}

const SERVICE: &str = r#""@type": type.googleapis.com/envoy.config.listener.v3.Listener
name: bench
api_listener:
  api_listener:
    "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
    stat_prefix: bench
    rds: { route_config_name: bench, config_source: { ads: {} } }
    http_filters:
    - name: router
      typed_config: { "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router }
---
"@type": type.googleapis.com/envoy.config.route.v3.RouteConfiguration
name: bench
virtual_hosts:
- name: bench
  domains: [ "*" ]
  routes:
  - match: { prefix: "" }
    route: { cluster: bench }
---
"@type": type.googleapis.com/envoy.config.cluster.v3.Cluster
name: bench
type: EDS
eds_cluster_config: { eds_config: { ads: {} } }
---
"@type": type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment
cluster_name: bench
endpoints:
- locality: { region: here }
  load_balancing_weight: 1
  lb_endpoints:
"#;
