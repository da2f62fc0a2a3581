//! Configurations: the base with one case each, encoded without validation.

use std::collections::BTreeMap;

use oxds_types::codec::{Format, read_documents};
use oxds_types::{ResourceType, descriptor, discovery::Any};
use prost::Message as _;
use serde_json::Value;

use super::case::{Case, PatchTarget};
use crate::Fallible;

/// A duration that JSON can express, in place of one that it cannot: nanoseconds of more than a second.
const NANOS: (&str, u64, u64) = ("7.777777777s", 777_777_777, 1_777_777_777);
/// The same for more seconds than protobuf allows.
const SECONDS: (&str, u64, u64) = ("315576000000s", 315_576_000_000, 315_576_000_001);

/// Short forms of `"@type": …` in patches.
const TYPES: [(&str, &str); 21] = [
    (
        "$Manager",
        "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
    ),
    ("$Router", "envoy.extensions.filters.http.router.v3.Router"),
    ("$Fault", "envoy.extensions.filters.http.fault.v3.HTTPFault"),
    ("$Cors", "envoy.extensions.filters.http.cors.v3.Cors"),
    (
        "$Xff",
        "envoy.extensions.http.original_ip_detection.xff.v3.XffConfig",
    ),
    ("$FilterConfig", "envoy.config.route.v3.FilterConfig"),
    ("$TypedStruct", "xds.type.v3.TypedStruct"),
    ("$UdpaStruct", "udpa.type.v1.TypedStruct"),
    (
        "$Aggregate",
        "envoy.extensions.clusters.aggregate.v3.ClusterConfig",
    ),
    (
        "$RoundRobin",
        "envoy.extensions.load_balancing_policies.round_robin.v3.RoundRobin",
    ),
    (
        "$PickFirst",
        "envoy.extensions.load_balancing_policies.pick_first.v3.PickFirst",
    ),
    (
        "$RingHash",
        "envoy.extensions.load_balancing_policies.ring_hash.v3.RingHash",
    ),
    (
        "$LeastRequest",
        "envoy.extensions.load_balancing_policies.least_request.v3.LeastRequest",
    ),
    (
        "$Maglev",
        "envoy.extensions.load_balancing_policies.maglev.v3.Maglev",
    ),
    (
        "$WrrLocality",
        "envoy.extensions.load_balancing_policies.wrr_locality.v3.WrrLocality",
    ),
    (
        "$Weighted",
        "envoy.extensions.load_balancing_policies.client_side_weighted_round_robin.v3.ClientSideWeightedRoundRobin",
    ),
    (
        "$Subsetting",
        "envoy.extensions.load_balancing_policies.random_subsetting.v3.RandomSubsetting",
    ),
    (
        "$Override",
        "envoy.extensions.load_balancing_policies.override_host.v3.OverrideHost",
    ),
    (
        "$RawBuffer",
        "envoy.extensions.transport_sockets.raw_buffer.v3.RawBuffer",
    ),
    (
        "$Proxy",
        "envoy.extensions.transport_sockets.http_11_proxy.v3.Http11ProxyUpstreamTransport",
    ),
    (
        "$Tls",
        "envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
    ),
];

/// A source of numbers that is the same for the same seed: SplitMix64.
#[derive(Clone, Debug)]
pub(super) struct Random(pub(super) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(super) fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    /// A number of a range; each second time one of its ends.
    fn within(&mut self, low: u64, high: u64) -> u64 {
        match self.below(4) {
            0 => low,
            1 => high,
            _ => low + self.next() % (high - low).saturating_add(1).max(1),
        }
    }
}

/// A configuration to send: its resources by type, and the type of the changed one.
#[derive(Clone, Debug)]
pub(super) struct Configuration {
    pub(super) case: &'static Case,
    /// The patch with its drawn values.
    pub(super) patch: String,
    /// The name of the listener is that of the target, so it differs.
    pub(super) resources: BTreeMap<ResourceType, Any>,
    pub(super) changed: ResourceType,
}

/// Makes a configuration for `target`.
pub(super) fn configuration(
    case: &'static Case,
    random: &mut Random,
    target: &str,
    backend: std::net::SocketAddr,
) -> Fallible<Configuration> {
    let patch = drawn(case.patch, random)?;
    let (changed, pointer) = patched(case.target);
    let mut resources = BTreeMap::new();
    for (resource_type, text) in base(target, backend) {
        let mut value = yaml(&text)?;
        let is_changed = resource_type == changed;
        if is_changed {
            let target = value
                .pointer_mut(pointer)
                .ok_or("a target without a base")?;
            merge(target, yaml(&format!("{{ {patch} }}"))?);
        }
        let any = encoded(&value).map_err(|error| format!("{}: {patch}: {error}", case.row))?;
        resources.insert(resource_type, any);
    }
    Ok(Configuration {
        case,
        patch,
        resources,
        changed,
    })
}

/// Replaces each `<low..high>` by a number, and each `<a|b>` by one of the texts.
fn drawn(patch: &str, random: &mut Random) -> Fallible<String> {
    let mut out = String::new();
    let mut rest = patch;
    while let Some((before, after)) = rest.split_once('<') {
        let (inner, after) = after.split_once('>').ok_or("a `<` without `>`")?;
        out.push_str(before);
        match inner.split_once("..") {
            Some((low, high)) => {
                out.push_str(&random.within(low.parse()?, high.parse()?).to_string());
            }
            None => {
                let texts: Vec<_> = inner.split('|').collect();
                out.push_str(texts[random.below(texts.len())]);
            }
        }
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

fn yaml(text: &str) -> Fallible<Value> {
    let mut text = text.replace("NANOS", NANOS.0).replace("SECONDS", SECONDS.0);
    for (short, name) in TYPES {
        text = text.replace(short, &format!("\"@type\": type.googleapis.com/{name}"));
    }
    serde_saphyr::from_str(&text).map_err(|error| format!("{text}: {error}").into())
}

/// Merges as RFC 7386 does, but replaces a message that states its type.
fn merge(target: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *target = patch;
        return;
    };
    if patch.contains_key("@type") || !target.is_object() {
        *target = Value::Object(serde_json::Map::new());
    }
    let Some(fields) = target.as_object_mut() else {
        return;
    };
    for (name, value) in patch {
        if value.is_null() {
            fields.remove(&name);
        } else {
            merge(fields.entry(name).or_insert(Value::Null), value);
        }
    }
}

/// Encodes a resource in its JSON form, without validation.
fn encoded(value: &Value) -> Fallible<Any> {
    let text = serde_json::to_vec(value)?;
    let mut read = read_documents(descriptor::pool(), Format::Json, &text, None)?;
    let document = read.pop().ok_or("no document")?;
    let mut bytes = document.message.encode_to_vec();
    for (_, valid, invalid) in [NANOS, SECONDS] {
        replace(&mut bytes, &varint(valid), &varint(invalid));
    }
    Ok(Any {
        type_url: document.type_url.ok_or("no @type")?,
        value: bytes.into(),
    })
}

fn varint(number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    prost::encoding::encode_varint(number, &mut bytes);
    bytes
}

/// Replaces bytes by others of the same length, so that the lengths of messages stay right.
fn replace(bytes: &mut [u8], old: &[u8], new: &[u8]) {
    let mut start = 0;
    while let Some(found) = bytes[start..].windows(old.len()).position(|at| at == old) {
        let at = start + found;
        bytes[at..at + new.len()].copy_from_slice(new);
        start = at + new.len();
    }
}

/// Resource type and JSON pointer of a target.
fn patched(target: PatchTarget) -> (ResourceType, &'static str) {
    match target {
        PatchTarget::Listener => (ResourceType::LISTENER, ""),
        PatchTarget::Manager => (ResourceType::LISTENER, "/api_listener/api_listener"),
        PatchTarget::Fault => (
            ResourceType::LISTENER,
            "/api_listener/api_listener/http_filters/0/typed_config",
        ),
        PatchTarget::Routes => (ResourceType::ROUTE, ""),
        PatchTarget::VirtualHost => (ResourceType::ROUTE, "/virtual_hosts/0"),
        PatchTarget::Route => (ResourceType::ROUTE, "/virtual_hosts/0/routes/0"),
        PatchTarget::Match => (ResourceType::ROUTE, "/virtual_hosts/0/routes/0/match"),
        PatchTarget::Action => (ResourceType::ROUTE, "/virtual_hosts/0/routes/0/route"),
        PatchTarget::Cluster => (ResourceType::CLUSTER, ""),
        PatchTarget::Assignment => (ResourceType::ENDPOINT, ""),
        PatchTarget::Locality => (ResourceType::ENDPOINT, "/endpoints/0"),
        PatchTarget::Endpoint => (ResourceType::ENDPOINT, "/endpoints/0/lb_endpoints/0"),
    }
}

/// The valid configuration that the cases change.
fn base(target: &str, backend: std::net::SocketAddr) -> [(ResourceType, String); 4] {
    let listener = format!(
        r#""@type": type.googleapis.com/envoy.config.listener.v3.Listener
name: {target}
api_listener:
  api_listener:
    "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
    stat_prefix: ingress
    rds:
      route_config_name: routes
      config_source: {{ ads: {{}}, resource_api_version: V3 }}
    http_filters:
    - name: fault
      typed_config: {{ "@type": type.googleapis.com/envoy.extensions.filters.http.fault.v3.HTTPFault }}
    - name: router
      typed_config: {{ "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router }}
"#
    );
    let routes = r#""@type": type.googleapis.com/envoy.config.route.v3.RouteConfiguration
name: routes
virtual_hosts:
- name: all
  domains: ["*"]
  routes:
  - match: { prefix: "" }
    route: { cluster: blue }
"#;
    let cluster = r#""@type": type.googleapis.com/envoy.config.cluster.v3.Cluster
name: blue
type: EDS
eds_cluster_config:
  eds_config: { ads: {}, resource_api_version: V3 }
"#;
    let (ip, port) = (backend.ip(), backend.port());
    let assignment = format!(
        r#""@type": type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment
cluster_name: blue
endpoints:
- locality: {{ region: here }}
  load_balancing_weight: 1
  lb_endpoints:
  - endpoint: {{ address: {{ socket_address: {{ address: {ip}, port_value: {port} }} }} }}
"#
    );
    [
        (ResourceType::LISTENER, listener),
        (ResourceType::ROUTE, routes.to_owned()),
        (ResourceType::CLUSTER, cluster.to_owned()),
        (ResourceType::ENDPOINT, assignment),
    ]
}
