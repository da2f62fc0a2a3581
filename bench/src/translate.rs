//! V-3: translation of Envoy-sized resources between v2 and v3, compared with decoding and encoding them by reflection,
//! which any translator of messages must do at least.
//!
//! The peer decodes the v2 message and encodes it again, without touching the content of its `Any` messages. Both run
//! in this process, by turns.

use std::fmt::Write as _;
use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use oxds_types::ApiVersion;
use oxds_types::codec::{Format, Options, decode};
use oxds_types::descriptor::v2_pool;
use oxds_types::version_map::{to_v2, to_v3, v2_name};
use prost::Message as _;
use prost_reflect::{DynamicMessage, MessageDescriptor};

use crate::plan::{Plan, Size};
use crate::report::{Row, Table, Target, median};

/// A resource in both versions.
struct Case {
    message: &'static str,
    old: &'static str,
    v3: Vec<u8>,
    v2: Vec<u8>,
    descriptor: MessageDescriptor,
}

pub(crate) fn run(_: &Plan, size: Size, table: &mut Table) -> Result<(), String> {
    let (rounds, turns) = (size.rounds, size.steps as u32);
    let cases = cases()?;
    let bytes: usize = cases.iter().map(|case| case.v3.len()).sum();
    let (mut up, mut down, mut reflected) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        up.push(micros(turns, &cases, |case| {
            to_v3(case.old, &case.v2).is_ok()
        }));
        down.push(micros(turns, &cases, |case| {
            to_v2(case.message, &case.v3).is_ok()
        }));
        reflected.push(micros(turns, &cases, |case| {
            let message = DynamicMessage::decode(case.descriptor.clone(), &*case.v2);
            message.is_ok_and(|message| !black_box(message.encode_to_vec()).is_empty())
        }));
    }
    let theirs = median(reflected);
    for (what, ours) in [("v2 to v3", up), ("v3 to v2", down)] {
        table.row(&Row {
            id: "V-3",
            what: &format!("{what}, {} resources, {bytes} bytes (us)", cases.len()),
            ours: median(ours),
            peer: ("decode, encode", theirs),
            target: Target::AtMost(2.0),
        });
    }
    Ok(())
}

/// Returns the mean duration of one pass over all cases.
fn micros(turns: u32, cases: &[Case], work: impl Fn(&Case) -> bool) -> f64 {
    let start = Instant::now();
    for _ in 0..turns {
        for case in cases {
            assert!(black_box(work(case)), "{} is translated", case.message);
        }
    }
    start.elapsed().as_secs_f64() * 1e6 / f64::from(turns)
}

fn cases() -> Result<Vec<Case>, String> {
    let file = Path::new("resources.yaml");
    let loaded = decode(
        file,
        Format::Yaml,
        resources().as_bytes(),
        &Options::default(),
    );
    let loaded = loaded.map_err(|errors| errors[0].to_string())?;
    let case = |one: oxds_types::codec::LoadedResource| {
        let message = one.resource_type.message();
        let (message, old) = match (
            one.resource_type.type_url_in(ApiVersion::V2),
            v2_name(message),
        ) {
            (Some(_), Some(old)) => (leaked(message), old),
            _ => return Err(format!("{message} is not in v2")),
        };
        let v3 = one.any.value.to_vec();
        let v2 = to_v2(message, &v3).map_err(|errors| errors[0].to_string())?;
        let descriptor = v2_pool().get_message_by_name(old).ok_or("no descriptor")?;
        Ok(Case {
            message,
            old,
            v3,
            v2,
            descriptor,
        })
    };
    loaded.into_iter().map(case).collect()
}

/// The names are those of a few resource types, made once.
fn leaked(name: &str) -> &'static str {
    Box::leak(name.to_owned().into_boxed_str())
}

/// A listener with a connection manager, a route configuration with 50 virtual hosts, and a cluster with 100 endpoints.
fn resources() -> String {
    let mut text = "'@type': type.googleapis.com/envoy.config.listener.v3.Listener
name: ingress
address: { socket_address: { address: 0.0.0.0, port_value: 80 } }
filter_chains:
- filters:
  - name: envoy.http_connection_manager
    typed_config:
      '@type': type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
      stat_prefix: in
      rds: { route_config_name: shop, config_source: { ads: {}, resource_api_version: V3 } }
      http_filters:
      - name: envoy.router
        typed_config: { '@type': type.googleapis.com/envoy.extensions.filters.http.router.v3.Router, dynamic_stats: true }
---
'@type': type.googleapis.com/envoy.config.route.v3.RouteConfiguration
name: shop
virtual_hosts:
"
    .to_owned();
    for host in 0..50 {
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "- name: host-{host}
  domains: ['host-{host}.shop.example']
  routes:
  - match: {{ prefix: /cart, headers: [{{ name: x-shop, exact_match: '{host}' }}] }}
    route: {{ cluster: cart-{host}, timeout: 3s, retry_policy: {{ retry_on: 5xx, num_retries: 2 }} }}
  - match: {{ prefix: / }}
    route: {{ weighted_clusters: {{ clusters: [{{ name: a-{host}, weight: 90 }}, {{ name: b-{host}, weight: 10 }}] }} }}
"
        );
    }
    text.push_str(
        "---
'@type': type.googleapis.com/envoy.config.cluster.v3.Cluster
name: cart
connect_timeout: 1s
load_assignment:
  cluster_name: cart
  endpoints:
  - lb_endpoints:
",
    );
    for endpoint in 0..100 {
        let _ = writeln!(
            text,
            "    - endpoint: {{ address: {{ socket_address: {{ address: 10.0.0.{endpoint}, port_value: 8080 }} }} }}"
        );
    }
    text
}
