//! Policies, actions, and several filters in a row.

use oxds_core::rbac::{Action, Verdict};
use oxds_core::resource::{Extensions, FilterConfig, FilterOverride, Listener, RbacConfig};

use super::{ANY_PERMISSION, ANY_PRINCIPAL, Case, filter, identity, policy, read, rules};
use crate::support::text::{accepted, rejected};

/// Decision of filters in their order: the first one that denies the call ends it.
fn decide(chain: &[&RbacConfig], case: &Case) -> bool {
    chain.iter().all(|config| case.is_allowed(config))
}

#[test]
fn c238_allow_needs_a_policy_and_deny_needs_none() {
    let case = Case::default();
    assert!(!case.is_allowed(&rules("action: ALLOW")));
    assert!(case.is_allowed(&rules("action: DENY")));
    // The default is ALLOW.
    assert!(!case.is_allowed(&rules("")));
    let all = policy("all", ANY_PERMISSION, ANY_PRINCIPAL);
    assert!(case.is_allowed(&rules(&all)));
    assert!(!case.is_allowed(&rules(&format!("action: DENY {all}"))));
}

#[test]
fn c238_policy_without_permissions_or_principals_never_matches() {
    for (permissions, principals) in [("", ANY_PRINCIPAL), (ANY_PERMISSION, ""), ("", "")] {
        let empty = policy("empty", permissions, principals);
        assert!(!Case::default().is_allowed(&rules(&empty)));
        assert!(Case::default().is_allowed(&rules(&format!("action: DENY {empty}"))));
    }
}

#[test]
fn c238_filter_without_rules_and_log_allow_every_call() {
    let denies = policy(
        "all",
        ANY_PERMISSION,
        "principals { header { name: 'grpc-x' } }",
    );
    for fields in [
        String::new(),
        "rules { action: LOG }".to_owned(),
        // Rules that only log are ignored, even invalid ones.
        format!("rules {{ action: LOG {denies} }}"),
        // Shadow rules decide nothing.
        "shadow_rules { action: ALLOW }".to_owned(),
    ] {
        let config = filter(&fields);
        assert_eq!(config.rules, None, "{fields}");
        let call = Case::default();
        assert_eq!(config.evaluate(&call.call()), Verdict::ALLOWED);
    }
}

#[test]
fn c238_first_matching_policy_by_name_is_reported() {
    let path = |path: &str| format!("permissions {{ url_path {{ path {{ exact: '{path}' }} }} }}");
    let text = [
        policy("c-all", ANY_PERMISSION, ANY_PRINCIPAL),
        policy("a-add", &path("/shop.Cart/Add"), ANY_PRINCIPAL),
        policy("b-add", &path("/shop.Cart/Add"), ANY_PRINCIPAL),
    ];
    let config = rules(&format!("action: DENY {}", text.concat()));
    let names: Vec<_> = config.rules.as_ref().unwrap().policies().iter().collect();
    let names: Vec<_> = names.iter().map(|policy| &*policy.name).collect();
    assert_eq!(names, ["a-add", "b-add", "c-all"]);
    assert_eq!(config.rules.as_ref().unwrap().action(), Action::Deny);
    let verdict = |case: &Case| {
        let call = case.call();
        let verdict = config.evaluate(&call);
        (verdict.is_allowed, verdict.policy.map(str::to_owned))
    };
    assert_eq!(verdict(&Case::default()), (false, Some("a-add".into())));
    let other = Case {
        path: "/shop.Cart/Get",
        ..Case::default()
    };
    assert_eq!(verdict(&other), (false, Some("c-all".into())));
}

#[test]
fn c238_policy_needs_both_a_permission_and_a_principal() {
    let text = policy(
        "p",
        "permissions { url_path { path { prefix: '/shop.Cart/' } } }
         permissions { destination_port: 1 }",
        "principals { source_ip { address_prefix: '10.0.0.0' prefix_len { value: 8 } } }
         principals { header { name: 'admin' present_match: true } }",
    );
    let config = rules(&text);
    let outside = "192.0.2.1:4";
    for (case, allowed) in [
        (Case::default(), true),
        (
            Case {
                path: "/x.Y/Z",
                ..Case::default()
            },
            false,
        ),
        (
            Case {
                source: outside,
                ..Case::default()
            },
            false,
        ),
        (
            Case {
                source: outside,
                ..Case::with_header("admin", "")
            },
            true,
        ),
        (
            Case {
                destination: "10.0.0.1:1",
                path: "/x.Y/Z",
                ..Case::default()
            },
            true,
        ),
    ] {
        assert_eq!(case.is_allowed(&config), allowed, "{:?}", case.call());
    }
}

#[test]
fn c238_service_admin_and_product_viewer() {
    // The example of the API's documentation.
    let config = rules(&[
        policy(
            "service-admin",
            ANY_PERMISSION,
            "principals { authenticated { principal_name { exact: 'cluster.local/ns/default/sa/admin' } } }
             principals { authenticated { principal_name { exact: 'cluster.local/ns/default/sa/superuser' } } }",
        ),
        policy(
            "product-viewer",
            "permissions { and_rules {
               rules { header { name: ':method' string_match { exact: 'POST' } } }
               rules { url_path { path { prefix: '/products' } } }
               rules { or_rules { rules { destination_port: 80 } rules { destination_port: 443 } } } } }",
            ANY_PRINCIPAL,
        ),
    ]
    .concat());
    for (case, allowed) in [
        (
            Case::of(identity(&["cluster.local/ns/default/sa/admin"], &[], "")),
            true,
        ),
        (
            Case::of(identity(
                &["cluster.local/ns/default/sa/superuser"],
                &[],
                "",
            )),
            true,
        ),
        (
            Case::of(identity(&["cluster.local/ns/default/sa/other"], &[], "")),
            false,
        ),
        (
            Case {
                path: "/products/List",
                destination: "10.0.0.1:443",
                ..Case::default()
            },
            true,
        ),
        (
            Case {
                path: "/products/List",
                destination: "10.0.0.1:80",
                ..Case::default()
            },
            true,
        ),
        (
            Case {
                path: "/products/List",
                destination: "10.0.0.1:81",
                ..Case::default()
            },
            false,
        ),
        (
            Case {
                path: "/orders/List",
                destination: "10.0.0.1:443",
                ..Case::default()
            },
            false,
        ),
    ] {
        assert_eq!(case.is_allowed(&config), allowed, "{:?}", case.call());
    }
}

#[test]
fn c238_chain_of_filters_needs_every_filter() {
    let near =
        "principals { direct_remote_ip { address_prefix: '10.0.0.0' prefix_len { value: 10 } } }";
    let allow = rules(&policy("near", ANY_PERMISSION, near));
    let secret = "permissions { url_path { path { prefix: '/secret' } } }";
    let deny = rules(&format!(
        "action: DENY {}",
        policy("secret", secret, ANY_PRINCIPAL)
    ));
    for (path, source, allowed) in [
        ("/open", "10.0.0.9:1", true),
        ("/secret", "10.0.0.9:1", false),
        ("/open", "192.0.2.1:1", false),
        ("/secret", "192.0.2.1:1", false),
    ] {
        let case = Case {
            path,
            source,
            ..Case::default()
        };
        for chain in [[&*allow, &*deny], [&*deny, &*allow]] {
            assert_eq!(decide(&chain, &case), allowed, "{path} {source}");
        }
    }
}

#[test]
fn c238_route_override_without_rbac_disables_the_filter() {
    let off = read(&Extensions::default(), "").unwrap();
    assert_eq!(off, FilterOverride::Disabled);
    // With a filter but without rules, the filter runs and allows.
    let empty = read(&Extensions::default(), "rbac {}").unwrap();
    assert!(
        matches!(empty, FilterOverride::Config(FilterConfig::Rbac(config)) if config.rules.is_none())
    );
}

#[test]
fn c238_equal_configurations_are_equal_values() {
    let text = policy(
        "p",
        "permissions { url_path { path { safe_regex { regex: 'a' } } } }",
        ANY_PRINCIPAL,
    );
    assert_eq!(rules(&text), rules(&text));
    assert_ne!(rules(&text), rules(&format!("action: DENY {text}")));
    assert_ne!(rules(&text), rules(&text.replace("'a'", "'b'")));
}

#[test]
fn c238_client_listener_with_rbac_must_mark_it_optional() {
    let listener = |optional: bool| {
        format!(
            "name: 'l' api_listener {{ api_listener {{
               [type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager] {{
                 rds {{ route_config_name: 'r' config_source {{ ads {{}} }} }}
                 http_filters {{ name: 'authz' is_optional: {optional} typed_config {{
                   [type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBAC] {{ rules {{}} }} }} }}
                 http_filters {{ name: 'router' typed_config {{
                   [type.googleapis.com/envoy.extensions.filters.http.router.v3.Router] {{}} }} }} }} }} }}"
        )
    };
    let accepted: Listener = accepted(&listener(true));
    assert!(accepted.api.unwrap().filters.is_empty());
    let error = rejected::<Listener>(&listener(false));
    assert!(error.contains("http_filters[0]: \"authz\""), "{error}");
    assert!(error.contains("is not supported"), "{error}");
}
