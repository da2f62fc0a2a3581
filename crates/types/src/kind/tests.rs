//! The table of kinds holds together.

use std::collections::BTreeSet;

use super::*;

#[test]
fn constants_name_the_rows_they_say() {
    let rows = [
        (Kind::CLUSTER, "cds"),
        (Kind::ENDPOINT, "eds"),
        (Kind::LB_ENDPOINT, "leds"),
        (Kind::LISTENER, "lds"),
        (Kind::ROUTE, "rds"),
        (Kind::SCOPED_ROUTE, "srds"),
        (Kind::VIRTUAL_HOST, "vhds"),
        (Kind::SECRET, "sds"),
        (Kind::RUNTIME, "rtds"),
        (Kind::EXTENSION_CONFIG, "ecds"),
        (Kind::RATE_LIMIT_CONFIG, "rlsc"),
    ];
    assert_eq!(rows.len(), Kind::known().len());
    for ((kind, short_name), known) in rows.into_iter().zip(Kind::known()) {
        assert_eq!(kind, known);
        assert_eq!(kind.short_name(), Some(short_name));
        assert_eq!(
            Kind::from_short_name(&short_name.to_uppercase()),
            Some(kind)
        );
    }
}

#[test]
fn s51_kinds_sort_in_the_order_of_make_before_break() {
    let other = Kind::from_message("acme.v1.Thing").0;
    let sent = [
        Kind::CLUSTER,
        Kind::ENDPOINT,
        Kind::LISTENER,
        Kind::ROUTE,
        Kind::VIRTUAL_HOST,
        other,
    ];
    assert!(sent.is_sorted());
    assert_eq!(sent.iter().collect::<BTreeSet<_>>().len(), sent.len());
}

#[test]
fn s61_any_message_is_a_kind() {
    let url = "type.googleapis.com/acme.v1.Thing";
    let (kind, version) = Kind::from_type_url(url).unwrap();
    assert_eq!(version, ApiVersion::V3);
    assert_eq!(kind.type_url(), url);
    assert_eq!(kind.message(), "acme.v1.Thing");
    assert_eq!(kind.to_string(), "acme.v1.Thing");
    assert_eq!(kind.short_name(), None);
    assert!(!kind.is_full_state());
}

#[test]
fn s62_v2_and_v3_urls_name_one_kind() {
    for kind in Kind::known() {
        assert_eq!(
            Kind::from_type_url(kind.type_url()),
            Some((kind.clone(), ApiVersion::V3))
        );
        if let Some(url) = kind.type_url_in(ApiVersion::V2) {
            assert_eq!(Kind::from_type_url(url), Some((kind, ApiVersion::V2)));
        }
    }
}

#[test]
fn s58_what_is_not_a_type_url_is_no_kind() {
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
        assert_eq!(Kind::from_type_url(text), None, "{text:?}");
    }
}

#[test]
fn only_lds_and_cds_carry_full_state() {
    let full: Vec<_> = Kind::known().filter(Kind::is_full_state).collect();
    assert_eq!(full, [Kind::CLUSTER, Kind::LISTENER]);
}

#[test]
fn a_handle_is_two_words() {
    assert_eq!(size_of::<Kind>(), 2 * size_of::<usize>());
}

#[test]
fn constants_can_be_patterns() {
    let name = match Kind::LISTENER {
        Kind::CLUSTER => "cluster",
        Kind::LISTENER => "listener",
        _ => "other",
    };
    assert_eq!(name, "listener");
}
