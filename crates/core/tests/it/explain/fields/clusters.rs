//! The fields of clusters and their endpoints.

use bytes::Bytes;
use oxds_core::explain::{ClusterStep, RuleSet};
use oxds_types::ResourceType;
use oxds_types::descriptor::message;
use prost::Message as _;
use prost_reflect::{DynamicMessage, FieldDescriptor, Value};

use super::sorted::{CLUSTER, OF_CLUSTERS, Sorted};
use super::{change, set};
use crate::explain::{Made, rpc};

/// A cluster whose endpoints differ in what may count: both priorities together have too few healthy ones, and both use
/// all that they have. Its assignment is that of EDS, too.
const FIELDS: &str = "
  name: 'a' common_lb_config { healthy_panic_threshold { value: 60 } }
  load_assignment { cluster_name: 'a' policy {}
    endpoints { locality { zone: 'one' } load_balancing_weight { value: 3 }
      lb_endpoints { endpoint { address { socket_address { address: '10.0.0.1' port_value: 1 } } } load_balancing_weight { value: 2 } }
      lb_endpoints { endpoint { address { socket_address { address: '10.0.0.2' port_value: 1 } } } health_status: UNHEALTHY }
      lb_endpoints { endpoint { address { socket_address { address: '10.0.0.3' port_value: 1 } } } health_status: UNHEALTHY } }
    endpoints { locality { zone: 'two' } load_balancing_weight { value: 1 }
      lb_endpoints { endpoint { address { socket_address { address: '10.0.0.4' port_value: 1 } } } } }
    endpoints { priority: 1
      lb_endpoints { endpoint { address { socket_address { address: '10.0.1.1' port_value: 1 } } } }
      lb_endpoints { endpoint { address { socket_address { address: '10.0.1.2' port_value: 1 } } } health_status: UNHEALTHY }
      lb_endpoints { endpoint { address { socket_address { address: '10.0.1.3' port_value: 1 } } } health_status: UNHEALTHY }
      lb_endpoints { endpoint { address { socket_address { address: '10.0.1.4' port_value: 1 } } } health_status: UNHEALTHY }
      lb_endpoints { endpoint { address { socket_address { address: '10.0.1.5' port_value: 1 } } } health_status: UNHEALTHY } } }";

fn cluster() -> DynamicMessage {
    DynamicMessage::parse_text_format(message(CLUSTER).unwrap(), FIELDS).unwrap()
}

/// The explanations of a cluster: once with its own assignment, and once with the same from EDS.
fn explained(cluster: &DynamicMessage) -> [ClusterStep; 2] {
    let assignment = cluster.get_field_by_name("load_assignment").unwrap();
    let assignment = assignment.as_message().unwrap().encode_to_vec();
    let has_type = ["type", "cluster_type"].map(|field| cluster.has_field_by_name(field));
    [false, true].map(|is_eds| {
        let mut cluster = cluster.clone();
        if is_eds && has_type == [false; 2] {
            cluster.set_field_by_name("type", Value::EnumNumber(3));
        }
        let mut made = Made::all("routes { match { prefix: '' } route { cluster: 'a' } }");
        let mut add = |resource_type, value: Vec<u8>| {
            let key = (resource_type, "a".to_owned());
            made.0.insert(key, Bytes::from(value));
        };
        add(ResourceType::CLUSTER, cluster.encode_to_vec());
        add(ResourceType::ENDPOINT, assignment.clone());
        let decision = made.by(RuleSet::Envoy, &rpc("/x"));
        decision.clusters.into_iter().next().unwrap()
    })
}

fn with(sorted: &Sorted, field: &FieldDescriptor) -> DynamicMessage {
    let mut cluster = cluster();
    change(&mut cluster, sorted.path, &mut |message| {
        set(message, field, 3);
    });
    cluster
}

fn compare(
    list: impl Fn(&Sorted) -> &'static [&'static str],
    is_right: impl Fn(&str, &[ClusterStep; 2], &[ClusterStep; 2]) -> bool,
) {
    let base = explained(&cluster());
    let mut wrong = Vec::new();
    for sorted in &OF_CLUSTERS {
        let descriptor = message(sorted.message).unwrap();
        for name in list(sorted) {
            let field = descriptor.get_field_by_name(name).unwrap();
            let steps = explained(&with(sorted, &field));
            if !is_right(name, &base, &steps) {
                wrong.push(format!("{}.{name}: {steps:?}", sorted.message));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn plain_cluster_has_shares_and_notes_about_its_health_alone() {
    let [own, from_eds] = explained(&cluster());
    assert_eq!(own.priorities, from_eds.priorities);
    let all_are_used = |priority| {
        format!("priority {priority}: too few endpoints are healthy, so all of them are used")
    };
    assert_eq!(own.notes, [0, 1].map(all_are_used));
}

#[test]
fn examined_fields_of_clusters_change_the_explanation() {
    let changes = |_: &str, base: &[ClusterStep; 2], found: &[ClusterStep; 2]| base != found;
    compare(|sorted| sorted.examined, changes);
}

#[test]
fn reported_fields_of_clusters_are_noted() {
    let notes = |name: &str, _: &[ClusterStep; 2], found: &[ClusterStep; 2]| {
        // Policies begin with low load on new endpoints by a field of the same name.
        let name = match name {
            "round_robin_lb_config" | "least_request_lb_config" => "slow_start_config",
            name => name,
        };
        let mut steps = found.iter();
        steps.all(|step| step.notes.iter().any(|note| note.starts_with(name)))
    };
    compare(|sorted| sorted.reported, notes);
}

#[test]
fn fields_of_clusters_without_effect_change_nothing() {
    let same = |_: &str, base: &[ClusterStep; 2], found: &[ClusterStep; 2]| base == found;
    compare(|sorted| sorted.no_effect, same);
}
