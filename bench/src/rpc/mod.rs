//! R-1, R-2 and R-9 to R-12: cost of an RPC over four backends: small unary calls, 4 MiB messages, also 20 ms away,
//! 1,000 streams, and 16 threads.
//!
//! Every variant drives the same `tonic::client::Grpc` with the same codec and the same backends, in a process of its
//! own, so that only the channel below it differs: oxds, tonic-xds, tonic's `Channel::balance_list`, and bare round
//! robins over connections of hyper and of the `h2` crate; the latter is the floor. Variants take turns within a round,
//! and the table compares medians over rounds.

pub(crate) mod bare_h2;
pub(crate) mod bytes_codec;
pub(crate) mod callee;
pub(crate) mod client;
mod far;
pub(crate) mod variant;

use crate::plan::{Plan, Size};
use crate::report::{Row, Table, Target, median};
use crate::roles::{Part, Role, Traffic, Variant};
use client::Measured;

/// Backends behind the service.
const BACKENDS: usize = 4;

pub(crate) fn run(plan: &Plan, size: Size, table: &mut Table) -> Result<(), String> {
    let backends = (0..BACKENDS)
        .map(|_| Part::start(&Role::Backend))
        .collect::<Result<Vec<_>, _>>()?;
    let addresses: Vec<String> = backends
        .iter()
        .map(|part| part.hello().to_owned())
        .collect();
    let (rounds, length) = (size.rounds, size.length);
    for scenario in SCENARIOS.iter().filter(|one| plan.wants(one.id)) {
        let backends = if scenario.far {
            let linked = addresses.iter().map(|one| far::link(one));
            linked.collect::<Result<_, _>>()?
        } else {
            addresses.clone()
        };
        let folder =
            service_folder(&backends, "").map_err(|error| format!("service folder: {error}"))?;
        let control = Part::start(&Role::ControlPlane {
            folder: folder.path().to_owned(),
        })?;
        let measure = |variant, threads| {
            Part::start(&Role::Client {
                variant,
                traffic: scenario.traffic,
                threads,
                millis: length.as_millis() as u64,
                control_plane: control.hello().to_owned(),
                backends: backends.clone(),
                keys: None,
            })?
            .finish::<Measured>()
        };
        match scenario.threads {
            1 => compare(scenario, rounds, &|variant| measure(variant, 1), table)?,
            threads => scale(scenario, rounds, &measure, threads, table)?,
        }
    }
    Ok(())
}

/// One type of traffic, with its figures in the table.
struct Scenario {
    id: &'static str,
    traffic: Traffic,
    /// Whether the backends are 20 ms away.
    far: bool,
    /// Threads of the client. With more than one, it is compared with itself on one thread.
    threads: usize,
    rows: &'static [Figure],
}

/// A figure with its targets, by peer.
struct Figure {
    what: &'static str,
    of: fn(&Measured) -> f64,
    targets: &'static [(Variant, f64)],
}

fn cpu(measured: &Measured) -> f64 {
    measured.cpu_micros_per_rpc
}

fn wall(measured: &Measured) -> f64 {
    1e6 / measured.rpcs_per_second
}

fn p50(measured: &Measured) -> f64 {
    measured.p50_micros
}

/// The targets: cheaper than hyper, and near the floor.
const SCENARIOS: &[Scenario] = &[
    Scenario {
        id: "R-1",
        traffic: Traffic::Unary {
            in_flight: 32,
            bytes: 100,
        },
        far: false,
        threads: 1,
        rows: &[
            Figure {
                what: "CPU per RPC, 32 in flight (us)",
                of: cpu,
                targets: &[
                    (Variant::Hyper, 0.75),
                    (Variant::TonicXds, 0.5),
                    (Variant::H2, 1.15),
                ],
            },
            Figure {
                what: "wall time per RPC, 32 in flight (us)",
                of: wall,
                targets: &[],
            },
        ],
    },
    Scenario {
        id: "R-2",
        traffic: Traffic::Unary {
            in_flight: 1,
            bytes: 100,
        },
        far: false,
        threads: 1,
        rows: &[Figure {
            what: "median latency, 1 in flight (us)",
            of: p50,
            targets: &[
                (Variant::Hyper, 0.95),
                (Variant::TonicXds, 1.0),
                (Variant::H2, 1.15),
            ],
        }],
    },
    Scenario {
        id: "R-9",
        traffic: Traffic::Unary {
            in_flight: 1,
            bytes: 4 << 20,
        },
        far: false,
        threads: 1,
        rows: &[
            Figure {
                what: "wall time per echoed 4 MiB message (us)",
                of: wall,
                targets: &[(Variant::Hyper, 1.0)],
            },
            Figure {
                what: "CPU per echoed 4 MiB message (us)",
                of: cpu,
                targets: &[],
            },
        ],
    },
    Scenario {
        id: "R-10",
        traffic: Traffic::Streams {
            streams: 1000,
            bytes: 1 << 10,
        },
        far: false,
        threads: 1,
        rows: &[
            Figure {
                what: "wall time per message, 1,000 streams (us)",
                of: wall,
                targets: &[(Variant::Hyper, 1.0)],
            },
            Figure {
                what: "CPU per message, 1,000 streams (us)",
                of: cpu,
                targets: &[],
            },
        ],
    },
    Scenario {
        id: "R-11",
        traffic: Traffic::Unary {
            in_flight: 1,
            bytes: 4 << 20,
        },
        far: true,
        threads: 1,
        rows: &[Figure {
            what: "median time of a 4 MiB echo, 20 ms away (us)",
            of: p50,
            targets: &[(Variant::Hyper, 1.0)],
        }],
    },
    Scenario {
        id: "R-12",
        traffic: Traffic::Unary {
            in_flight: 32,
            bytes: 100,
        },
        far: false,
        threads: 16,
        rows: &[Figure {
            what: "CPU per RPC, 32 in flight, 16 threads (us)",
            of: cpu,
            targets: &[(Variant::Oxds, 1.3)],
        }],
    },
];

fn compare(
    scenario: &Scenario,
    rounds: usize,
    measure: &dyn Fn(Variant) -> Result<Measured, String>,
    table: &mut Table,
) -> Result<(), String> {
    let mut results: Vec<Vec<Measured>> = vec![Vec::new(); Variant::ALL.len()];
    for _ in 0..rounds {
        for (variant, measured) in Variant::ALL.iter().zip(&mut results) {
            measured.push(measure(*variant)?);
        }
    }
    for figure in scenario.rows {
        let medians: Vec<_> = results
            .iter()
            .map(|runs| median(runs.iter().map(figure.of).collect()))
            .collect();
        for (peer, value) in Variant::ALL.iter().zip(&medians).skip(1) {
            let target = figure.targets.iter().find(|(of, _)| of == peer);
            table.row(&Row {
                id: scenario.id,
                what: figure.what,
                ours: medians[0],
                peer: (peer.name(), *value),
                target: target.map_or(Target::None, |(_, most)| Target::AtMost(*most)),
            });
        }
    }
    Ok(())
}

/// Compares many threads, which share all processors, with one: of oxds, and of bare hyper and h2, which have the same
/// runtime and the same contention for it.
fn scale(
    scenario: &Scenario,
    rounds: usize,
    measure: &dyn Fn(Variant, usize) -> Result<Measured, String>,
    threads: usize,
    table: &mut Table,
) -> Result<(), String> {
    let forms = [Variant::Oxds, Variant::Hyper, Variant::H2]
        .map(|variant| [(variant, threads), (variant, 1)]);
    let forms = forms.as_flattened();
    let mut results: Vec<Vec<Measured>> = vec![Vec::new(); forms.len()];
    for _ in 0..rounds {
        for ((variant, threads), measured) in forms.iter().zip(&mut results) {
            measured.push(measure(*variant, *threads)?);
        }
    }
    for figure in scenario.rows {
        let medians: Vec<_> = results
            .iter()
            .map(|runs| median(runs.iter().map(figure.of).collect()))
            .collect();
        for (variant, pair) in forms.chunks(2).zip(medians.chunks(2)) {
            let (variant, _) = variant[0];
            let target = figure.targets.iter().find(|(of, _)| *of == variant);
            table.row(&Row {
                id: scenario.id,
                what: &format!("{}, {}", figure.what, variant.name()),
                ours: pair[0],
                peer: ("itself, 1 thread", pair[1]),
                target: target.map_or(Target::None, |(_, most)| Target::AtMost(*most)),
            });
        }
    }
    Ok(())
}

/// The service as a folder of YAML: one listener, one cluster with these further fields, every backend in one locality.
pub(crate) fn service_folder(
    backends: &[String],
    cluster: &str,
) -> std::io::Result<tempfile::TempDir> {
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
        format!("{SERVICE}{cluster}{ASSIGNMENT}{endpoints}"),
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
"#;

const ASSIGNMENT: &str = r#"---
"@type": type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment
cluster_name: bench
endpoints:
- locality: { region: here }
  load_balancing_weight: 1
  lb_endpoints:
"#;
