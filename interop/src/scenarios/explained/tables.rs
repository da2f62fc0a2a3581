//! Route tables and requests, drawn from a seed.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Clusters of the tables, each with a backend of its name.
pub(super) const CLUSTERS: [&str; 5] = ["c0", "c1", "c2", "c3", "c4"];

/// Generator of numbers: SplitMix64.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) as usize % limit
    }

    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }
}

/// The client for which a table is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Client {
    Envoy,
    Grpc,
}

/// Conditions that all clients know.
const PATHS: &[&str] = &[
    "prefix: ''",
    "prefix: /",
    "prefix: /shop.",
    "prefix: /SHOP.Cart/, case_sensitive: false",
    "prefix: /shop.Cart/G",
    "path: /shop.Cart/Get",
    "path: /SHOP.cart/get, case_sensitive: false",
    "path: /shop.Cart/Put",
    "safe_regex: { regex: '/shop[.](Cart|Pay)/.*' }",
    "safe_regex: { regex: '/shop.Cart' }",
    "safe_regex: { regex: '/SHOP.*' }, case_sensitive: false",
];
const HEADERS: &[&str] = &[
    "{ name: x-env, string_match: { exact: canary } }",
    "{ name: X-Env, string_match: { prefix: ca } }",
    "{ name: x-env, string_match: { suffix: OD, ignore_case: true } }",
    "{ name: x-env, string_match: { contains: r } }",
    "{ name: x-env, string_match: { safe_regex: { regex: 'c.*y|dev' } } }",
    "{ name: x-env, string_match: { exact: prod }, invert_match: true }",
    "{ name: x-env, present_match: true }",
    "{ name: x-env, present_match: false }",
    "{ name: x-env, present_match: true, invert_match: true }",
    "{ name: x-number, range_match: { start: -3, end: 10 } }",
    "{ name: x-number, range_match: { start: 5, end: 6 }, invert_match: true }",
];
/// Conditions that gRPC ignores or rejects, or that mean something else to it.
const ENVOY_PATHS: &[&str] = &[
    "path_separated_prefix: /shop.Cart",
    "path_separated_prefix: /shop",
];
const ENVOY_HEADERS: &[&str] = &[
    "{ name: ':path', string_match: { contains: '?' } }",
    "{ name: ':method', string_match: { exact: GET } }",
    "{ name: ':authority', string_match: { prefix: t1 } }",
    "{ name: host, string_match: { prefix: t2 } }",
    "{ name: te, present_match: true }",
    "{ name: x-env }",
    "{ name: x-env, string_match: { exact: canary }, invert_match: true, treat_missing_header_as_empty: true }",
];
const ENVOY_OTHERS: &[&str] = &[
    "query_parameters: [{ name: v, string_match: { exact: '2' } }]",
    "query_parameters: [{ name: v, present_match: true }]",
    "query_parameters: [{ name: w, present_match: false }]",
    "query_parameters: [{ name: v }]",
    "grpc: {}",
];
/// Conditions of gRPC: hidden headers. Not `content-type`, which C-core and oxds match as `application/grpc` (gRFC
/// A28), and grpc-go does not see when it chooses a route.
const GRPC_HEADERS: &[&str] = &[
    "{ name: te, present_match: true }",
    "{ name: ':path', present_match: true }",
];
const FRACTIONS: &[&str] = &[
    "runtime_fraction: { default_value: { numerator: 0 } }",
    "runtime_fraction: { default_value: { numerator: 100 } }",
    "runtime_fraction: { default_value: { numerator: 1000000, denominator: MILLION } }",
];

/// Draws one route, as a flow mapping.
fn route(random: &mut Random, client: Client) -> String {
    let is_envoy = client == Client::Envoy;
    let mut conditions = vec![if is_envoy && random.below(6) == 0 {
        random.one(ENVOY_PATHS).to_owned()
    } else {
        random.one(PATHS).to_owned()
    }];
    let headers: Vec<_> = (0..random.below(3))
        .map(|_| match (random.below(4), client) {
            (0, Client::Envoy) => random.one(ENVOY_HEADERS),
            (0, Client::Grpc) => random.one(GRPC_HEADERS),
            _ => random.one(HEADERS),
        })
        .collect();
    if !headers.is_empty() {
        conditions.push(format!("headers: [{}]", headers.join(", ")));
    }
    // gRPC ignores routes with query parameters.
    if random.below(5) == 0 {
        let others = if is_envoy {
            ENVOY_OTHERS
        } else {
            &ENVOY_OTHERS[..4]
        };
        conditions.push(random.one(others).to_owned());
    }
    if random.below(5) == 0 {
        conditions.push(random.one(FRACTIONS).to_owned());
    }
    let conditions = conditions.join(", ");
    format!("{{ match: {{ {conditions} }}, {} }}", action(random))
}

fn action(random: &mut Random) -> String {
    let cluster = random.one(&CLUSTERS);
    match random.below(12) {
        0 => "redirect: { path_redirect: /elsewhere, response_code: FOUND }".to_owned(),
        1 => "direct_response: { status: 418 }".to_owned(),
        2 => "route: { cluster_header: x-cluster }".to_owned(),
        3 => {
            let other = random.one(&CLUSTERS);
            format!(
                "route: {{ weighted_clusters: {{ clusters: [{{ name: {other}, weight: 0 }}, {{ name: {cluster}, weight: 7 }}] }} }}"
            )
        }
        _ => format!("route: {{ cluster: {cluster} }}"),
    }
}

/// Draws a virtual host.
pub(super) fn host(random: &mut Random, client: Client, name: &str, domains: &[String]) -> String {
    let mut yaml = format!(
        "- name: {name}\n  domains: [{}]\n  routes:\n",
        quoted(domains)
    );
    for _ in 0..=random.below(6) {
        let route = route(random, client);
        // Writing to a string does not fail.
        let _ = writeln!(yaml, "  - {route}");
    }
    yaml
}

fn quoted(domains: &[String]) -> String {
    let quoted: Vec<_> = domains.iter().map(|domain| format!("'{domain}'")).collect();
    quoted.join(", ")
}

/// A request.
#[derive(Clone, Debug)]
pub(super) struct DrawnRequest {
    pub(super) authority: String,
    pub(super) path: String,
    pub(super) headers: BTreeMap<&'static str, &'static str>,
}

/// Draws a request to an authority.
pub(super) fn drawn_request(
    random: &mut Random,
    client: Client,
    authority: String,
) -> DrawnRequest {
    let mut path = random
        .one(&[
            "/shop.Cart/Get",
            "/shop.Pay/Put",
            "/shop.Cart/get",
            "/shop.Cart/Put",
            "/web/x",
        ])
        .to_owned();
    if client == Client::Envoy {
        path += random.one(&["", "", "?v=2", "?v=1&v=2", "?a&w=1"]);
        if random.below(8) == 0 {
            path = random.one(&["/shop.Cart", "/shop", "/"]).to_owned();
        }
    }
    let mut headers = BTreeMap::new();
    let env = random.one(&["", "canary", "prod", "dev"]);
    let number = random.one(&["", "5", "-3", "10", "five"]);
    let cluster = random.one(&["", "c1"]);
    for (name, value) in [("x-env", env), ("x-number", number), ("x-cluster", cluster)] {
        if !value.is_empty() {
            headers.insert(name, value);
        }
    }
    DrawnRequest {
        authority,
        path,
        headers,
    }
}
