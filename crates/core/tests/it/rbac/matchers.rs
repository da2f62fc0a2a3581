//! Permissions and principals that do not look at headers or certificates.

use super::{Case, is_from, permits};

#[test]
fn c238_any_matches_whatever_its_value() {
    for any in ["any: true", "any: false"] {
        assert!(permits(any, &Case::default()));
        assert!(is_from(any, &Case::default()));
    }
}

#[test]
fn c238_url_path_matches_the_method() {
    for (matcher, matches) in [
        ("exact: '/shop.Cart/Add'", true),
        ("exact: '/shop.Cart/add'", false),
        ("exact: '/SHOP.cart/add' ignore_case: true", true),
        ("prefix: '/shop.Cart/'", true),
        ("prefix: 'shop.Cart/'", false),
        ("suffix: '/Add'", true),
        ("suffix: '/add'", false),
        ("contains: 'Cart'", true),
        ("contains: 'Order'", false),
        ("safe_regex { regex: '/shop[.].*/Add' }", true),
        ("safe_regex { regex: 'Cart' }", false),
    ] {
        let url_path = format!("url_path {{ path {{ {matcher} }} }}");
        assert_eq!(permits(&url_path, &Case::default()), matches, "{matcher}");
        assert_eq!(is_from(&url_path, &Case::default()), matches, "{matcher}");
    }
}

#[test]
fn c238_destination_ip_is_the_local_address() {
    let of = |range: &str, destination: &'static str| {
        let case = Case {
            destination,
            ..Case::default()
        };
        permits(&format!("destination_ip {{ {range} }}"), &case)
    };
    let ten = "address_prefix: '10.1.2.3' prefix_len { value: 8 }";
    assert!(of(ten, "10.9.9.9:1"));
    assert!(!of(ten, "11.0.0.1:1"));
    // A socket of both families reports IPv4 addresses in IPv6.
    assert!(of(ten, "[::ffff:10.9.9.9]:1"));
    assert!(!of(ten, "[::a09:909]:1"));
    let documentation = "address_prefix: '2001:db8::' prefix_len { value: 32 }";
    assert!(of(documentation, "[2001:db8:1::2]:1"));
    assert!(!of(documentation, "[2001:db9::2]:1"));
}

#[test]
fn c238_prefix_without_length_matches_the_whole_family() {
    for principal in ["source_ip", "direct_remote_ip", "remote_ip"] {
        let unset = format!("{principal} {{ address_prefix: '0.0.0.0' }}");
        assert!(is_from(&unset, &Case::default()));
        let source = "[2001:db8::1]:40000";
        let six = Case {
            source,
            ..Case::default()
        };
        assert!(!is_from(&unset, &six));
    }
}

#[test]
fn c238_three_names_of_the_peer_address() {
    for principal in ["source_ip", "direct_remote_ip", "remote_ip"] {
        for (prefix, len, matches) in [
            ("10.0.0.0", 24, true),
            ("10.0.0.7", 32, true),
            ("10.0.0.6", 32, false),
            ("10.0.1.0", 24, false),
            // The server's own address.
            ("10.0.0.1", 32, false),
            ("::", 0, false),
        ] {
            let fields = format!("address_prefix: '{prefix}' prefix_len {{ value: {len} }}");
            let id = format!("{principal} {{ {fields} }}");
            assert_eq!(is_from(&id, &Case::default()), matches, "{id}");
        }
    }
}

#[test]
fn c238_destination_port_and_its_range() {
    for (permission, matches) in [
        ("destination_port: 8443", true),
        ("destination_port: 8442", false),
        ("destination_port: 0", false),
        // The port of the peer.
        ("destination_port: 40000", false),
        ("destination_port_range { start: 8000 end: 9000 }", true),
        ("destination_port_range { start: 8443 end: 8444 }", true),
        ("destination_port_range { start: 8444 end: 9000 }", false),
        // The end is not in the range.
        ("destination_port_range { start: 1 end: 8443 }", false),
    ] {
        assert_eq!(
            permits(permission, &Case::default()),
            matches,
            "{permission}"
        );
    }
}

#[test]
fn c238_metadata_matches_only_if_inverted() {
    let value = "filter: 'f' path { key: 'k' } value { null_match {} }";
    for field in ["", value] {
        for invert in [false, true] {
            let metadata = format!("metadata {{ {field} invert: {invert} }}");
            assert_eq!(permits(&metadata, &Case::default()), invert);
            assert_eq!(is_from(&metadata, &Case::default()), invert);
        }
    }
}

#[test]
fn c238_requested_server_name_is_empty() {
    for (matcher, matches) in [
        ("exact: ''", true),
        ("exact: 'shop.example'", false),
        ("safe_regex { regex: '.*' }", true),
        ("safe_regex { regex: '.+' }", false),
        ("prefix: 's'", false),
    ] {
        let permission = format!("requested_server_name {{ {matcher} }}");
        assert_eq!(permits(&permission, &Case::default()), matches, "{matcher}");
    }
}

#[test]
fn c238_and_or_not_of_permissions_and_principals() {
    const YES: &str = "any: true";
    const NO: &str = "metadata {}";
    let set = |field: &str, of: &str, parts: &[&str]| {
        let parts: String = parts.iter().map(|p| format!("{of} {{ {p} }}")).collect();
        format!("{field} {{ {parts} }}")
    };
    for (and, or, parts) in [
        (true, false, &[][..]),
        (true, true, &[YES]),
        (false, false, &[NO]),
        (true, true, &[YES, YES]),
        (false, true, &[YES, NO]),
        (false, true, &[NO, YES]),
        (false, false, &[NO, NO]),
    ] {
        for (field, expected) in [("and", and), ("or", or)] {
            let permission = set(&format!("{field}_rules"), "rules", parts);
            let principal = set(&format!("{field}_ids"), "ids", parts);
            assert_eq!(
                permits(&permission, &Case::default()),
                expected,
                "{permission}"
            );
            assert_eq!(
                is_from(&principal, &Case::default()),
                expected,
                "{principal}"
            );
            let negated = format!("not_rule {{ {permission} }}");
            assert_eq!(permits(&negated, &Case::default()), !expected, "{negated}");
            let negated = format!("not_id {{ {principal} }}");
            assert_eq!(is_from(&negated, &Case::default()), !expected, "{negated}");
        }
    }
}
