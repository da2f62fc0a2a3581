//! Consistency of the table of resource types.

use std::collections::BTreeSet;

use super::*;

#[test]
fn constants_match_the_rows_of_the_table() {
    let rows = [
        (ResourceType::CLUSTER, "cds"),
        (ResourceType::ENDPOINT, "eds"),
        (ResourceType::LB_ENDPOINT, "leds"),
        (ResourceType::SECRET, "sds"),
        (ResourceType::LISTENER, "lds"),
        (ResourceType::ROUTE, "rds"),
        (ResourceType::SCOPED_ROUTE, "srds"),
        (ResourceType::VIRTUAL_HOST, "vhds"),
        (ResourceType::RUNTIME, "rtds"),
        (ResourceType::EXTENSION_CONFIG, "ecds"),
        (ResourceType::RATE_LIMIT_CONFIG, "rlsc"),
    ];
    assert_eq!(rows.len(), ResourceType::known().len());
    for ((resource_type, short_name), known) in rows.into_iter().zip(ResourceType::known()) {
        assert_eq!(resource_type, known);
        assert_eq!(resource_type.short_name(), Some(short_name));
        assert_eq!(
            ResourceType::from_short_name(&short_name.to_uppercase()),
            Some(resource_type)
        );
    }
}

#[test]
fn s51_types_sort_in_make_before_break_order() {
    let other = ResourceType::from_message("acme.v1.Thing").0;
    let sent = [
        ResourceType::CLUSTER,
        ResourceType::ENDPOINT,
        ResourceType::SECRET,
        ResourceType::LISTENER,
        ResourceType::ROUTE,
        ResourceType::VIRTUAL_HOST,
        other,
    ];
    assert!(sent.is_sorted());
    assert_eq!(sent.iter().collect::<BTreeSet<_>>().len(), sent.len());
}

#[test]
fn s61_any_message_is_a_resource_type() {
    let url = "type.googleapis.com/acme.v1.Thing";
    let (resource_type, version) = ResourceType::from_type_url(url).unwrap();
    assert_eq!(version, ApiVersion::V3);
    assert_eq!(resource_type.type_url(), url);
    assert_eq!(resource_type.message(), "acme.v1.Thing");
    assert_eq!(resource_type.to_string(), "acme.v1.Thing");
    assert_eq!(resource_type.short_name(), None);
    assert!(!resource_type.all_resources_required_in_sotw());
}

#[test]
fn s62_v2_and_v3_type_urls_are_one_resource_type() {
    for resource_type in ResourceType::known() {
        assert_eq!(
            ResourceType::from_type_url(resource_type.type_url()),
            Some((resource_type.clone(), ApiVersion::V3))
        );
        if let Some(url) = resource_type.type_url_in(ApiVersion::V2) {
            assert_eq!(
                ResourceType::from_type_url(url),
                Some((resource_type, ApiVersion::V2))
            );
        }
    }
}

#[test]
fn s58_malformed_type_urls_are_not_resource_types() {
    for text in [
        "",
        "/",
        "Cluster",
        "envoy.config.cluster.v3.Cluster",
        "type.googleapis.com/",
        "x/a..b",
        "x/a.b c",
        "x/.a",
    ] {
        assert_eq!(ResourceType::from_type_url(text), None, "{text:?}");
    }
}

#[test]
fn only_lds_and_cds_require_all_resources_in_sotw() {
    let full: Vec<_> = ResourceType::known()
        .filter(ResourceType::all_resources_required_in_sotw)
        .collect();
    assert_eq!(full, [ResourceType::CLUSTER, ResourceType::LISTENER]);
}

#[test]
fn resource_type_has_the_size_of_two_pointers() {
    assert_eq!(size_of::<ResourceType>(), 2 * size_of::<usize>());
}

#[test]
fn constants_can_be_match_patterns() {
    let name = match ResourceType::LISTENER {
        ResourceType::CLUSTER => "cluster",
        ResourceType::LISTENER => "listener",
        _ => "other",
    };
    assert_eq!(name, "listener");
}
