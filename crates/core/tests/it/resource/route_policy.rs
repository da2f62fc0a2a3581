//! C-192, C-193 and C-234: retry and hash policies of routes.

use std::time::Duration;

use oxds_core::lb::HashSource;
use oxds_core::resource::{RouteAction, RouteConfig};

use super::route::{actions, fault, forward, route};
use crate::support::text::{accepted, rejected};

/// At the virtual host and at the route.
#[test]
fn c192_bad_retry_policies_are_rejected() {
    let at_route = |policy: &str| format!("route {{ cluster: 'c' retry_policy {{ {policy} }} }}");
    let at_host = |policy: &str| {
        format!("name: 'r' virtual_hosts {{ name: 'h' domains: '*' retry_policy {{ {policy} }} }}")
    };
    for good in [
        "",
        "retry_on: 'cancelled, 5xx, unavailable' num_retries { value: 9 }",
        "retry_back_off { base_interval { nanos: 1 } }",
        "retry_back_off { base_interval { seconds: 1 } max_interval { seconds: 1 } }",
    ] {
        assert_eq!(
            actions(&route("prefix: ''", &at_route(good))).len(),
            1,
            "{good}"
        );
        accepted::<RouteConfig>(&at_host(good));
    }
    for (bad, rule) in [
        ("num_retries {}", "num_retries: must not be zero"),
        (
            "retry_back_off {}",
            "retry_back_off.base_interval: must be set",
        ),
        (
            "retry_back_off { base_interval {} }",
            "retry_back_off.base_interval: must be above zero",
        ),
        (
            "retry_back_off { base_interval { seconds: -1 } }",
            "retry_back_off.base_interval: must be a duration that is not negative",
        ),
        (
            "retry_back_off { base_interval { seconds: 1 } max_interval { nanos: -1 } }",
            "retry_back_off.max_interval: must be a duration that is not negative",
        ),
        (
            "retry_on: 'nothing' retry_back_off { base_interval { seconds: 2 } max_interval { seconds: 1 } }",
            "retry_back_off.max_interval: must not be below base_interval",
        ),
    ] {
        assert_eq!(
            fault("prefix: ''", &at_route(bad)),
            format!("route.retry_policy.{rule}")
        );
        let error = rejected::<RouteConfig>(&at_host(bad));
        assert_eq!(error, format!("r: virtual_hosts[0].retry_policy.{rule}"));
    }
}

/// As in C-core, also if the channel ignores the route.
#[test]
fn c193_bad_hash_regexes_are_rejected() {
    let header = |pattern: &str| {
        format!(
            "hash_policy {{ cookie {{ name: 'c' }} }} hash_policy {{ header {{ header_name: 'h' regex_rewrite {{ {pattern} }} }} }}"
        )
    };
    let good = header("pattern { regex: '(a' } substitution: 'b'").replace("(a", "(a|b)");
    for cluster in ["cluster: 'c'", "cluster_header: 'h'"] {
        let action = |policy: &str| format!("route {{ {cluster} {policy} }}");
        accepted::<RouteConfig>(&route("prefix: ''", &action(&good)));
        let within = "route.hash_policy[1].header.regex_rewrite.pattern";
        assert_eq!(
            fault("prefix: ''", &action(&header(""))),
            format!("{within}: must be set")
        );
        let error = fault("prefix: ''", &action(&header("pattern { regex: '(a' }")));
        let rule = format!("{within}.regex: is not a valid regular expression: ");
        assert!(error.starts_with(&rule), "{error}");
    }
}

#[test]
fn c192_retry_policy_is_read_with_grpc_defaults() {
    let retry = |policy: &str| forward(&format!("retry_policy {{ {policy} }}")).retry;
    assert_eq!(forward("").retry, None);
    // No condition that gRPC supports: no retries.
    assert_eq!(retry(""), None);
    assert_eq!(retry("retry_on: '5xx,reset'"), None);
    let policy = retry("retry_on: 'cancelled, 5xx,unavailable'").unwrap();
    let codes: Vec<u32> = (0..32)
        .filter(|code| policy.codes.contains(*code))
        .collect();
    assert_eq!(codes, [1, 14]);
    assert_eq!(policy.max_attempts, 2);
    assert_eq!(policy.base, Duration::from_millis(25));
    assert_eq!(policy.max, Duration::from_millis(250));
    let all = "retry_on: 'deadline-exceeded,internal,resource-exhausted' num_retries { value: 9 }";
    let policy = retry(all).unwrap();
    assert!([4, 8, 13].iter().all(|code| policy.codes.contains(*code)));
    assert_eq!(policy.max_attempts, 5);
    let quick = "retry_on: 'internal' retry_back_off { base_interval { nanos: 1 } }";
    let policy = retry(quick).unwrap();
    assert_eq!(
        (policy.base, policy.max),
        (Duration::from_millis(1), Duration::from_millis(1))
    );
    let whole = "retry_on: 'internal' num_retries { value: 4294967295 }";
    assert_eq!(retry(whole).unwrap().max_attempts, 5);
}

#[test]
fn c234_retry_policy_of_the_route_replaces_the_hosts() {
    let host = |action: &str| {
        let config = accepted::<RouteConfig>(&format!(
            "name: 'r' virtual_hosts {{ name: 'h' domains: '*'
               retry_policy {{ retry_on: 'unavailable' }}
               routes {{ match {{ prefix: '' }} route {{ cluster: 'c' {action} }} }} }}"
        ));
        match &config.virtual_hosts[0].routes[0].action {
            RouteAction::Forward(forward) => forward.retry.clone(),
            other => panic!("{other:?}"),
        }
    };
    assert!(host("").unwrap().codes.contains(14));
    let own = host("retry_policy { retry_on: 'internal' }").unwrap();
    assert!(own.codes.contains(13) && !own.codes.contains(14));
    // A policy that retries nothing replaces that of the host, too.
    assert_eq!(host("retry_policy {}"), None);
}

#[test]
fn c193_supported_hash_policies_are_read_in_order() {
    let policies = forward(
        "hash_policy { cookie { name: 'c' } terminal: true }
         hash_policy { header { header_name: 'X-User' } }
         hash_policy { connection_properties { source_ip: true } }
         hash_policy { filter_state { key: 'other' } }
         hash_policy { filter_state { key: 'io.grpc.channel_id' } terminal: true }",
    )
    .hash;
    let header = HashSource::Header {
        name: "x-user".into(),
        rewrite: None,
    };
    let found: Vec<_> = policies
        .iter()
        .map(|one| (&one.source, one.terminal))
        .collect();
    assert_eq!(found, [(&header, false), (&HashSource::ChannelId, true)]);
}
