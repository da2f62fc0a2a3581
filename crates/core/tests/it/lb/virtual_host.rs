//! C-223: the virtual host of an authority.

use oxds_core::resource::RouteConfig;

use crate::support::text::accepted;

/// Returns the domains of the chosen virtual host.
fn chosen<'a>(hosts: &[&'a str], authority: &str) -> Option<&'a str> {
    let text: String = hosts
        .iter()
        .map(|domains| {
            let domains: String = domains
                .split(' ')
                .map(|d| format!("domains: '{d}' "))
                .collect();
            format!("virtual_hosts {{ name: 'h' {domains} }}")
        })
        .collect();
    let config: RouteConfig = accepted(&format!("name: 'r' {text}"));
    config
        .choose_virtual_host(authority)
        .map(|index| hosts[index])
}

#[test]
fn c223_exact_then_suffix_then_prefix_then_any() {
    let mut hosts = vec!["*", "a.*", "a.b.*", "*.d", "*.c.d", "a.b.c.d"];
    for expected in ["a.b.c.d", "*.c.d", "*.d", "a.b.*", "a.*", "*"] {
        assert_eq!(chosen(&hosts, "a.b.c.d"), Some(expected));
        hosts.reverse();
        assert_eq!(
            chosen(&hosts, "a.b.c.d"),
            Some(expected),
            "whatever their order"
        );
        hosts.retain(|domain| *domain != expected);
    }
    assert_eq!(chosen(&hosts, "a.b.c.d"), None);
}

#[test]
fn c223_best_domain_counts_and_first_host_wins_ties() {
    assert_eq!(chosen(&["x *", "y a.b"], "a.b"), Some("y a.b"));
    assert_eq!(chosen(&["x a.b", "y a.b"], "a.b"), Some("x a.b"));
    assert_eq!(chosen(&["x *", "y *"], "a.b"), Some("x *"));
}

#[test]
fn c223_domain_match_ignores_case() {
    for domain in ["Foo.COM", "*.Com", "FOO.*"] {
        assert_eq!(chosen(&[domain], "fOO.com"), Some(domain));
    }
}

#[test]
fn c223_star_matches_at_least_one_character() {
    assert_eq!(chosen(&["*.foo.com"], "foo.com"), None);
    assert_eq!(chosen(&["*.foo.com"], ".foo.com"), None);
    assert_eq!(chosen(&["foo.*"], "foo."), None);
    assert_eq!(chosen(&["*-x"], "a-x"), Some("*-x"));
    assert_eq!(
        chosen(&["foo.com"], "foo.com:80"),
        None,
        "a port is part of an authority"
    );
}

/// As in Envoy, C-core and grpc-go, a second `*` is a literal character.
#[test]
fn c180_second_star_of_a_domain_is_a_character() {
    assert_eq!(chosen(&["*x*"], "axb"), None);
    assert_eq!(chosen(&["*x*"], "ax*"), Some("*x*"));
    assert_eq!(chosen(&["**"], "a*"), Some("**"));
    assert_eq!(chosen(&["a*b*"], "a*bc"), Some("a*b*"));
    assert_eq!(chosen(&["a*b*"], "aab"), None);
    assert_eq!(chosen(&["*"], "a"), Some("*"));
}
