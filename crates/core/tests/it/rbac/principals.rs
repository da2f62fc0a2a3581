//! `authenticated`: names of the client's certificate.

use super::{Case, identity, is_from};

fn named(matcher: &str) -> String {
    format!("authenticated {{ principal_name {{ {matcher} }} }}")
}

#[test]
fn c238_authenticated_without_name_needs_only_tls() {
    let anonymous = Case {
        is_tls: true,
        ..Case::default()
    };
    assert!(is_from("authenticated {}", &anonymous));
    let client = Case::of(identity(&["spiffe://a/b"], &[], ""));
    assert!(is_from("authenticated {}", &client));
    assert!(!is_from("authenticated {}", &Case::default()));
}

#[test]
fn c238_no_certificate_has_the_empty_name() {
    let anonymous = Case {
        is_tls: true,
        ..Case::default()
    };
    assert!(is_from(&named("exact: ''"), &anonymous));
    assert!(!is_from(&named("exact: 'a'"), &anonymous));
    // Without TLS, not even the empty name matches.
    assert!(!is_from(&named("exact: ''"), &Case::default()));
    // A certificate has its own names.
    let client = Case::of(identity(&["spiffe://a/b"], &[], "CN=b"));
    assert!(!is_from(&named("exact: ''"), &client));
}

#[test]
fn c238_uri_names_come_before_dns_names_and_subject() {
    let wanted = named("contains: 'legitimate'");
    for (uris, dns, subject, matches) in [
        (&["spiffe://x/legitimate"][..], &[][..], "", true),
        (
            &["spiffe://x/other", "spiffe://x/legitimate"],
            &[],
            "",
            true,
        ),
        (&["spiffe://x/other"], &["legitimate.x"], "", false),
        (&["spiffe://x/other"], &[], "CN=legitimate", false),
        (&[], &["other.x", "legitimate.x"], "", true),
        (&[], &["other.x"], "CN=legitimate", false),
        (&[], &[], "CN=legitimate,O=x", true),
        (&[], &[], "CN=other,O=x", false),
        (&[], &[], "", false),
    ] {
        let case = Case::of(identity(uris, dns, subject));
        assert_eq!(
            is_from(&wanted, &case),
            matches,
            "{uris:?} {dns:?} {subject}"
        );
    }
}

#[test]
fn c238_principal_name_matcher_kinds() {
    let case = Case::of(identity(&["spiffe://shop/ns/a/sa/cart"], &[], ""));
    for (matcher, matches) in [
        ("exact: 'spiffe://shop/ns/a/sa/cart'", true),
        (
            "exact: 'SPIFFE://SHOP/ns/a/sa/cart' ignore_case: true",
            true,
        ),
        ("prefix: 'spiffe://shop/'", true),
        ("prefix: 'spiffe://store/'", false),
        ("suffix: '/sa/cart'", true),
        ("safe_regex { regex: 'spiffe://shop/ns/.*/sa/cart' }", true),
        ("safe_regex { regex: 'shop' }", false),
    ] {
        assert_eq!(is_from(&named(matcher), &case), matches, "{matcher}");
    }
}
