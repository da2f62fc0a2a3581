//! C-253: sessions by cookie.

use std::time::Duration;

use allocation_counter::measure;

use oxds_core::lb::Connectivity::{Connecting, Idle, Ready, TransientFailure};
use oxds_core::lb::HostState::{Connection, Unconnected, Unusable};
use oxds_core::lb::{HostChoice, SessionConfig, SessionTarget, choose_host};

/// Base64 of `10.0.0.1:80;red`.
const RED: &str = "MTAuMC4wLjE6ODA7cmVk";

fn config() -> SessionConfig {
    SessionConfig {
        cookie: "who".to_owned(),
        ttl: Duration::ZERO,
        path: String::new(),
    }
}

fn target(addresses: &[&str], cluster: &str) -> SessionTarget {
    let addresses = addresses.iter().map(|address| address.parse().unwrap());
    SessionTarget::new(addresses, cluster)
}

fn read(headers: &[&str]) -> SessionTarget {
    config().read(headers.iter().map(|header| header.as_bytes()))
}

#[test]
fn c253_cookie_has_addresses_and_cluster() {
    let red = target(&["10.0.0.1:80"], "red");
    assert_eq!(config().set_cookie(&red), format!("who={RED}; HttpOnly"));
    let config = SessionConfig {
        ttl: Duration::from_millis(120_500),
        path: "/a.B".to_owned(),
        ..config()
    };
    assert_eq!(
        config.set_cookie(&red),
        format!("who={RED}; HttpOnly; Path=/a.B; Max-Age=120")
    );
    // An age of zero would delete the cookie.
    let ttl = Duration::from_millis(1);
    let short = SessionConfig { ttl, ..config };
    assert!(short.set_cookie(&red).ends_with("; Max-Age=1"));
}

#[test]
fn c253_cookie_that_was_set_is_read() {
    for addresses in [
        &["10.0.0.1:80"][..],
        &["[2001:db8::1]:443", "10.0.0.1:80", "[fe80::1%2]:1"],
    ] {
        let target = target(addresses, "a;b,c=\u{e4}");
        let cookie = config().set_cookie(&target);
        let (pair, _) = cookie.split_once(';').unwrap();
        assert_eq!(read(&[pair]), target);
    }
}

#[test]
fn c253_first_cookie_with_the_name_counts() {
    let red = target(&["10.0.0.1:80"], "red");
    let who = format!("who={RED}");
    for headers in [
        vec![who.as_str()],
        vec!["a=b", &who],
        vec!["whom=x; who2=y; awho=z; b"],
        vec!["who =x"],
        vec![],
    ] {
        let expected = if headers.contains(&who.as_str()) {
            red.clone()
        } else {
            SessionTarget::default()
        };
        assert_eq!(read(&headers), expected, "{headers:?}");
    }
    assert_eq!(read(&[&format!("a=b; {who};who=x")]), red);
    assert_eq!(read(&[&format!("who=x; {who}")]), SessionTarget::default());
    // With quotes and without padding (RFC 6265, section 4.1.1).
    assert_eq!(
        read(&["who=\"MS4yLjMuNDo4MDt4\""]),
        target(&["1.2.3.4:80"], "x")
    );
    assert_eq!(read(&["who=MS4yLjMuNDo4MA"]), target(&["1.2.3.4:80"], ""));
    assert_eq!(read(&["who=MS4yLjMuNDo4MA=="]), target(&["1.2.3.4:80"], ""));
}

#[test]
fn c253_malformed_cookie_begins_a_session() {
    for value in [
        "",
        "=",
        "\"",
        "10.0.0.1:80",
        // "10.0.0.1;red", ";red", "10.0.0.1:80,,;red", "host:80;red", and no UTF-8
        "MTAuMC4wLjE7cmVk",
        "O3JlZA==",
        "MTAuMC4wLjE6ODAsLDtyZWQ=",
        "aG9zdDo4MDtyZWQ=",
        "/////w==",
    ] {
        let header = format!("who={value}");
        assert_eq!(read(&[&header]), SessionTarget::default(), "{value}");
    }
    assert_eq!(
        config().read([&b"who=\xff\xfe"[..], b"who=x"]),
        SessionTarget::default()
    );
}

#[test]
fn c253_long_or_many_cookies_cost_little() {
    // The longest value that is read.
    let long = target(&["10.0.0.1:80"], &"c".repeat(3072 - 12));
    let cookie = config().set_cookie(&long);
    let (pair, _) = cookie.split_once(';').unwrap();
    assert_eq!(pair.len(), "who=".len() + 4096);
    assert_eq!(read(&[pair]), long);
    let longer = target(&["10.0.0.1:80"], &"c".repeat(3072 - 11));
    let cookie = config().set_cookie(&longer);
    let (pair, _) = cookie.split_once(';').unwrap();
    assert_eq!(read(&[pair]), SessionTarget::default());
    // Nothing is copied of a value that is too long.
    let many = "x=y; ".repeat(1 << 20) + "who=" + &"A".repeat(12 << 20);
    let allocations = measure(|| assert_eq!(read(&[&many]), SessionTarget::default()));
    assert!(allocations.bytes_total < 1024, "{allocations:?}");
}

#[test]
fn c253_path_limits_the_session() {
    let of = |path: &str| SessionConfig {
        path: path.to_owned(),
        ..config()
    };
    for (path, request, applies) in [
        ("", "/a.B/C", true),
        ("/", "/a.B/C", true),
        ("/a.B", "/a.B/C", true),
        ("/a.B/", "/a.B/C", true),
        ("/a.B/C", "/a.B/C", true),
        ("/a.B", "/a.Bc/C", false),
        ("/a.B/C", "/a.B", false),
        ("/a.B/C/", "/a.B/C", false),
        ("/x", "/a.B/C", false),
    ] {
        assert_eq!(of(path).applies_to(request), applies, "{path} {request}");
    }
}

#[test]
fn c253_ready_address_is_used_before_others_connect() {
    let states = [
        Unusable,
        Unconnected,
        Connection(TransientFailure),
        Connection(Idle),
        Connection(Connecting),
        Connection(Ready),
        Connection(Ready),
    ];
    assert_eq!(choose_host(states), HostChoice::Use(5));
    assert_eq!(choose_host(states[..5].to_vec()), HostChoice::Connect(3));
    assert_eq!(choose_host([states[4], states[1]]), HostChoice::Wait);
    assert_eq!(choose_host(states[..3].to_vec()), HostChoice::Connect(1));
    assert_eq!(choose_host([states[0], states[2]]), HostChoice::Delegate);
    assert_eq!(choose_host([]), HostChoice::Delegate);
}
