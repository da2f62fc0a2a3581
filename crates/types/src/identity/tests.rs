//! V-49 to V-54: versions, features and support.

use envoy_types::pb::envoy::config::core::v3::node::UserAgentVersionType;
use envoy_types::pb::envoy::config::core::v3::{BuildVersion, Extension};

use super::*;
use crate::ApiVersion;
use crate::discovery::{Node, VersionedTypeUrl};

fn majors(names: &[&str]) -> Majors {
    names.iter().map(|name| name.parse().unwrap()).collect()
}

/// Given sets of a client and a server, then the highest common major is used, and an alpha only if both have opted in.
#[test]
fn v49_highest_common_major_is_used() {
    let both = |names: &[&str]| majors(names).allow_alpha();
    for (client, server, common) in [
        (majors(&["v2", "v3"]), majors(&["v2", "v3"]), "v3"),
        (majors(&["v2", "v3"]), majors(&["v2"]), "v2"),
        (
            majors(&["v3", "v4"]),
            majors(&["v2", "v3", "v4", "v5"]),
            "v4",
        ),
        (
            both(&["v3", "v4alpha"]),
            both(&["v3", "v4alpha"]),
            "v4alpha",
        ),
        (both(&["v3", "v4alpha"]), majors(&["v3", "v4alpha"]), "v3"),
        (majors(&["v3", "v4alpha"]), both(&["v3", "v4alpha"]), "v3"),
        (both(&["v4alpha", "v4"]), both(&["v4alpha", "v4"]), "v4"),
    ] {
        let negotiated = negotiate(&client, &server).unwrap();
        assert_eq!(negotiated.to_string(), common, "{client} and {server}");
    }
}

#[test]
fn v49_error_has_both_sets() {
    let client = majors(&["v3", "v4alpha"]).allow_alpha();
    let error = negotiate(&client, &majors(&["v2", "v4alpha"])).unwrap_err();
    assert_eq!(
        error.to_string(),
        "no common API version: the client allows v3, v4alpha; the server supports v2, v4alpha (not opted in)"
    );
    let error = negotiate(&Majors::default(), &majors(&["v3"])).unwrap_err();
    assert!(error.to_string().contains("the client allows none;"));
}

#[test]
fn v49_server_features_name_majors_and_others_are_ignored() {
    let server = Majors::of_server([
        "xds_v3",
        "xds_v4alpha",
        "xds_",
        "xds_v",
        "xds_v03",
        "trusted_xds_server",
    ]);
    assert_eq!(server.to_string(), "v2, v3, v4alpha");
    for wrong in [
        "",
        "v",
        "3",
        "v0",
        "v-1",
        "v3beta",
        "v3alpha1",
        "v99999999999",
    ] {
        assert!(wrong.parse::<Major>().is_err(), "{wrong}");
    }
    assert!(Major::alpha(4) < Major::stable(4) && Major::V3 < Major::alpha(4));
}

#[test]
fn v51_user_agent_is_text_or_build_version() {
    let node = |version| Node {
        user_agent_name: "envoy".to_owned(),
        user_agent_version_type: version,
        ..Node::default()
    };
    let text = UserAgentVersionType::UserAgentVersion("1.2-dev".to_owned());
    let build = UserAgentVersionType::UserAgentBuildVersion(BuildVersion {
        version: Some(SemVer::new(1, 40, 2).into()),
        metadata: None,
    });
    assert_eq!(user_agent(&node(Some(text))), "envoy 1.2-dev");
    assert_eq!(user_agent(&node(Some(build))), "envoy 1.40.2");
    assert_eq!(user_agent(&node(None)), "envoy");
}

#[test]
fn v53_registry_has_the_five_registered_features() {
    let registered = ClientFeatures::of(ApiVersion::V3);
    for feature in [
        "envoy.config.require-any-fields-contain-struct",
        "envoy.lb.does_not_support_overprovisioning",
        "envoy.lrs.supports_send_all_clusters",
        "xds.config.supports-resource-ttl",
        "xds.config.resource-in-sotw",
        VERSIONED_TYPE_URLS,
    ] {
        assert!(registered.has(feature), "{feature}");
    }
    assert!(!registered.has("com.example.new") && !registered.has("#"));
    assert!(!ClientFeatures::of(ApiVersion::V2).has("xds.config.supports-resource-ttl"));
    for version in [ApiVersion::V2, ApiVersion::V3] {
        for feature in ClientFeatures::of(version).iter() {
            assert_eq!(ClientFeatures::check(feature), Ok(()));
        }
    }
    for wrong in ["", "plain", "a..b", ".a", "a b.c", "a.b/c"] {
        let error = ClientFeatures::check(wrong).unwrap_err();
        assert!(error.to_string().contains("reverse DNS form"), "{error}");
    }
}

const FIELD: &str = "envoy.config.cluster.v3.Cluster.new_field";
const CLUSTER: &str = "envoy.config.cluster.v3.Cluster";

fn versioned(message: &str, version: SemVer) -> VersionedTypeUrl {
    VersionedTypeUrl {
        type_url: format!("type.googleapis.com/{message}"),
        most_recently_supported: Some(version.into()),
    }
}

/// Given a field since 3.7.0, then the version of the request decides; another major alone is a no; nothing is unknown.
#[test]
fn v54_versions_decide_support() {
    let requirement = Requirement::default().since(CLUSTER, SemVer::new(3, 7, 0));
    let fields = FieldCatalogue::default().field(FIELD, requirement);
    let node = Node {
        // Not a feature gate (V-51).
        user_agent_name: "envoy".to_owned(),
        ..Node::default()
    };
    let supports = |versions: &[VersionedTypeUrl]| {
        let client = ClientApi::of(&node).with_versions(versions);
        client.supports(&fields, FIELD)
    };
    assert_eq!(supports(&[]), Support::Unknown);
    assert_eq!(
        supports(&[versioned(CLUSTER, SemVer::new(3, 7, 0))]),
        Support::Yes
    );
    assert_eq!(
        supports(&[versioned(CLUSTER, SemVer::new(3, 6, 9))]),
        Support::No
    );
    let next = versioned("envoy.config.cluster.v4.Cluster", SemVer::new(4, 0, 0));
    assert_eq!(supports(std::slice::from_ref(&next)), Support::No);
    assert_eq!(
        supports(&[next, versioned(CLUSTER, SemVer::new(3, 9, 0))]),
        Support::Yes
    );
    let other = versioned("envoy.config.route.v3.Route", SemVer::new(3, 9, 0));
    assert_eq!(supports(&[other]), Support::Unknown);
    let client = ClientApi::of(&node);
    assert_eq!(client.supports(&fields, "not.listed"), Support::Unknown);
}

#[test]
fn v54_features_and_extensions_decide_support() {
    const ROUTER: &str = "envoy.extensions.filters.http.router.v3.Router";
    let fields = FieldCatalogue::default()
        .field("by.feature", Requirement::default().feature("com.acme.x"))
        .field("by.extension", Requirement::default().extension(ROUTER))
        .field(
            "by.both",
            Requirement::default()
                .feature("com.acme.x")
                .since(ROUTER, SemVer::new(1, 2, 0)),
        )
        .field("by.nothing", Requirement::default());
    let extension = |url: &str, disabled| Extension {
        name: "envoy.filters.http.router".to_owned(),
        type_urls: vec![url.to_owned()],
        disabled,
        version: Some(BuildVersion {
            version: Some(SemVer::new(1, 3, 0).into()),
            metadata: None,
        }),
        ..Extension::default()
    };
    let node = |features: &[&str], extensions: Vec<Extension>| Node {
        client_features: features
            .iter()
            .map(|feature| (*feature).to_owned())
            .collect(),
        extensions,
        ..Node::default()
    };
    use Support::{No, Unknown, Yes};
    for (node, by_feature, by_extension, by_both) in [
        (node(&[], vec![]), Unknown, Unknown, Unknown),
        (
            node(&["com.acme.x"], vec![extension(ROUTER, false)]),
            Yes,
            Yes,
            Yes,
        ),
        (
            node(&["other.x"], vec![extension(ROUTER, true)]),
            No,
            No,
            No,
        ),
        (
            node(&["com.acme.x"], vec![extension("other.v1.X", false)]),
            Yes,
            No,
            Unknown,
        ),
        (node(&["com.acme.x"], vec![]), Yes, Unknown, Unknown),
    ] {
        let client = ClientApi::of(&node);
        let found =
            ["by.feature", "by.extension", "by.both"].map(|field| client.supports(&fields, field));
        assert_eq!(found, [by_feature, by_extension, by_both], "{node:?}");
        assert_eq!(client.supports(&fields, "by.nothing"), Unknown);
    }
}
