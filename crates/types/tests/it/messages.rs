//! Messages that a program makes, checked as resources.

use std::collections::HashMap;

use envoy_types::pb::envoy::config::cluster::v3::Cluster;
use envoy_types::pb::envoy::config::core::v3::{Metadata, TypedExtensionConfig};
use envoy_types::pb::envoy::config::endpoint::v3::LbEndpoint;
use envoy_types::pb::google::protobuf::value::Kind as Json;
use envoy_types::pb::google::protobuf::{Any, Duration, Struct, Value};
use oxds_types::ResourceType;
use oxds_types::codec::{Format, check};
use prost::Message as _;

use crate::load;

/// Returns a message with a map. Its iteration order differs in each call, because std seeds every map separately.
fn metadata() -> Metadata {
    let value = Value {
        kind: Some(Json::BoolValue(true)),
    };
    let fields: HashMap<_, _> = (0..50)
        .map(|i| (format!("key-{i}"), value.clone()))
        .collect();
    Metadata {
        filter_metadata: [("oxds".to_owned(), Struct { fields })].into(),
        ..Metadata::default()
    }
}

fn cluster() -> Cluster {
    Cluster {
        name: "blue".into(),
        metadata: Some(metadata()),
        ..Cluster::default()
    }
}

/// Given equal messages with maps in different orders, when they are checked, then the resources have equal bytes, also
/// for a map in an `Any`. A file with the same content gives the same resource.
#[test]
fn s29_equal_messages_become_equal_resources() {
    let one = check(&cluster(), None).unwrap();
    for _ in 0..5 {
        assert_eq!(check(&cluster(), None).unwrap(), one);
        let wrapped = || TypedExtensionConfig {
            name: "filter".into(),
            typed_config: Some(Any {
                type_url: ResourceType::CLUSTER.type_url().into(),
                value: cluster().encode_to_vec(),
            }),
        };
        assert_eq!(check(&wrapped(), None), check(&wrapped(), None));
    }
    let fields: Vec<_> = (0..50).map(|i| format!("key-{i}: true")).collect();
    let file = format!(
        "'@type': type.googleapis.com/envoy.config.cluster.v3.Cluster\nname: blue\nmetadata: {{filter_metadata: {{oxds: {{{}}}}}}}\n",
        fields.join(", ")
    );
    let read = load(Format::Yaml, &file).unwrap();
    assert_eq!((&read[0].any, read[0].version), (&one.any, one.version));
}

/// Given a message that breaks two rules of the API, when it is checked, then both errors are reported with their
/// paths.
#[test]
fn s71_invalid_message_reports_every_error() {
    let invalid = check(
        &Cluster {
            connect_timeout: Some(Duration::default()),
            lb_policy: 77,
            ..cluster()
        },
        None,
    );
    assert_eq!(
        invalid.unwrap_err().to_string(),
        "blue: connect_timeout: duration.gt = 0s does not hold, value is 0s; \
         blue: lb_policy: enum.defined_only does not hold, value is 77"
    );
    let nameless = check(&Cluster::default(), None).unwrap_err();
    assert!(
        nameless.to_string().contains("missing name") || nameless.to_string().contains("name:"),
        "{nameless}"
    );
}

/// Given a message type without a name field, when it is checked, then the caller must give the name.
#[test]
fn message_without_name_field_needs_a_name() {
    let endpoint = LbEndpoint::default();
    assert_eq!(
        check(&endpoint, None).unwrap_err().to_string(),
        "missing name in envoy.config.endpoint.v3.LbEndpoint"
    );
    let resource = check(&endpoint, Some("eu/1")).unwrap();
    assert_eq!(
        (resource.resource_type, &*resource.name),
        (ResourceType::LB_ENDPOINT, "eu/1")
    );
}
