//! The url-map cases of grpc/psm-interop: the routes of a service change while one client calls it.
//!
//! The cases run one after the other in the same processes. Between two of them all calls are aborted, so that no case
//! passes with the routes of the one before it. Times are shorter than in the suite, and calls fewer.
//!
//! | suite | here |
//! |---|---|
//! | `path_matching_test`, `header_matching_test`, `fault_injection_test`, `retry_test`, `timeout_test` | all cases, also those that the suite skips; those of retries not with the servers of grpc-go 1.64, which panic in `succeed-on-retry-attempt-N` at the first attempt |
//! | `metadata_filter_test` | the routes that its control plane makes: the filters are evaluated there |
//! | `affinity_test` | `balancing.rs` |
//! | `csds_test` | `suite_oxds_client_reports_resources_by_csds` |

use oxds_interop_xds::messages::LoadBalancerStatsResponse;
use oxds_interop_xds::messages::RpcType::{self, EmptyCall, UnaryCall};

use super::super::{SOON, scenario::Ending};
use super::mesh::{BOTH, Codes, Mesh, Roles, servers};
use crate::config::{api_listener_with, assignment, cluster, route_config};
use crate::peers::suite::Suite;
use crate::{Context, Fallible};

/// Calls in a row that must agree.
const CALLS: i32 = 30;
/// Calls of a case with a share.
const SAMPLE: i32 = 100;
/// Status of the calls between two cases.
const ABORTED: i32 = 10;
/// The fault filter, without a fault.
const FAULT: &str = r#"{ name: fault, typed_config: { "@type": type.googleapis.com/envoy.extensions.filters.http.fault.v3.HTTPFault } }"#;

/// Metadata of the calls, as in the suite.
const METADATA: [(RpcType, &str, &str); 3] = [
    (UnaryCall, "xds_md", "unary_yranu"),
    (EmptyCall, "xds_md", "empty_ytpme"),
    (UnaryCall, "xds_md_numeric", "159"),
];

/// One case.
#[derive(Clone)]
struct Case {
    name: &'static str,
    /// Routes before the default one, each as a flow mapping without its braces.
    routes: Vec<String>,
    methods: &'static [RpcType],
    metadata: Vec<(RpcType, &'static str, &'static str)>,
    /// Deadline of the calls in seconds; 0 for that of the client.
    timeout: i32,
    expected: Expected,
}

/// Result of the calls.
#[derive(Clone)]
enum Expected {
    /// All succeed, each method at this host.
    At(&'static [(RpcType, &'static str)]),
    /// Each method ends with these codes, and each code has the same share of its calls.
    Codes(&'static [(RpcType, &'static [i32])]),
}

pub(super) fn add(add: &mut impl FnMut(&str, fn(Context, Roles) -> Ending)) {
    add("url_map_matching", |cx, roles| {
        Box::pin(url_map(cx, roles, [paths(), headers(), filters()].concat()))
    });
    add("url_map_statuses", |cx, roles| {
        // The servers of grpc-go panic in the cases of retries.
        let retries = match roles.server {
            Suite::Oxds => retries(),
            Suite::Go => Vec::new(),
        };
        Box::pin(url_map(cx, roles, [timeouts(), faults(), retries].concat()))
    });
}

/// Given a default service at `a` and an alternative one at `b`,
/// when the routes change from case to case,
/// then the calls of each method reach the service, or end with the status, that the case expects.
async fn url_map(cx: Context, roles: Roles, cases: Vec<Case>) -> Fallible {
    let [a, b] = servers(&cx, roles, ["a", "b"]).await?;
    let resources = |routes: &[String]| {
        let default = "match: { prefix: '' }, route: { cluster: default }".to_owned();
        [
            route_config(&[routes, &[default]].concat()),
            cluster("default"),
            cluster("alternative"),
            assignment("default", &[&[a.address]]),
            assignment("alternative", &[&[b.address]]),
        ]
    };
    let aborting = [format!(
        "match: {{ prefix: '' }}, route: {{ cluster: default }}, {}",
        fault(&format!(
            "abort: {{ grpc_status: {ABORTED}, {} }}",
            percent(100)
        ))
    )];
    let listener = api_listener_with(FAULT);
    // Slow calls must not reach the limit of streams of a connection.
    let flags = ["--qps=40", "--rpc=EmptyCall,UnaryCall"];
    let mut mesh = Mesh::start_with(&cx, roles, listener, &resources(&aborting), &flags).await?;
    for case in cases {
        let Case {
            name,
            methods,
            metadata,
            timeout,
            ..
        } = &case;
        mesh.folder.write("mesh.yaml", &resources(&aborting))?;
        mesh.client.configure(methods, metadata, *timeout).await?;
        let all_aborted = |codes: &Codes| {
            codes.keys().eq(*methods) && codes.values().all(|of| of.keys().eq([&ABORTED]))
        };
        let what = format!("all calls aborted before {name}");
        mesh.ended(&what, 10, all_aborted).await?;
        mesh.folder.write("mesh.yaml", &resources(&case.routes))?;
        match case.expected {
            Expected::At(hosts) => {
                let at = |seen: &LoadBalancerStatsResponse| {
                    let at = |(method, host): &(RpcType, &str)| {
                        let of = seen.rpcs_by_method.get(method.method());
                        of.is_some_and(|of| of.rpcs_by_peer.keys().eq([host]))
                    };
                    seen.num_failures == 0 && hosts.iter().all(at)
                };
                mesh.client.settle(name, CALLS, SOON, at).await?;
            }
            Expected::Codes(expected) => {
                let is_share = expected.iter().any(|(_, codes)| codes.len() > 1);
                let calls = if is_share { SAMPLE } else { CALLS };
                mesh.ended(name, calls, |codes| shares(codes, expected))
                    .await?;
            }
        }
    }
    Ok(())
}

/// Whether the codes are these, in equal shares. As in the suite, a share may differ by a fifth of all calls.
fn shares(codes: &Codes, expected: &[(RpcType, &[i32])]) -> bool {
    expected.iter().all(|(method, wanted)| {
        let Some(of) = codes.get(method) else {
            return false;
        };
        let total: i32 = of.values().sum();
        let share = total / i32::try_from(wanted.len()).unwrap_or(1);
        of.keys().eq(*wanted) && of.values().all(|n| (n - share).abs() * 5 <= total)
    })
}

fn case(
    name: &'static str,
    routes: &[&str],
    methods: &'static [RpcType],
    expected: Expected,
) -> Case {
    Case {
        name,
        routes: routes.iter().map(ToString::to_string).collect(),
        methods,
        metadata: METADATA
            .into_iter()
            .filter(|(method, ..)| methods.contains(method))
            .collect(),
        timeout: 0,
        expected,
    }
}

/// A case with one route to the alternative service.
fn alternative(name: &'static str, matching: &str, at: &'static [(RpcType, &'static str)]) -> Case {
    let route = format!("match: {{ {matching} }}, route: {{ cluster: alternative }}");
    case(name, &[&route], &BOTH, Expected::At(at))
}

/// Only `EmptyCall` is at the alternative service.
const EMPTY: &[(RpcType, &str)] = &[(EmptyCall, "b"), (UnaryCall, "a")];
/// Only `UnaryCall` is.
const UNARY: &[(RpcType, &str)] = &[(EmptyCall, "a"), (UnaryCall, "b")];

/// `path_matching_test`.
fn paths() -> Vec<Case> {
    const BY_PREFIX: &[&str] = &[
        "match: { prefix: /grpc.testing.TestService/Unary }, route: { cluster: default }",
        "match: { path: /grpc.testing.TestService/EmptyCall }, route: { cluster: alternative }",
    ];
    vec![
        alternative(
            "path of EmptyCall",
            "path: /grpc.testing.TestService/EmptyCall",
            EMPTY,
        ),
        alternative(
            "path of UnaryCall",
            "path: /grpc.testing.TestService/UnaryCall",
            UNARY,
        ),
        case(
            "two routes and a prefix",
            BY_PREFIX,
            &BOTH,
            Expected::At(EMPTY),
        ),
        alternative(
            "regex of a path",
            r"safe_regex: { regex: '^\/.*\/UnaryCall$' }",
            UNARY,
        ),
        alternative(
            "path without case",
            "path: /gRpC.tEsTinG.tEstseRvice/empTycaLl, case_sensitive: false",
            EMPTY,
        ),
    ]
}

/// `header_matching_test`.
fn headers() -> Vec<Case> {
    let header = |name, header: &str, at| {
        alternative(name, &format!("prefix: /, headers: [{{ {header} }}]"), at)
    };
    vec![
        header(
            "exact header",
            "name: xds_md, exact_match: empty_ytpme",
            EMPTY,
        ),
        header(
            "prefix of a header",
            "name: xds_md, prefix_match: un",
            UNARY,
        ),
        header(
            "suffix of a header",
            "name: xds_md, suffix_match: me",
            EMPTY,
        ),
        header(
            "present header",
            "name: xds_md_numeric, present_match: true",
            UNARY,
        ),
        header(
            "inverted header",
            "name: xds_md, exact_match: unary_yranu, invert_match: true",
            EMPTY,
        ),
        header(
            "range of a header",
            "name: xds_md_numeric, range_match: { start: 100, end: 200 }",
            UNARY,
        ),
        header(
            "regex of a header",
            "name: xds_md, safe_regex_match: { regex: '^em.*me$' }",
            EMPTY,
        ),
    ]
}

/// `metadata_filter_test`: the routes that are left once the control plane has applied the filters.
fn filters() -> Vec<Case> {
    const MULTIPLE: &[&str] = &[
        "match: { prefix: /, headers: [{ name: xds_md, exact_match: empty_ytpme }] }, route: { cluster: alternative }",
        "match: { prefix: /grpc.testing.TestService/Unary }, route: { cluster: default }",
    ];
    vec![
        alternative(
            "prefix and header",
            "prefix: /grpc.testing.TestService/Empty, headers: [{ name: xds_md, exact_match: empty_ytpme }]",
            EMPTY,
        ),
        alternative("prefix", "prefix: /grpc.testing.TestService/Unary", UNARY),
        case("several rules", MULTIPLE, &BOTH, Expected::At(EMPTY)),
    ]
}

/// `timeout_test`, with a limit of one second in place of three.
fn timeouts() -> Vec<Case> {
    const ROUTE: &[&str] = &[
        "match: { path: /grpc.testing.TestService/UnaryCall }, route: { cluster: default, max_stream_duration: { max_stream_duration: 1s, grpc_timeout_header_max: 1s } }",
    ];
    const SLOW: [(RpcType, &str, &str); 2] = [
        (UnaryCall, "rpc-behavior", "sleep-2"),
        (EmptyCall, "rpc-behavior", "sleep-2"),
    ];
    let codes = |name, methods, expected| case(name, ROUTE, methods, Expected::Codes(expected));
    vec![
        codes("timeout not exceeded", &[UnaryCall], &[(UnaryCall, &[0])]),
        Case {
            metadata: SLOW.to_vec(),
            ..codes(
                "timeout in a route",
                &BOTH,
                &[(UnaryCall, &[4]), (EmptyCall, &[0])],
            )
        },
        Case {
            metadata: SLOW[..1].to_vec(),
            timeout: 1,
            // Without the limit of the route.
            routes: Vec::new(),
            ..codes(
                "timeout in the application",
                &[UnaryCall],
                &[(UnaryCall, &[4])],
            )
        },
    ]
}

/// `fault_injection_test`.
fn faults() -> Vec<Case> {
    let with = |name, abort, delay, methods, expected| {
        let faults = fault(&format!(
            "abort: {{ http_status: 401, {} }}, delay: {{ fixed_delay: 20s, {} }}",
            percent(abort),
            percent(delay)
        ));
        let route = format!(
            "match: {{ path: /grpc.testing.TestService/UnaryCall }}, route: {{ cluster: default }}, {faults}"
        );
        Case {
            // Only the delays meet it.
            timeout: 1,
            ..case(name, &[&route], methods, Expected::Codes(expected))
        }
    };
    const ONE: &[RpcType] = &[UnaryCall];
    vec![
        with("no fault", 0, 0, ONE, &[(UnaryCall, &[0])]),
        with(
            "faults of another route",
            100,
            100,
            &[EmptyCall],
            &[(EmptyCall, &[0])],
        ),
        with("each call delayed", 0, 100, ONE, &[(UnaryCall, &[4])]),
        with("each call aborted", 100, 0, ONE, &[(UnaryCall, &[16])]),
        with(
            "half of the calls delayed",
            0,
            50,
            ONE,
            &[(UnaryCall, &[0, 4])],
        ),
        with(
            "half of the calls aborted",
            50,
            0,
            ONE,
            &[(UnaryCall, &[0, 16])],
        ),
    ]
}

/// `retry_test`.
fn retries() -> Vec<Case> {
    let retry = |name, retries: u32, expected| {
        let route = format!(
            "match: {{ path: /grpc.testing.TestService/UnaryCall }}, route: {{ cluster: default, retry_policy: {{ retry_on: unavailable, num_retries: {retries} }} }}"
        );
        Case {
            metadata: vec![(
                UnaryCall,
                "rpc-behavior",
                "succeed-on-retry-attempt-4,error-code-14",
            )],
            ..case(name, &[&route], &[UnaryCall], Expected::Codes(expected))
        }
    };
    vec![
        retry("three retries fail", 3, &[(UnaryCall, &[14])]),
        retry("four retries succeed", 4, &[(UnaryCall, &[0])]),
    ]
}

/// Configuration of the fault filter for a route.
fn fault(fields: &str) -> String {
    format!(
        r#"typed_per_filter_config: {{ fault: {{ "@type": type.googleapis.com/envoy.extensions.filters.http.fault.v3.HTTPFault, {fields} }} }}"#
    )
}

/// A share as in the suite.
fn percent(percent: u32) -> String {
    let numerator = percent * 10_000;
    format!("percentage: {{ numerator: {numerator}, denominator: MILLION }}")
}
