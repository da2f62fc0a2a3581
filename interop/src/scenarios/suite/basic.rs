//! The cases of the older suite, and CSDS of the client.

use std::time::Instant;

use oxds_interop_xds::messages::{LoadBalancerStatsResponse, RpcType};

use super::super::{SOON, scenario::Ending};
use super::mesh::{BOTH, Mesh, Roles, only, servers};
use crate::config::{assignment, cluster, routes, routes_matching};
use crate::peers::control_plane::Make;
use crate::peers::csds;
use crate::peers::suite::{Suite, SuiteServer};
use crate::{Context, Fallible};

pub(super) fn add(add: &mut impl FnMut(&str, fn(Context, Roles) -> Ending)) {
    add("round_robin", |cx, roles| Box::pin(round_robin(cx, roles)));
    add("killed_backend", |cx, roles| {
        Box::pin(killed_backend(cx, roles))
    });
    add("change_backend_service", |cx, roles| {
        Box::pin(change_backend_service(cx, roles))
    });
    add("traffic_splitting", |cx, roles| {
        Box::pin(traffic_splitting(cx, roles))
    });
    add("matching", |cx, roles| Box::pin(matching(cx, roles)));
    add("behaviour", |cx, roles| Box::pin(behaviour(cx, roles)));
}

/// ping_pong and round_robin: given three backends, when all have answered, then the next calls are distributed evenly,
/// and none fails.
async fn round_robin(cx: Context, roles: Roles) -> Fallible {
    let hosts = ["a", "b", "c"];
    let [a, b, c] = servers(&cx, roles, hosts).await?;
    let resources = [
        routes(&[("blue", 1)]),
        cluster("blue"),
        assignment("blue", &[&[a.address, b.address, c.address]]),
    ];
    let flags = ["--qps=100", "--num_channels=1", "--fail_on_failed_rpc=true"];
    let mut mesh = Mesh::start(&cx, roles, &resources, &flags).await?;
    mesh.served_by(&hosts).await?;
    let seen = mesh.client.next(300).await?;
    // Calls that start together, as on a busy machine, may take their turns in another order: a few more or less at
    // either end.
    let even = |n: &i32| (96..=104).contains(n);
    if !(only(&seen, &hosts) && seen.rpcs_by_peer.values().all(even)) {
        return Err(format!("300 calls to three backends: {seen:?}").into());
    }
    mesh.client.at_most_failed(0).await
}

/// Given three backends, when one is killed, then the others take its calls; at most the calls in progress are lost.
async fn killed_backend(cx: Context, roles: Roles) -> Fallible {
    let [a, b, c] = servers(&cx, roles, ["a", "b", "c"]).await?;
    let resources = [
        routes(&[("blue", 1)]),
        cluster("blue"),
        assignment("blue", &[&[a.address, b.address, c.address]]),
    ];
    let mut mesh = Mesh::start(&cx, roles, &resources, &["--qps=100"]).await?;
    mesh.served_by(&["a", "b", "c"]).await?;
    let began = Instant::now();
    a.kill().await?;
    mesh.client.next(1).await?;
    // Until the client notices, a call starts every 10 ms.
    let started = i32::try_from(began.elapsed().as_millis() / 10)?;
    mesh.served_by(&["b", "c"]).await?;
    mesh.client.at_most_failed(2 + started).await
}

/// Given calls to two backends, when the route moves to another cluster with other endpoints, and the old one is
/// removed, then the calls follow.
///
/// With our control plane that is one edit, which shows make-before-break. go-control-plane's cache removes the cluster
/// before the route has left it, and calls in between fail rightly: there, both clusters stay until the route has
/// moved.
async fn change_backend_service(cx: Context, roles: Roles) -> Fallible {
    let [a, b, c, d] = servers(&cx, roles, ["a", "b", "c", "d"]).await?;
    let service = |name: &str, one: &SuiteServer, other: &SuiteServer| {
        let endpoints = assignment(name, &[&[one.address, other.address]]);
        [routes(&[(name, 1)]), cluster(name), endpoints]
    };
    let (blue, green) = (service("blue", &a, &b), service("green", &c, &d));
    let mut mesh = Mesh::start(&cx, roles, &blue, &["--qps=100"]).await?;
    mesh.served_by(&["a", "b"]).await?;
    if roles.control_plane != Make::Oxds {
        mesh.edit(&[&green[..], &blue[1..]].concat()).await?;
        mesh.served_by(&["c", "d"]).await?;
    }
    mesh.edit(&green).await?;
    mesh.served_by(&["c", "d"]).await?;
    mesh.client.at_most_failed(roles.lost_in_a_move()).await
}

/// Given all calls at one service, when the route splits them 20 : 80 with a second, then they follow the weights.
async fn traffic_splitting(cx: Context, roles: Roles) -> Fallible {
    let [a, b] = servers(&cx, roles, ["a", "b"]).await?;
    let resources = |weights: &[(&str, u32)]| {
        [
            routes(weights),
            cluster("blue"),
            cluster("green"),
            assignment("blue", &[&[a.address]]),
            assignment("green", &[&[b.address]]),
        ]
    };
    let one = resources(&[("blue", 1)]);
    let mut mesh = Mesh::start(&cx, roles, &one, &["--qps=250"]).await?;
    mesh.served_by(&["a"]).await?;
    let split = resources(&[("blue", 20), ("green", 80)]);
    mesh.folder.write("mesh.yaml", &split)?;
    mesh.served_by(&["a", "b"]).await?;
    let seen = mesh.client.next(500).await?;
    let share = seen.rpcs_by_peer.get("b").copied().unwrap_or(0);
    // 400 ± four standard deviations.
    if seen.num_failures > 0 || !(364..=436).contains(&share) {
        return Err(format!("500 calls at 20 : 80: {seen:?}").into());
    }
    Ok(())
}

/// The match that sends a method to the second service; the other method goes to the first.
const MATCHES: [(&str, RpcType); 12] = [
    (
        "path: /grpc.testing.TestService/EmptyCall",
        RpcType::EmptyCall,
    ),
    (
        "prefix: /grpc.testing.TestService/Unary",
        RpcType::UnaryCall,
    ),
    (
        r#"safe_regex: { regex: "/.*/UnaryCall" }"#,
        RpcType::UnaryCall,
    ),
    (
        "path: /gRpC.tEsTinG.tEstseRvice/empTycaLl, case_sensitive: false",
        RpcType::EmptyCall,
    ),
    (
        r#"HEADERS { name: xds_md, string_match: { exact: empty_ytpme } }"#,
        RpcType::EmptyCall,
    ),
    (
        r#"HEADERS { name: xds_md, string_match: { prefix: un } }"#,
        RpcType::UnaryCall,
    ),
    (
        r#"HEADERS { name: xds_md, string_match: { suffix: me } }"#,
        RpcType::EmptyCall,
    ),
    (
        r#"HEADERS { name: xds_md_numeric, present_match: true }"#,
        RpcType::UnaryCall,
    ),
    (
        r#"HEADERS { name: xds_md, string_match: { exact: unary_yranu }, invert_match: true }"#,
        RpcType::EmptyCall,
    ),
    (
        r#"HEADERS { name: xds_md_numeric, range_match: { start: 100, end: 200 } }"#,
        RpcType::UnaryCall,
    ),
    (
        r#"HEADERS { name: xds_md, string_match: { safe_regex: { regex: "em.*me" } } }"#,
        RpcType::EmptyCall,
    ),
    (
        r#"HEADERS { name: xds_md, exact_match: unary_yranu }"#,
        RpcType::UnaryCall,
    ),
];

/// path_matching and header_matching: given both methods, each with metadata that `Configure` has set, when the route
/// is edited to each type of match in turn, then the matching method goes to the second service, the other one does
/// not, and no call fails.
async fn matching(cx: Context, roles: Roles) -> Fallible {
    let [a, b] = servers(&cx, roles, ["a", "b"]).await?;
    let resources = |matching: &str| {
        let matching = match matching.strip_prefix("HEADERS ") {
            Some(header) => format!(r#"prefix: "", headers: [ {header} ]"#),
            None => matching.to_owned(),
        };
        [
            routes_matching(&[(&matching, "green"), (r#"prefix: """#, "blue")]),
            cluster("blue"),
            cluster("green"),
            assignment("blue", &[&[a.address]]),
            assignment("green", &[&[b.address]]),
        ]
    };
    let flags = ["--qps=100", "--rpc=EmptyCall,UnaryCall"];
    let mut mesh = Mesh::start(&cx, roles, &resources("path: /none"), &flags).await?;
    mesh.served_by(&["a"]).await?;
    let metadata = [
        (RpcType::EmptyCall, "xds_md", "empty_ytpme"),
        (RpcType::UnaryCall, "xds_md", "unary_yranu"),
        (RpcType::UnaryCall, "xds_md_numeric", "159"),
    ];
    mesh.client.configure(&BOTH, &metadata, 0).await?;
    for (matching, fits) in MATCHES {
        mesh.folder.write("mesh.yaml", &resources(matching))?;
        let what = format!(
            "{} at b, the other method at a, by {matching}",
            fits.method()
        );
        let wanted = |seen: &LoadBalancerStatsResponse| {
            let at = |kind: RpcType, host: &str| {
                let by_method = seen.rpcs_by_method.get(kind.method());
                by_method.is_some_and(|hosts| hosts.rpcs_by_peer.keys().eq([host]))
            };
            let others = BOTH.iter().filter(|kind| **kind != fits);
            seen.num_failures == 0 && at(fits, "b") && others.into_iter().all(|kind| at(*kind, "a"))
        };
        mesh.client.settle(&what, 20, SOON, wanted).await?;
    }
    mesh.client.at_most_failed(0).await
}

/// Given calls that succeed, when `Configure` gives them `rpc-behavior` and a deadline, then they end with the
/// configured status in the totals; when it removes them, they succeed again.
async fn behaviour(cx: Context, roles: Roles) -> Fallible {
    let unary = [RpcType::UnaryCall];
    let [a] = servers(&cx, roles, ["a"]).await?;
    // Without a retry policy, which would make three calls of one UNAVAILABLE.
    let resources = [
        routes_matching(&[(r#"prefix: """#, "blue")]),
        cluster("blue"),
        assignment("blue", &[&[a.address]]),
    ];
    let mut mesh = Mesh::start(&cx, roles, &resources, &["--qps=50"]).await?;
    mesh.served_by(&["a"]).await?;
    for (behaviour, timeout_sec, code, least) in [
        ("error-code-8", 0, 8, 5),
        ("hostname=a error-code-9", 0, 9, 5),
        // At its deadline grpc-go's server answers such a call, without a host; that response may come first.
        ("keep-open", 1, 4, 1),
        ("sleep-3", 1, 4, 5),
    ] {
        let metadata = [(RpcType::UnaryCall, "rpc-behavior", behaviour)];
        let before = mesh.client.total().await?;
        mesh.client
            .configure(&unary, &metadata, timeout_sec)
            .await?;
        let seen = mesh.client.next(5).await?;
        let after = mesh.client.total().await?;
        let ended = |total: &oxds_interop_xds::messages::LoadBalancerAccumulatedStatsResponse| {
            let stats = total.stats_per_method.get("UNARY_CALL");
            stats
                .and_then(|stats| stats.result.get(&code).copied())
                .unwrap_or(0)
        };
        if seen.num_failures != 5 || ended(&after) - ended(&before) < least {
            return Err(format!("{behaviour}: {seen:?}, {after:?}").into());
        }
    }
    let metadata = [(
        RpcType::UnaryCall,
        "rpc-behavior",
        "hostname=b error-code-9",
    )];
    mesh.client.configure(&unary, &metadata, 0).await?;
    mesh.served_by(&["a"]).await
}

/// Given our client under another control plane, when a reader with gRPC's own stubs calls its stats port, then every
/// resource is shown as acknowledged, with its content and version (C-121, C-123).
pub(super) async fn reports_csds(cx: Context) -> Fallible {
    let roles = Roles {
        client: Suite::Oxds,
        server: Suite::Go,
        control_plane: Make::GO,
    };
    let [a] = servers(&cx, roles, ["a"]).await?;
    let resources = [
        routes(&[("blue", 1)]),
        cluster("blue"),
        assignment("blue", &[&[a.address]]),
    ];
    let mut mesh = Mesh::start(&cx, roles, &resources, &["--qps=100"]).await?;
    mesh.served_by(&["a"]).await?;
    let seen = csds::read(&cx, mesh.client.address, "").await?;
    let named: Vec<_> = seen.iter().map(|s| (&*s.kind, &*s.name)).collect();
    let expected = [
        ("Cluster", "blue"),
        ("ClusterLoadAssignment", "blue"),
        ("Listener", "shop"),
        ("RouteConfiguration", "shop-routes"),
    ];
    let complete = |s: &csds::Seen| {
        s.client == "ACKED" && s.content == s.kind && !s.version.is_empty() && s.node == "interop-1"
    };
    if named != expected || !seen.iter().all(complete) {
        return Err(format!("CSDS shows {seen:?}").into());
    }
    Ok(())
}
