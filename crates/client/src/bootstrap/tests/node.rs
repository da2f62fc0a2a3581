//! C-22 – C-25, V-51 – V-53: `node`.

use envoy_types::pb::envoy::config::core::v3::node::UserAgentVersionType;
use envoy_types::pb::google::protobuf::value::Kind;
use oxds_types::ApiVersion;
use oxds_types::identity::{ClientFeatures, SemVer, user_agent};
use serde_json::json;

use super::{minimal, read, with};
use crate::bootstrap::{Bootstrap, Extension};

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

/// Given a builder with a user agent and a version as text or as numbers with metadata, then the node has them.
#[test]
fn v51_builder_sets_user_agent_and_build_version() {
    let builder = || Bootstrap::builder("cp:1").user_agent("shop-proxy");
    let text = builder().user_agent_version("1.2-dev").build().unwrap();
    assert_eq!(user_agent(text.node()), "shop-proxy 1.2-dev");
    let metadata = json!({ "revision": "f4d6ecb" });
    let built = builder().build_version(SemVer::new(1, 2, 3), &metadata);
    let built = built.build().unwrap();
    assert_eq!(user_agent(built.node()), "shop-proxy 1.2.3");
    let Some(UserAgentVersionType::UserAgentBuildVersion(build)) =
        &built.node().user_agent_version_type
    else {
        panic!("a build version")
    };
    let revision = &build.metadata.as_ref().unwrap().fields["revision"];
    assert_eq!(revision.kind, Some(Kind::StringValue("f4d6ecb".to_owned())));
}

#[test]
fn v52_builder_lists_extensions() {
    let url = "type.googleapis.com/acme.audit.v1.Audit";
    let audit = Extension::new("com.acme.audit", "envoy.filters.http")
        .version(SemVer::new(1, 2, 0))
        .type_url(url);
    let router = Extension::new("envoy.filters.http.router", "envoy.filters.http").disabled();
    let bootstrap = Bootstrap::builder("cp:1")
        .extension(audit)
        .extension(router);
    let bootstrap = bootstrap.build().unwrap();
    let [audit, router] = &bootstrap.node().extensions[..] else {
        panic!("two extensions")
    };
    assert_eq!(
        (&*audit.name, &*audit.category),
        ("com.acme.audit", "envoy.filters.http")
    );
    assert_eq!(audit.type_urls, [url]);
    let version = audit.version.as_ref().unwrap().version.as_ref().unwrap();
    assert_eq!(SemVer::from(version), SemVer::new(1, 2, 0));
    assert!(!audit.disabled && router.disabled && router.version.is_none());
}

/// Given all features that this library can send, then each of them is registered.
#[test]
fn v53_features_of_the_library_are_registered() {
    let registered = ClientFeatures::of(ApiVersion::V3);
    let own = Bootstrap::builder("cp:1").build().unwrap();
    let others = [
        "xds.config.supports-resource-ttl",
        "envoy.lrs.supports_send_all_clusters",
    ];
    let others = others.map(str::to_owned);
    for feature in own.node().client_features.iter().chain(&others) {
        assert!(registered.has(feature), "{feature}");
    }
}

#[test]
fn v53_malformed_feature_is_an_error_and_own_ones_are_sent() {
    let builder = || Bootstrap::builder("cp:1");
    let error = builder().client_feature("no dots").unwrap_err();
    assert!(error.to_string().contains("reverse DNS form"), "{error}");
    let own = builder().client_feature("com.acme.burst").unwrap();
    let own = own
        .client_feature("com.acme.burst")
        .unwrap()
        .build()
        .unwrap();
    let features = &own.node().client_features;
    let sent = features
        .iter()
        .filter(|feature| *feature == "com.acme.burst");
    assert_eq!(sent.count(), 1);
}
