//! Header matchers: which headers are visible, and with which values.

use super::{Case, Pairs, is_from, permits};

fn header(fields: &str, case: &Case) -> bool {
    let matcher = format!("header {{ {fields} }}");
    let permission = permits(&matcher, case);
    assert_eq!(permission, is_from(&matcher, case), "{matcher}");
    permission
}

#[test]
fn c238_header_matcher_kinds() {
    for (matcher, value, matches) in [
        ("exact_match: 'gold'", "gold", true),
        ("exact_match: 'gold'", "golden", false),
        ("prefix_match: 'go'", "gold", true),
        ("suffix_match: 'go'", "gold", false),
        ("contains_match: 'ol'", "gold", true),
        ("safe_regex_match { regex: 'g.*' }", "gold", true),
        // Regular expressions match the whole value.
        ("safe_regex_match { regex: 'ol' }", "gold", false),
        ("range_match { start: 1 end: 5 }", "4", true),
        ("range_match { start: 1 end: 5 }", "5", false),
        ("range_match { start: 1 end: 5 }", "gold", false),
        ("present_match: true", "", true),
        ("present_match: false", "gold", false),
        (
            "string_match { exact: 'GOLD' ignore_case: true }",
            "gold",
            true,
        ),
        ("string_match { exact: 'GOLD' }", "gold", false),
    ] {
        let case = Case::with_header("tier", value);
        let fields = format!("name: 'tier' {matcher}");
        assert_eq!(header(&fields, &case), matches, "{matcher} {value}");
        let inverted = format!("{fields} invert_match: true");
        assert_eq!(header(&inverted, &case), !matches, "{inverted} {value}");
    }
}

#[test]
fn c238_absent_header_matches_only_as_absent() {
    let case = Case::default();
    assert!(header("name: 'tier' present_match: false", &case));
    assert!(header(
        "name: 'tier' present_match: true invert_match: true",
        &case
    ));
    for matcher in ["exact_match: ''", "range_match { start: 0 end: 9 }"] {
        for invert in [false, true] {
            let fields = format!("name: 'tier' {matcher} invert_match: {invert}");
            assert!(!header(&fields, &case), "{fields}");
        }
    }
}

#[test]
fn c238_header_name_has_no_case_and_values_are_joined() {
    let case = Case {
        headers: Pairs(vec![("tier", "a"), ("tier", "b")]),
        ..Case::default()
    };
    assert!(header("name: 'TIER' exact_match: 'a,b'", &case));
    assert!(!header("name: 'tier' exact_match: 'a'", &case));
}

#[test]
fn c238_pseudo_headers_of_the_request() {
    let case = Case::default();
    for (fields, matches) in [
        ("name: ':path' exact_match: '/shop.Cart/Add'", true),
        ("name: ':path' prefix_match: '/shop.Order'", false),
        ("name: ':method' exact_match: 'POST'", true),
        ("name: ':method' exact_match: 'GET'", false),
        ("name: ':authority' exact_match: 'shop.example:443'", true),
        // Both names mean the authority, whatever the request has in `host`.
        ("name: 'host' exact_match: 'shop.example:443'", true),
        ("name: 'Host' exact_match: 'other'", false),
        ("name: ':status' present_match: true", false),
    ] {
        assert_eq!(header(fields, &case), matches, "{fields}");
    }
    let renamed = Case::with_header("host", "other");
    assert!(!header("name: 'host' exact_match: 'other'", &renamed));
}

#[test]
fn c238_hop_by_hop_headers_are_not_visible() {
    for name in [
        "te",
        "connection",
        "keep-alive",
        "upgrade",
        "transfer-encoding",
    ] {
        let case = Case::with_header(name, "trailers");
        assert!(!header(
            &format!("name: '{name}' present_match: true"),
            &case
        ));
        assert!(header(
            &format!("name: '{name}' present_match: false"),
            &case
        ));
    }
}

#[test]
fn c238_content_type_and_binary_headers_are_visible() {
    // Routes see another content type, and no binary header (C-224). RBAC sees what the client sent.
    let case = Case::with_header("content-type", "application/grpc+proto");
    assert!(header(
        "name: 'content-type' exact_match: 'application/grpc+proto'",
        &case
    ));
    let case = Case::with_header("trace-bin", "AAEC");
    assert!(header("name: 'trace-bin' exact_match: 'AAEC'", &case));
}
