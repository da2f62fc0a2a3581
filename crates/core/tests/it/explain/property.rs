//! Explanations and the channel's routing, over generated tables.

use std::collections::BTreeMap;

use oxds_core::ads::{WatchError, WatchErrorReason};
use oxds_core::explain::{Action, Request, ResourceSource as _, RouteOutcome, RuleSet};
use oxds_core::resolve::{CompiledAction, Resolver, WatchCommand, XdsConfig};
use oxds_core::resource::ResourceParsers;
use proptest::prelude::*;

use super::{Made, rpc};

/// The conditions of a generated route.
fn condition() -> impl Strategy<Value = String> {
    let path = prop::sample::select(vec![
        "prefix: ''",
        "prefix: '/'",
        "prefix: '/a'",
        "prefix: '/A.S/'",
        "path: '/a.S/Get'",
        "path: '/A.s/get' case_sensitive { value: false }",
        "safe_regex { regex: '/a.*' }",
        "safe_regex { regex: '/[ab]\\\\.S/(Get|Put)' }",
        "prefix: '/b'",
    ]);
    let header = prop::sample::select(vec![
        "",
        "",
        "",
        "headers { name: 'x' present_match: true }",
        "headers { name: 'x' present_match: false }",
        "headers { name: 'X' string_match { exact: 'one' } }",
        "headers { name: 'x' string_match { prefix: 'o' } invert_match: true }",
        "headers { name: 'n' range_match { start: 1 end: 9 } }",
        "headers { name: 'te' present_match: true }",
        "headers { name: 'content-type' string_match { exact: 'application/grpc' } }",
        "query_parameters { name: 'q' }",
    ]);
    let fraction = prop_oneof![
        4 => Just(String::new()),
        1 => (0_u32..120).prop_map(|n| format!("runtime_fraction {{ default_value {{ numerator: {n} }} }}")),
        1 => (0_u32..10_000).prop_map(|n| format!("runtime_fraction {{ default_value {{ numerator: {n} denominator: TEN_THOUSAND }} }}")),
    ];
    (path, header, fraction)
        .prop_map(|(path, header, fraction)| format!("{path} {header} {fraction}"))
}

fn action(number: usize) -> impl Strategy<Value = String> {
    prop_oneof![
        5 => Just(format!("route {{ cluster: 'c{number}' }}")),
        2 => (1_u32..5, 0_u32..5, 1_u32..1000).prop_map(move |(a, b, c)| format!(
            "route {{ weighted_clusters {{ clusters {{ name: 'c{number}' weight {{ value: {a} }} }}
              clusters {{ name: 'x{number}' weight {{ value: {b} }} }} clusters {{ name: 'y' weight {{ value: {c} }} }} }} }}"
        )),
        1 => Just("redirect { path_redirect: '/z' }".to_owned()),
        1 => Just("route { cluster_header: 'x' }".to_owned()),
    ]
}

/// A virtual host with generated routes.
fn host(number: usize) -> impl Strategy<Value = String> {
    let domains = prop::sample::subsequence(
        vec![
            "*",
            "shop.example",
            "*.example",
            "shop.*",
            "SHOP.example",
            "*p.example",
            "other",
        ],
        1..4,
    );
    let routes = prop::collection::vec(condition(), 0..7).prop_flat_map(|conditions| {
        let actions: Vec<_> = (0..conditions.len()).map(action).collect();
        (Just(conditions), actions)
    });
    (domains, routes).prop_map(move |(domains, (conditions, actions))| {
        let domains: String = domains
            .iter()
            .map(|domain| format!("domains: '{domain}' "))
            .collect();
        let routes = conditions.iter().zip(&actions);
        let routes: String = routes
            .map(|(condition, action)| format!("routes {{ match {{ {condition} }} {action} }} "))
            .collect();
        format!("virtual_hosts {{ name: 'h{number}' {domains} {routes} }}")
    })
}

fn table() -> impl Strategy<Value = String> {
    (host(0), host(1), host(2)).prop_map(|(a, b, c)| format!("{a} {b} {c}"))
}

fn request() -> impl Strategy<Value = Request> {
    let path = prop::sample::select(vec![
        "/a.S/Get", "/A.S/Get", "/b.S/Put", "/b.S/Get", "/", "/abc",
    ]);
    let x = prop::sample::select(vec![None, Some("one"), Some("two"), Some("")]);
    let n = prop::sample::select(vec![None, Some("1"), Some("9"), Some("x")]);
    (path, x, n).prop_map(|(path, x, n)| {
        let mut request = rpc(path);
        for (name, value) in [("x", x), ("n", n)] {
            if let Some(value) = value {
                request = request.header(name, value);
            }
        }
        request
    })
}

/// The configuration of a channel; its clusters do not exist.
fn config(made: &Made) -> Option<std::sync::Arc<XdsConfig>> {
    let mut resolver = Resolver::new("l", "shop.example");
    while let Some(command) = resolver.poll_command() {
        let WatchCommand::Watch(resource_type, name) = command else {
            continue;
        };
        let resource = match made.find(&resource_type, &name) {
            Some(value) => Ok(ResourceParsers::grpc()
                .parse(&resource_type, &value)
                .unwrap()),
            None => Err(WatchError::new(WatchErrorReason::DoesNotExist, "gone")),
        };
        resolver.handle_resource(&resource_type, &name, &resource);
    }
    resolver.poll_config()?.ok()
}

/// The result of the channel, for each of many random numbers: the cluster, or the reason that no cluster was chosen.
fn sampled(config: &XdsConfig, request: &Request) -> BTreeMap<String, f64> {
    const COUNT: u32 = 4_000;
    let mut state = 1_u64;
    let mut random = || {
        // SplitMix64: independent numbers, the same in every run.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    };
    let mut counts = BTreeMap::new();
    for _ in 0..COUNT {
        let route = config.route(request.path_only(), request, &mut random);
        let to = match route.map(|route| &route.action) {
            None => "no route".to_owned(),
            Some(CompiledAction::Unsupported) => "unsupported".to_owned(),
            Some(CompiledAction::Forward { clusters, .. }) => config.clusters
                [clusters.pick(random()).cluster]
                .name
                .to_string(),
        };
        *counts.entry(to).or_insert(0.0) += 1.0 / f64::from(COUNT);
    }
    counts
}

/// Six standard deviations of a share among the samples, at most.
const TOLERANCE: f64 = 0.048;

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    /// The explanation names the destinations that the channel chooses, with their shares.
    #[test]
    fn explanation_and_channel_choose_the_same(table in table(), request in request()) {
        let made = Made::routes(&table);
        let decision = made.clone().by(RuleSet::Grpc, &request);
        let Some(config) = config(&made) else {
            prop_assert!(decision.virtual_host.is_none(), "{decision:#?}");
            return Ok(());
        };
        prop_assert_eq!(&decision.virtual_host.as_ref().unwrap().name, &config.routes.virtual_host);
        let mut explained: BTreeMap<String, f64> = BTreeMap::new();
        for one in &decision.destinations {
            let to = match &one.action {
                Action::Forward { cluster, .. } => cluster.clone(),
                Action::Fail { text, .. } if text.contains("no route") => "no route".to_owned(),
                Action::Fail { .. } => "unsupported".to_owned(),
                other => panic!("{other:?}"),
            };
            *explained.entry(to).or_default() += one.share;
        }
        let sampled = sampled(&config, &request);
        for to in sampled.keys() {
            prop_assert!(explained.contains_key(to), "{} in {:?}, not in {:?}", to, sampled, explained);
        }
        for (to, share) in &explained {
            let real = sampled.get(to).copied().unwrap_or_default();
            prop_assert!((real - share).abs() < TOLERANCE, "{}: {:?} {:?}\n{}", to, sampled, explained, table);
        }
        let taken = decision.routes.iter().filter(|one| matches!(one.outcome, RouteOutcome::Taken { .. })).count();
        let routes: std::collections::BTreeSet<_> = decision.destinations.iter().filter_map(|one| one.route).collect();
        prop_assert_eq!(taken, routes.len());
    }
}
