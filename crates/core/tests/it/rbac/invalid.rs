//! Configurations that are NACKed, with field and rule.

use oxds_core::resource::Extensions;

use super::{ANY_PERMISSION, ANY_PRINCIPAL, policy, read};

/// Returns the error of a filter's configuration, without the path of the filter.
fn error(fields: &str) -> String {
    let error = read(&Extensions::default(), &format!("rbac {{ {fields} }}"));
    let error = error.expect_err(fields).to_string();
    let within = "r: virtual_hosts[0].typed_per_filter_config[\"rbac\"].rbac.";
    error.strip_prefix(within).expect(&error).to_owned()
}

fn rules_error(fields: &str) -> String {
    let error = error(&format!("rules {{ {fields} }}"));
    error.strip_prefix("rules.").expect(&error).to_owned()
}

/// Returns the error of the only permission.
fn permission(fields: &str) -> String {
    let text = policy("p", &format!("permissions {{ {fields} }}"), ANY_PRINCIPAL);
    let error = rules_error(&text);
    let within = "policies[\"p\"].permissions[0].";
    error.strip_prefix(within).expect(&error).to_owned()
}

/// Returns the error of the only principal.
fn principal(fields: &str) -> String {
    let text = policy("p", ANY_PERMISSION, &format!("principals {{ {fields} }}"));
    let error = rules_error(&text);
    let within = "policies[\"p\"].principals[0].";
    error.strip_prefix(within).expect(&error).to_owned()
}

#[test]
fn c238_conditions_and_unknown_actions_are_rejected() {
    for field in ["condition", "checked_condition"] {
        let conditions = format!("{ANY_PRINCIPAL} {field} {{}}");
        assert_eq!(
            rules_error(&policy("p", ANY_PERMISSION, &conditions)),
            format!("policies[\"p\"].{field}: is not supported")
        );
    }
    assert_eq!(rules_error("action: 9"), "action: is unknown");
}

#[test]
fn c238_matcher_tree_alone_is_rejected() {
    let rule = "matcher: is not supported without rules";
    assert_eq!(error("matcher {}"), rule);
    // As in gRPC, it is ignored beside rules.
    let both = "rbac { matcher {} rules {} }";
    assert!(read(&Extensions::default(), both).is_ok());
}

#[test]
fn c238_unsupported_permissions_and_principals_are_rejected() {
    let extension = "{ name: 'x' }";
    for field in ["matcher", "uri_template"] {
        let found = permission(&format!("{field} {extension}"));
        assert_eq!(found, format!("{field}: is not supported"));
    }
    for (field, value) in [("filter_state", "{ key: 'k' }"), ("custom", extension)] {
        let found = principal(&format!("{field} {value}"));
        assert_eq!(found, format!("{field}: is not supported"));
    }
    for read in [permission, principal] {
        let found = read("sourced_metadata {}");
        assert_eq!(found, "sourced_metadata: is not supported");
    }
    assert_eq!(permission(""), "rule: must be set");
    assert_eq!(principal(""), "identifier: must be set");
}

#[test]
fn c238_errors_in_nested_rules_have_their_path() {
    let bad = "url_path {}";
    assert_eq!(
        permission(&format!(
            "and_rules {{ rules {{ any: true }} rules {{ or_rules {{ rules {{ not_rule {{ {bad} }} }} }} }} }}"
        )),
        "and_rules.rules[1].or_rules.rules[0].not_rule.url_path.path: must be set"
    );
    assert_eq!(
        principal(&format!(
            "or_ids {{ ids {{ any: true }} ids {{ and_ids {{ ids {{ not_id {{ {bad} }} }} }} }} }}"
        )),
        "or_ids.ids[1].and_ids.ids[0].not_id.url_path.path: must be set"
    );
    assert_eq!(permission("not_rule {}"), "not_rule.rule: must be set");
    assert_eq!(principal("not_id {}"), "not_id.identifier: must be set");
}

#[test]
fn c238_header_names_of_the_transport_are_rejected() {
    for name in [
        ":scheme",
        ":Scheme",
        "grpc-timeout",
        "GRPC-Timeout",
        "grpc-",
    ] {
        let header = format!("header {{ name: '{name}' present_match: true }}");
        let rule = format!("{name:?} must not be :scheme or begin with grpc-");
        assert_eq!(permission(&header), format!("header.name: {rule}"));
        let nested = format!("not_id {{ {header} }}");
        assert_eq!(principal(&nested), format!("not_id.header.name: {rule}"));
    }
    assert_eq!(permission("header {}"), "header.name: must not be empty");
    assert_eq!(
        permission("header { name: 'a' }"),
        "header.header_match_specifier: must be set"
    );
}

#[test]
fn c238_regular_expressions_must_compile() {
    let bad = "safe_regex { regex: 'a(' }";
    for found in [
        permission(&format!("url_path {{ path {{ {bad} }} }}")),
        permission("header { name: 'a' safe_regex_match { regex: 'a(' } }"),
        permission(&format!("requested_server_name {{ {bad} }}")),
        principal(&format!("authenticated {{ principal_name {{ {bad} }} }}")),
    ] {
        assert!(
            found.contains(".regex: is not a valid regular expression"),
            "{found}"
        );
    }
}

#[test]
fn c238_empty_matchers_are_rejected() {
    for (found, expected) in [
        (
            permission("url_path { path {} }"),
            "url_path.path.match_pattern: must be set",
        ),
        (
            permission("url_path { path { prefix: '' } }"),
            "url_path.path.prefix: must not be empty",
        ),
        (
            permission("requested_server_name {}"),
            "requested_server_name.match_pattern: must be set",
        ),
        (
            principal("authenticated { principal_name { contains: '' } }"),
            "authenticated.principal_name.contains: must not be empty",
        ),
    ] {
        assert_eq!(found, expected);
    }
}

#[test]
fn c238_address_ranges_must_be_valid() {
    for (range, rule) in [
        ("", "address_prefix: \"\" must be an IP address"),
        (
            "address_prefix: 'localhost'",
            "address_prefix: \"localhost\" must be an IP address",
        ),
        (
            "address_prefix: '10.0.0.0/8'",
            "address_prefix: \"10.0.0.0/8\" must be an IP address",
        ),
        (
            "address_prefix: '10.0.0.0' prefix_len { value: 33 }",
            "prefix_len: must be at most 32, not 33",
        ),
        (
            "address_prefix: '::' prefix_len { value: 129 }",
            "prefix_len: must be at most 128, not 129",
        ),
        (
            "address_prefix: '::' prefix_len { value: 300 }",
            "prefix_len: must be at most 128, not 300",
        ),
    ] {
        let found = permission(&format!("destination_ip {{ {range} }}"));
        assert_eq!(found, format!("destination_ip.{rule}"));
        for id in ["source_ip", "direct_remote_ip", "remote_ip"] {
            let found = principal(&format!("{id} {{ {range} }}"));
            assert_eq!(found, format!("{id}.{rule}"));
        }
    }
}

#[test]
fn c238_port_ranges_must_have_ports() {
    for (start, end) in [(5, 5), (6, 5), (-1, 5), (1, 65_537)] {
        let range = format!("destination_port_range {{ start: {start} end: {end} }}");
        let found = permission(&range);
        assert!(
            found.starts_with("destination_port_range: must have"),
            "{found}"
        );
        assert!(
            found.ends_with(&format!("not {start} and {end}")),
            "{found}"
        );
    }
}

#[test]
fn c238_error_names_the_first_policy_by_name() {
    let bad = |name: &str| policy(name, "permissions {}", ANY_PRINCIPAL);
    let text = ["z", "m", "b", "q"].map(bad).concat();
    assert_eq!(
        rules_error(&text),
        "policies[\"b\"].permissions[0].rule: must be set"
    );
}
