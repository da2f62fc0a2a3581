//! The load-balancing cases of grpc/psm-interop, and those of its cases that edit the configuration. Limits are lower
//! than in the suite, so that they are reached sooner; the health of endpoints is in their assignment, since `oxds
//! serve` checks none.
//!
//! | suite | here |
//! |---|---|
//! | `affinity_test`, and the url-map cases of that name | `affinity` |
//! | `circuit_breaking_test` | `circuit_breaking`; grpc-go's servers ignore `rpc-behavior` in `EmptyCall`, so with them only `UnaryCall` |
//! | `outlier_detection_test` | `outlier_detection` |
//! | `remove_neg_test`, `failover_test` | `remove_neg`, `failover` |
//! | `api_listener_test` | `api_listener` |
//! | `subsetting_test` | `subsetting` by the policy of gRFC A68, since `oxds serve` makes no subsets; our client only, grpc-go 1.64 lacks the policy |
//! | `round_robin_test`, `change_backend_service_test` | `round_robin` and `change_backend_service` of the older suite |
//! | `custom_lb_test` | `custom_lb` |
//! | `authz_test`, `security_test`, `spiffe_…`, `app_net_…`, `cloud_run_…` | left out: they need servers or credentials by xDS, or a cloud |
//! | `gamma/affinity…` | left out: its control plane is Kubernetes; `scenarios/sessions.rs` compares the cookies with C-core's (gRFC A55, A60) |
//! | `dualstack_test` | left out: it needs IPv6 between the processes |

use std::collections::BTreeSet;

use oxds_interop_xds::messages::LoadBalancerStatsResponse;
use oxds_interop_xds::messages::RpcType::{self, EmptyCall, UnaryCall};

use super::super::{SOON, scenario::Ending};
use super::mesh::{BOTH, Mesh, Roles, servers};
use crate::config::{
    ROUTES, api_listener, assignment, assignment_of, cluster, cluster_with, endpoint, route_config,
    route_config_of, routes,
};
use crate::peers::admin::Reader;
use crate::peers::suite::{Suite, SuiteServer};
use crate::wait::until;
use crate::{Context, Fallible};

/// Calls that must all reach the same backend.
const CALLS: i32 = 100;
/// Header that is hashed.
const KEY: &str = "xds_md";
/// Readings in a row that show a steady state, and the calls that start between two of them.
const STEADY: usize = 3;
const BETWEEN: i32 = 10;

pub(super) fn add(add: &mut impl FnMut(&str, fn(Context, Roles) -> Ending), client: Suite) {
    add("affinity", |cx, roles| Box::pin(affinity(cx, roles)));
    add("circuit_breaking", |cx, roles| {
        Box::pin(circuit_breaking(cx, roles))
    });
    add("outlier_detection", |cx, roles| {
        Box::pin(outlier_detection(cx, roles))
    });
    add("remove_neg", |cx, roles| Box::pin(remove_neg(cx, roles)));
    add("failover", |cx, roles| Box::pin(failover(cx, roles)));
    add("api_listener", |cx, roles| {
        Box::pin(api_listener_handoff(cx, roles))
    });
    add("custom_lb", |cx, roles| Box::pin(custom_lb(cx, roles)));
    if client == Suite::Oxds {
        add("subsetting", |cx, roles| Box::pin(subsetting(cx, roles)));
    }
}

/// Given three backends in a ring, and calls with one key, when other keys are tried, then no key, and the backend of
/// the first key leaves, then one key has one backend, and only that one is connected; another key has another backend;
/// calls without a key reach all; and the first key moves (A42).
async fn affinity(cx: Context, roles: Roles) -> Fallible {
    let backends = servers(&cx, roles, ["a", "b", "c"]).await?;
    let resources = |unhealthy: Option<&str>| {
        let endpoints = backends.iter().zip(["a", "b", "c"]);
        let endpoints = endpoints.map(|(server, host)| {
            if unhealthy == Some(host) {
                endpoint(server.address, "health_status: UNHEALTHY")
            } else {
                endpoint(server.address, "")
            }
        });
        [
            route_config(&[format!(
                "match: {{ prefix: '' }}, route: {{ cluster: ring, hash_policy: [{{ header: {{ header_name: {KEY} }} }}] }}"
            )]),
            cluster_with("ring", "lb_policy: RING_HASH"),
            assignment_of("ring", &[(0, endpoints.collect())]),
        ]
    };
    let metadata = format!("--metadata=EmptyCall:{KEY}:123");
    let flags = ["--qps=100", "--rpc=EmptyCall", &metadata];
    let mut mesh = Mesh::start(&cx, roles, &resources(None), &flags).await?;
    let client = &mut mesh.client;
    let one =
        |seen: &LoadBalancerStatsResponse| seen.num_failures == 0 && seen.rpcs_by_peer.len() == 1;
    let seen = client.settle("one backend", CALLS, SOON, one).await?;
    let first = host_of(&seen, EmptyCall)?;
    let address = client.address;
    expect_ready(&cx, roles, address, 1).await?;

    let mut others = Vec::new();
    for key in 0..30 {
        let key = key.to_string();
        let metadata = [(EmptyCall, KEY, "123"), (UnaryCall, KEY, &*key)];
        client.configure(&BOTH, &metadata, 0).await?;
        // A key that needs a connection: the first calls wait for it.
        let both = |seen: &LoadBalancerStatsResponse| {
            seen.num_failures == 0 && BOTH.iter().all(|method| host_of(seen, *method).is_ok())
        };
        let seen = client.settle("both methods", 20, SOON, both).await?;
        if host_of(&seen, EmptyCall)? != first {
            return Err(format!("the first key has moved: {seen:?}").into());
        }
        others.push(host_of(&seen, UnaryCall)?);
        if others.last() != Some(&first) {
            break;
        }
    }
    if others.last() == Some(&first) {
        return Err(format!("all keys are at {first}").into());
    }
    expect_ready(&cx, roles, address, 2).await?;

    client.configure(&BOTH, &[], 0).await?;
    mesh.served_by(&["a", "b", "c"]).await?;
    expect_ready(&cx, roles, address, 3).await?;

    mesh.client
        .configure(&[EmptyCall], &[(EmptyCall, KEY, "123")], 0)
        .await?;
    mesh.served_by(&[&first]).await?;
    mesh.edit(&resources(Some(&first))).await?;
    let moved = |seen: &LoadBalancerStatsResponse| {
        seen.num_failures == 0 && host_of(seen, EmptyCall).is_ok_and(|host| host != first)
    };
    mesh.client
        .settle("another backend", CALLS, SOON, moved)
        .await?;
    mesh.client.at_most_failed(0).await
}

/// The only host that has answered a method.
fn host_of(seen: &LoadBalancerStatsResponse, method: RpcType) -> Fallible<String> {
    let of = seen.rpcs_by_method.get(method.method());
    let mut hosts = of.into_iter().flat_map(|of| of.rpcs_by_peer.keys());
    match (hosts.next(), hosts.next()) {
        (Some(host), None) => Ok(host.clone()),
        _ => Err(format!("{} has not one host: {seen:?}", method.method()).into()),
    }
}

/// Waits until our client shows by channelz that this many backends are connected. The client of grpc-go has no health
/// service, which the reader needs.
async fn expect_ready(
    cx: &Context,
    roles: Roles,
    client: std::net::SocketAddr,
    connected: usize,
) -> Fallible {
    if roles.client != Suite::Oxds {
        return Ok(());
    }
    until(
        &format!("{connected} connected backends"),
        SOON,
        async || {
            let things = Reader::Go.read(cx, client).await?;
            let of_target = things.iter().filter(|thing| {
                thing.what == "subchannel" && thing.of.starts_with("xds:") && thing.state == "READY"
            });
            match of_target.count() {
                found if found == connected => Ok(Some(())),
                _ => Err(format!("{things:?}").into()),
            }
        },
    )
    .await
}

/// Given calls of two methods to a cluster each, with limits of 50 and 100 requests,
/// when the calls never end, and the first limit rises to 80,
/// then exactly as many are in progress as the limits allow (A32).
async fn circuit_breaking(cx: Context, roles: Roles) -> Fallible {
    let [a, b] = servers(&cx, roles, ["a", "b"]).await?;
    let resources = |limit: u32| {
        let limited = |name: &str, limit: u32| {
            cluster_with(
                name,
                &format!("circuit_breakers: {{ thresholds: [{{ max_requests: {limit} }}] }}"),
            )
        };
        [
            route_config(&[
                "match: { path: /grpc.testing.TestService/UnaryCall }, route: { cluster: unary }"
                    .to_owned(),
                "match: { path: /grpc.testing.TestService/EmptyCall }, route: { cluster: empty }"
                    .to_owned(),
            ]),
            limited("unary", limit),
            limited("empty", 100),
            assignment("unary", &[&[a.address]]),
            assignment("empty", &[&[b.address]]),
        ]
    };
    let methods: &[RpcType] = match roles.server {
        Suite::Oxds => &BOTH,
        Suite::Go => &[UnaryCall],
    };
    let flags = ["--qps=100", "--rpc=EmptyCall,UnaryCall"];
    let mut mesh = Mesh::start(&cx, roles, &resources(50), &flags).await?;
    mesh.served_by(&["a", "b"]).await?;
    let open: Vec<_> = methods
        .iter()
        .map(|method| (*method, "rpc-behavior", "keep-open"))
        .collect();
    mesh.client.configure(methods, &open, 20).await?;
    in_progress(&mut mesh, UnaryCall, 50).await?;
    if methods.contains(&EmptyCall) {
        in_progress(&mut mesh, EmptyCall, 100).await?;
    }
    mesh.edit(&resources(80)).await?;
    in_progress(&mut mesh, UnaryCall, 80).await
}

/// Waits until this many calls of a method are in progress, and stay so while others start. A few more or less are
/// about to start, or to end.
async fn in_progress(mesh: &mut Mesh, method: RpcType, limit: i32) -> Fallible {
    let what = format!("{limit} calls of {} in progress", method.method());
    let (mut steady, mut last_started) = (0, 0);
    until(&what, SOON, async || {
        mesh.client.running()?;
        let total = mesh.client.total().await?;
        let stats = total.stats_per_method.get(method.name());
        let stats = stats.ok_or("no calls yet")?;
        let open = stats.rpcs_started - stats.result.values().sum::<i32>();
        if stats.rpcs_started - last_started < BETWEEN {
            return Err(format!("{open}").into());
        }
        last_started = stats.rpcs_started;
        steady = if (limit - 5..=limit + 5).contains(&open) {
            steady + 1
        } else {
            0
        };
        if steady >= STEADY {
            Ok(Some(()))
        } else {
            Err(format!("{open}").into())
        }
    })
    .await
}

/// Given five backends and outlier detection by success rate,
/// when one fails all calls, and succeeds again,
/// then it gets none for some time, and its share later (A50).
async fn outlier_detection(cx: Context, roles: Roles) -> Fallible {
    const DETECTION: &str = "outlier_detection: { interval: 1s, base_ejection_time: 2s, success_rate_request_volume: 10 }";
    let hosts = ["a", "b", "c", "d", "e"];
    let backends = servers(&cx, roles, hosts).await?;
    let resources = [
        // Without a retry policy, which would hide the failures.
        route_config(&["match: { prefix: '' }, route: { cluster: blue }".to_owned()]),
        cluster_with("blue", DETECTION),
        assignment("blue", &[&backends.each_ref().map(|server| server.address)]),
    ];
    let mut mesh = Mesh::start(&cx, roles, &resources, &["--qps=100"]).await?;
    mesh.served_by(&hosts).await?;
    let failing = [(UnaryCall, "rpc-behavior", "hostname=a error-code-2")];
    mesh.client.configure(&[UnaryCall], &failing, 0).await?;
    mesh.served_by(&hosts[1..]).await?;
    mesh.client.configure(&[UnaryCall], &[], 0).await?;
    mesh.served_by(&hosts).await
}

/// Given a cluster with two groups of endpoints,
/// when one of them is removed, and then the other in its place,
/// then the calls go to the group that is left, and none fails.
async fn remove_neg(cx: Context, roles: Roles) -> Fallible {
    let [a, b] = servers(&cx, roles, ["a", "b"]).await?;
    let resources = |groups: &[&SuiteServer]| {
        let localities: Vec<_> = groups
            .iter()
            .map(|server| (0, vec![endpoint(server.address, "")]))
            .collect();
        [
            routes(&[("blue", 1)]),
            cluster("blue"),
            assignment_of("blue", &localities),
        ]
    };
    let mut mesh = Mesh::start(&cx, roles, &resources(&[&a, &b]), &["--qps=100"]).await?;
    mesh.served_by(&["a", "b"]).await?;
    for (groups, hosts) in [
        (&[&a][..], &["a"][..]),
        (&[&a, &b], &["a", "b"]),
        (&[&b], &["b"]),
    ] {
        mesh.edit(&resources(groups)).await?;
        mesh.served_by(hosts).await?;
    }
    mesh.client.at_most_failed(0).await
}

/// Given three backends in the first priority and one in the second,
/// when the control plane marks them unhealthy one by one, shares the last one's traffic with the second priority, and
/// marks all healthy again, then the calls go to the healthy ones of the first priority that has some, and none fails.
async fn failover(cx: Context, roles: Roles) -> Fallible {
    let [a, b, c, d] = servers(&cx, roles, ["a", "b", "c", "d"]).await?;
    // The second priority moves into the first one for a gentle failover.
    let resources = |unhealthy: usize, second: u32| {
        let first = [&a, &b, &c].into_iter().enumerate();
        let first = first.map(|(index, server)| {
            if index < unhealthy {
                endpoint(server.address, "health_status: UNHEALTHY")
            } else {
                endpoint(server.address, "")
            }
        });
        let second = (second, vec![endpoint(d.address, "")]);
        [
            routes(&[("blue", 1)]),
            cluster("blue"),
            assignment_of("blue", &[(0, first.collect()), second]),
        ]
    };
    let mut mesh = Mesh::start(&cx, roles, &resources(0, 1), &["--qps=100"]).await?;
    mesh.served_by(&["a", "b", "c"]).await?;
    for (unhealthy, second, hosts) in [
        (1, 1, &["b", "c"][..]),
        (2, 0, &["c", "d"]),
        (3, 1, &["d"]),
        (0, 1, &["a", "b", "c"]),
    ] {
        mesh.edit(&resources(unhealthy, second)).await?;
        mesh.served_by(hosts).await?;
    }
    mesh.client.at_most_failed(0).await
}

/// Given a listener with one route configuration,
/// when it refers to another one, and the first is deleted,
/// then the calls follow the other one, and none fails.
async fn api_listener_handoff(cx: Context, roles: Roles) -> Fallible {
    const OTHER: &str = "other-routes";
    let [a, b] = servers(&cx, roles, ["a", "b"]).await?;
    let to = |name, cluster| {
        let route = format!("match: {{ prefix: '' }}, route: {{ cluster: {cluster} }}");
        route_config_of(name, &[route])
    };
    let clusters = [
        cluster("blue"),
        cluster("green"),
        assignment("blue", &[&[a.address]]),
        assignment("green", &[&[b.address]]),
    ];
    let first = [&clusters[..], &[to(ROUTES, "blue")]].concat();
    let both = [&first[..], &[to(OTHER, "green")]].concat();
    let other = [&clusters[..], &[to(OTHER, "green")]].concat();
    let mut mesh = Mesh::start(&cx, roles, &first, &["--qps=100"]).await?;
    mesh.served_by(&["a"]).await?;
    mesh.edit(&both).await?;
    let listener = api_listener().replace(ROUTES, OTHER);
    mesh.folder.write("listener.yaml", &[listener])?;
    mesh.served_by(&["b"]).await?;
    mesh.edit(&other).await?;
    mesh.client.next(CALLS).await?;
    mesh.served_by(&["b"]).await?;
    mesh.client.at_most_failed(roles.lost_in_a_move()).await
}

/// Given a cluster with a policy that no client knows, followed by a policy of the client's program, when the client
/// calls, then the second is in use: it adds a header to each call, by which the server fails them all with DATA_LOSS
/// (A52).
async fn custom_lb(cx: Context, roles: Roles) -> Fallible {
    const POLICY: &str = r#"load_balancing_policy:
  policies:
  - typed_extension_config:
      name: localities
      typed_config:
        "@type": type.googleapis.com/envoy.extensions.load_balancing_policies.wrr_locality.v3.WrrLocality
        endpoint_picking_policy:
          policies:
          - typed_extension_config:
              name: unknown
              typed_config:
                "@type": type.googleapis.com/xds.type.v3.TypedStruct
                type_url: type.googleapis.com/test.ThisLoadBalancerDoesNotExist
                value: { foo: bar }
          - typed_extension_config:
              name: known
              typed_config:
                "@type": type.googleapis.com/xds.type.v3.TypedStruct
                type_url: type.googleapis.com/test.RpcBehaviorLoadBalancer
                value: { rpcBehavior: error-code-15 }"#;
    const DATA_LOSS: i32 = 15;
    let [a] = servers(&cx, roles, ["a"]).await?;
    let resources = [
        routes(&[("blue", 1)]),
        cluster_with("blue", POLICY),
        assignment("blue", &[&[a.address]]),
    ];
    let mut mesh = Mesh::start(&cx, roles, &resources, &["--qps=100"]).await?;
    mesh.ended("calls fail with DATA_LOSS only", CALLS, |codes| {
        let of_unary = codes.get(&UnaryCall);
        codes.len() == 1 && of_unary.is_some_and(|codes| codes.keys().eq([&DATA_LOSS]))
    })
    .await
}

/// Given eight backends and subsets of four,
/// when three clients call,
/// then each reaches four of them, and not all clients the same four (A68).
async fn subsetting(cx: Context, roles: Roles) -> Fallible {
    const POLICY: &str = r#"load_balancing_policy:
  policies:
  - typed_extension_config:
      name: subset
      typed_config:
        "@type": type.googleapis.com/envoy.extensions.load_balancing_policies.random_subsetting.v3.RandomSubsetting
        subset_size: 4
        child_policy:
          policies:
          - typed_extension_config:
              name: inner
              typed_config:
                "@type": type.googleapis.com/envoy.extensions.load_balancing_policies.round_robin.v3.RoundRobin"#;
    let backends = servers(&cx, roles, ["a", "b", "c", "d", "e", "f", "g", "h"]).await?;
    let resources = [
        routes(&[("blue", 1)]),
        cluster_with("blue", POLICY),
        assignment("blue", &[&backends.each_ref().map(|server| server.address)]),
    ];
    let mut reached = BTreeSet::new();
    for number in 0..3 {
        let mut own = cx.clone();
        own.dir = cx.dir.join(format!("client-{number}"));
        std::fs::create_dir_all(&own.dir)?;
        let mut mesh = Mesh::start(&own, roles, &resources, &["--qps=100"]).await?;
        let four = |seen: &LoadBalancerStatsResponse| {
            seen.num_failures == 0 && seen.rpcs_by_peer.len() == 4
        };
        mesh.client
            .settle("four backends", CALLS, SOON, four)
            .await?;
        let seen = mesh.client.next(CALLS).await?;
        if !four(&seen) {
            return Err(format!("not the same four: {seen:?}").into());
        }
        reached.extend(seen.rpcs_by_peer.into_keys());
    }
    if reached.len() > 4 {
        Ok(())
    } else {
        Err(format!("all clients have {reached:?}").into())
    }
}
