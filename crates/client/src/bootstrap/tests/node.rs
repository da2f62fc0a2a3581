//! C-22 – C-25: `node`.

use envoy_types::pb::google::protobuf::value::Kind;
use serde_json::json;

use super::{minimal, read, with};

#[test]
fn c22_node_fields_are_sent_as_written() {
    let node = json!({
        "id": "me", "cluster": "shop",
        "locality": { "region": "r", "zone": "z", "sub_zone": "s" },
        "metadata": { "null": null, "list": [1, "two", { "three": false }] },
    });
    let bootstrap = read(&with("node", node)).unwrap();
    let node = bootstrap.node();
    assert_eq!((node.id.as_str(), node.cluster.as_str()), ("me", "shop"));
    let locality = node.locality.as_ref().unwrap();
    assert_eq!(
        (&*locality.region, &*locality.zone, &*locality.sub_zone),
        ("r", "z", "s")
    );
    let metadata = &node.metadata.as_ref().unwrap().fields;
    assert_eq!(metadata["null"].kind, Some(Kind::NullValue(0)));
    let Some(Kind::ListValue(list)) = &metadata["list"].kind else {
        panic!("a list")
    };
    assert_eq!(list.values[0].kind, Some(Kind::NumberValue(1.0)));
    assert_eq!(
        list.values[1].kind,
        Some(Kind::StringValue("two".to_owned()))
    );
    let Some(Kind::StructValue(inner)) = &list.values[2].kind else {
        panic!("an object")
    };
    assert_eq!(inner.fields["three"].kind, Some(Kind::BoolValue(false)));
}

#[test]
fn c23_missing_node_is_sent_with_user_agent() {
    let bootstrap = read(&minimal()).unwrap();
    assert_eq!(bootstrap.node().id, "");
    assert_eq!(bootstrap.node().user_agent_name, "oxds");
}

#[test]
fn c24_file_cannot_set_user_agent() {
    let node = json!({ "id": "me", "user_agent_name": "other", "client_features": ["lie"], "build_version": "0" });
    let bootstrap = read(&with("node", node)).unwrap();
    assert_eq!(bootstrap.node().user_agent_name, "oxds");
    assert!(!bootstrap.node().client_features.contains(&"lie".to_owned()));
}

#[test]
fn c25_node_lists_client_features() {
    let features = read(&minimal()).unwrap().node().client_features.clone();
    for feature in [
        "envoy.lb.does_not_support_overprovisioning",
        "xds.config.resource-in-sotw",
    ] {
        assert!(features.iter().any(|known| known == feature), "{feature}");
    }
}
