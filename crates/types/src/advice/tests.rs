//! Advice about listeners, RBAC rules and certificate providers, with the place of each.

use std::path::Path;

use crate::codec::{self, Format, Options};

/// Returns the warnings of a YAML file: line, path and text.
fn warnings_with(yaml: &str, options: &Options) -> Vec<String> {
    let loaded = codec::decode(Path::new("a.yaml"), Format::Yaml, yaml.as_bytes(), options);
    let loaded = loaded.unwrap_or_else(|errors| panic!("{errors:?}"));
    let warnings = loaded.iter().flat_map(|resource| &resource.warnings);
    let text = |warning: &crate::Error| {
        let line = warning.position.map_or(0, |position| position.line);
        format!("{line}: {}: {}", warning.path, warning.reason)
    };
    warnings.map(text).collect()
}

fn warnings(yaml: &str) -> Vec<String> {
    warnings_with(yaml, &Options::default())
}

/// A listener with these filter chains, and a default chain. Chains have no filters.
fn listener(chains: &str, has_default: bool) -> String {
    let default = if has_default {
        "default_filter_chain: {}\n"
    } else {
        ""
    };
    format!(
        "\"@type\": type.googleapis.com/envoy.config.listener.v3.Listener\nname: front\n{default}filter_chains:\n{chains}"
    )
}

#[test]
fn equal_filter_chain_matches_are_reported() {
    let chains = "- filter_chain_match: { source_prefix_ranges: [{ address_prefix: 10.1.2.3, prefix_len: 8 }] }\n\
                  - filter_chain_match: { server_names: [A.example.com, b.example.com] }\n\
                  - filter_chain_match:\n    source_prefix_ranges:\n    - { address_prefix: 10.0.0.0, prefix_len: 8 }\n\
                  - filter_chain_match: { server_names: [a.example.com] }\n";
    assert_eq!(
        warnings(&listener(chains, false)),
        [
            "6: filter_chains[2].filter_chain_match: matches the same connections as filter_chains[0]: clients reject the listener",
            "9: filter_chains[3].filter_chain_match: matches some of the same connections as filter_chains[1]: clients reject the listener",
        ]
    );
}

#[test]
fn different_filter_chain_matches_are_not_reported() {
    let chains = "- {}\n\
                  - filter_chain_match: { source_ports: [1, 2] }\n\
                  - filter_chain_match: { source_ports: [3], source_type: EXTERNAL }\n\
                  - filter_chain_match: { source_prefix_ranges: [{ address_prefix: 10.0.0.0, prefix_len: 8 }] }\n\
                  - filter_chain_match: { source_prefix_ranges: [{ address_prefix: 10.0.0.0, prefix_len: 9 }] }\n\
                  - filter_chain_match: { source_prefix_ranges: [{ address_prefix: \"::\", prefix_len: 8 }] }\n\
                  - filter_chain_match: { transport_protocol: tls }\n";
    assert_eq!(warnings(&listener(chains, false)), [""; 0]);
}

/// Chains are chosen by one criterion after the other, without going back: only the last listener's default is
/// reachable.
#[test]
fn default_chain_behind_a_catch_all_is_reported() {
    let unreachable =
        ["3: default_filter_chain: no connection reaches it, as filter_chains[1] matches all"];
    let one = "- filter_chain_match: { server_names: [a.example.com] }\n- {}\n";
    assert_eq!(warnings(&listener(one, true)), unreachable);
    assert_eq!(warnings(&listener(one, false)), [""; 0]);
    let two = "- filter_chain_match: { server_names: [a.example.com], source_ports: [1] }\n- {}\n";
    assert_eq!(warnings(&listener(two, true)), [""; 0]);
}

/// 10,000 chains, and matches with more combinations than can be compared.
#[test]
fn large_listeners_are_checked_in_bounded_time() {
    let chain = |n: usize| format!("- filter_chain_match: {{ source_ports: [{n}] }}\n");
    let chains: String = (1..=10_000).map(chain).collect();
    assert_eq!(warnings(&listener(&chains, false)), [""; 0]);
    let again = chains + &chain(77);
    let found = warnings(&listener(&again, false));
    assert_eq!(found.len(), 1);
    assert!(found[0].contains("filter_chains[76]"), "{found:?}");

    let ports: Vec<String> = (1..=400).map(|n| n.to_string()).collect();
    let names: Vec<String> = (1..=400).map(|n| format!("h{n}")).collect();
    let (ports, names) = (ports.join(", "), names.join(", "));
    let huge =
        format!("- filter_chain_match: {{ source_ports: [{ports}], server_names: [{names}] }}\n");
    assert_eq!(warnings(&listener(&huge.repeat(2), false)), [""; 0]);
}

/// The listener of a gRPC server, with this address and these lines.
fn grpc_server(name: &str, port: u16, chains: &str) -> String {
    format!(
        "\"@type\": type.googleapis.com/envoy.config.listener.v3.Listener\n\
         name: \"{name}\"\n\
         address: {{ socket_address: {{ address: 0.0.0.0, port_value: {port} }} }}\n{chains}"
    )
}

const NAME: &str = "grpc/server?xds.resource.listening_address=0.0.0.0:8443";

const MANAGER: &str = "{ name: hcm, typed_config: { \"@type\": type.googleapis.com/envoy.extensions.filters.network.\
http_connection_manager.v3.HttpConnectionManager, stat_prefix: s, route_config: { name: r } } }";

#[test]
fn listener_of_a_grpc_server_has_its_address() {
    let chains = format!("default_filter_chain: {{ filters: [{MANAGER}] }}\n");
    let xdstp = "xdstp://a/envoy.config.listener.v3.Listener/grpc/server/0.0.0.0:8443";
    for name in [NAME, xdstp] {
        assert_eq!(warnings(&grpc_server(name, 8443, &chains)), [""; 0]);
        assert_eq!(
            warnings(&grpc_server(name, 8444, &chains)),
            [
                "3: address: gRPC servers that request this listener listen on 0.0.0.0:8443, and reject the address 0.0.0.0:8444"
            ]
        );
    }
    assert_eq!(warnings(&grpc_server("front", 8444, &chains)), [""; 0]);
}

#[test]
fn filter_chains_that_grpc_servers_ignore_are_reported() {
    let chains = format!(
        "filter_chains:\n- filter_chain_match: {{ server_names: [a] }}\n  filters: [{MANAGER}]\n\
         listener_filters: [{{ name: f }}]\n"
    );
    assert_eq!(
        warnings(&grpc_server(NAME, 8443, &chains)),
        [
            "7: listener_filters: gRPC servers reject listeners with it (gRFC A36)",
            "5: filter_chains[0].filter_chain_match.server_names: gRPC servers ignore a filter chain with this criterion (gRFC A36)",
            "4: filter_chains: no filter chain is left for gRPC servers, which reject the listener (gRFC A36)",
        ]
    );
    assert_eq!(warnings(&grpc_server("front", 8443, &chains)), [""; 0]);
}

#[test]
fn tls_that_grpc_servers_reject_is_reported() {
    let socket = |common: &str| {
        format!(
            "default_filter_chain:\n  filters: [{MANAGER}]\n  transport_socket:\n    name: tls\n    typed_config:\n      \
             \"@type\": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext\n      \
             require_client_certificate: true\n      common_tls_context:\n{common}"
        )
    };
    let secret =
        "        tls_certificate_sds_secret_configs: [{ name: key, sds_config: { ads: {} } }]\n";
    let tls = "default_filter_chain.transport_socket.typed_config";
    assert_eq!(
        warnings(&grpc_server(NAME, 8443, &socket(secret))),
        [
            format!(
                "11: {tls}.common_tls_context: gRPC servers expect tls_certificate_provider_instance, and take certificates from nowhere else (gRFC A29)"
            ),
            format!(
                "10: {tls}.require_client_certificate: gRPC servers expect a validation context with ca_certificate_provider_instance (gRFC A29)"
            ),
        ]
    );
    let providers = "        tls_certificate_provider_instance: { instance_name: own }\n        \
                     validation_context: { ca_certificate_provider_instance: { instance_name: mesh } }\n";
    let file = grpc_server(NAME, 8443, &socket(providers));
    assert_eq!(warnings(&file), [""; 0], "without a bootstrap");
    let mut options = Options {
        certificate_providers: Some(["own".to_owned()].into()),
        ..Options::default()
    };
    assert_eq!(
        warnings_with(&file, &options),
        [format!(
            "13: {tls}.common_tls_context.validation_context.ca_certificate_provider_instance.instance_name: certificate \
             provider \"mesh\" is not in the bootstrap, expected \"own\": gRPC clients reject the resource"
        )]
    );
    options.certificate_providers = Some(["mesh".to_owned(), "own".to_owned()].into());
    assert_eq!(warnings_with(&file, &options), [""; 0]);
    let names = providers.replace(
        " } }\n",
        " }, match_typed_subject_alt_names: [{ san_type: URI, matcher: { exact: a } }] }\n",
    );
    let found = warnings(&grpc_server(NAME, 8443, &socket(&names)));
    assert_eq!(
        found,
        [format!(
            "13: {tls}.common_tls_context.validation_context.match_typed_subject_alt_names: gRPC servers reject names of \
             clients here, and match them by RBAC (gRFC A29)"
        )]
    );
}

/// An HTTP RBAC filter with this policy.
fn rbac(policy: &str) -> String {
    format!(
        "\"@type\": type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig\nname: rbac\ntyped_config:\n  \
         \"@type\": type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBAC\n  rules:\n    policies:\n      p:\n{policy}"
    )
}

#[test]
fn rbac_policy_that_never_matches_is_reported() {
    let path = "typed_config.rules.policies[\"p\"]";
    let any = "        principals: [{ any: true }]\n";
    let cases = [
        ("[{ not_rule: { any: true } }]", true),
        (
            "[{ and_rules: { rules: [{ any: true }, { not_rule: { any: true } }] } }]",
            true,
        ),
        (
            "[{ or_rules: { rules: [{ not_rule: { any: true } }] } }]",
            true,
        ),
        ("[{ destination_port_range: { start: 9, end: 9 } }]", true),
        (
            "[{ not_rule: { any: true } }, { destination_port: 9 }]",
            false,
        ),
        ("[{ not_rule: { not_rule: { any: true } } }]", false),
        ("[{ not_rule: { destination_port: 9 } }]", false),
    ];
    for (permissions, is_reported) in cases {
        let found = warnings(&rbac(&format!("        permissions: {permissions}\n{any}")));
        let expected = format!(
            "8: {path}.permissions: the policy never matches: no request meets its permissions"
        );
        if is_reported {
            assert_eq!(found, [expected], "{permissions}");
        } else {
            assert_eq!(found, [""; 0], "{permissions}");
        }
    }
    let no_one =
        "        permissions: [{ any: true }]\n        principals: [{ not_id: { any: true } }]\n";
    assert_eq!(
        warnings(&rbac(no_one)),
        [format!(
            "9: {path}.principals: the policy never matches: no request meets its principals"
        )]
    );
}

#[test]
fn rbac_condition_is_reported() {
    let policy = "        permissions: [{ any: true }]\n        principals: [{ any: true }]\n        \
                  condition: { id: 1, const_expr: { bool_value: true } }\n";
    assert_eq!(
        warnings(&rbac(policy)),
        [
            "10: typed_config.rules.policies[\"p\"].condition: gRPC clients and servers reject policies with a condition (gRFC A41)"
        ]
    );
}
