//! C-174 – C-176, C-194, C-236, C-237, C-253: configurations of HTTP filters.

use std::sync::Arc;
use std::time::Duration;

use oxds_core::lb::{AbortStatus, FaultConfig, SessionConfig};
use oxds_core::resource::{
    ExtensionValue, Extensions, FilterConfig, FilterOverride, Invalid, Listener, ParsedResource,
    ResourceParsers, RouteConfig,
};
use oxds_types::ResourceType;

use crate::support::text::{accepted, bytes, rejected};

const ROUTER: &str = "http_filters { name: 'router' typed_config {
    [type.googleapis.com/envoy.extensions.filters.http.router.v3.Router] {} } }";
const FAULT: &str = "envoy.extensions.filters.http.fault.v3.HTTPFault";
const SESSION: &str = "envoy.extensions.filters.http.stateful_session.v3.StatefulSession";

fn listener(filters: &str) -> String {
    format!(
        "name: 'l' api_listener {{ api_listener {{
           [type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager]
           {{ rds {{ route_config_name: 'r' config_source {{ ads {{}} }} }} {filters} }} }} }}"
    )
}

fn any(message: &str, fields: &str) -> String {
    format!("[type.googleapis.com/{message}] {{ {fields} }}")
}

fn filter(name: &str, any: &str) -> String {
    format!("http_filters {{ name: '{name}' typed_config {{ {any} }} }}")
}

/// Returns the filters of a listener.
fn filters(text: &str) -> Vec<(String, FilterConfig)> {
    let listener: Listener = accepted(&listener(text));
    let filters = listener.api.unwrap().filters.into_iter();
    filters
        .map(|filter| (filter.name.to_string(), filter.config))
        .collect()
}

/// Returns the validation error of the filters.
fn fault(text: &str) -> String {
    let error = rejected::<Listener>(&listener(text));
    let within = "l: api_listener.api_listener.";
    error.strip_prefix(within).expect(&error).to_owned()
}

fn fault_config(fields: &str) -> Arc<FaultConfig> {
    let text = format!("{} {ROUTER}", filter("f", &any(FAULT, fields)));
    match filters(&text).remove(0).1 {
        FilterConfig::Fault(config) => config,
        other => panic!("{other:?}"),
    }
}

#[test]
fn c174_filters_keep_their_order_and_router_is_last() {
    let a = filter("a", &any(FAULT, ""));
    let b = filter("b", &any(FAULT, ""));
    let names: Vec<_> = filters(&format!("{b} {a} {ROUTER}"))
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    assert_eq!(names, ["b", "a"]);
    assert_eq!(
        fault(&format!("{a} {ROUTER} {b}")),
        "http_filters[2]: must not follow the router, http_filters[1]"
    );
}

#[test]
fn c237_fault_configuration_is_read() {
    assert_eq!(*fault_config(""), FaultConfig::default());
    let config = fault_config(
        "max_active_faults { value: 3 }
         delay { fixed_delay { seconds: 2 } percentage { numerator: 5 denominator: TEN_THOUSAND } }
         abort { http_status: 503 percentage { numerator: 200 } }",
    );
    assert_eq!(config.max_active, Some(3));
    let delay = config.delay.as_ref().unwrap();
    assert_eq!(delay.fixed, Some(Duration::from_secs(2)));
    assert_eq!(delay.share.per_million().get(), 500);
    let abort = config.abort.as_ref().unwrap();
    assert_eq!(abort.fixed, Some(AbortStatus::Http(503)));
    assert_eq!(abort.share.per_million().get(), 1_000_000);
    let by_header = fault_config("delay { header_delay {} } abort { header_abort {} }");
    assert_eq!(by_header.delay.as_ref().unwrap().fixed, None);
    assert_eq!(by_header.abort.as_ref().unwrap().fixed, None);
    // Without a percentage, no RPC has the fault.
    let share = by_header.abort.as_ref().unwrap().share;
    assert_eq!(share.per_million().get(), 0);
}

#[test]
fn c237_invalid_fault_configuration_is_rejected() {
    for (fields, rule) in [
        (
            "delay { fixed_delay { seconds: -1 } }",
            "delay.fixed_delay: must be a duration that is not negative",
        ),
        (
            "delay {}",
            "delay: must have a fixed_delay or a header_delay",
        ),
        (
            "delay { header_delay {} percentage { denominator: 9 } }",
            "delay.percentage.denominator: is unknown",
        ),
        (
            "abort { grpc_status: 17 }",
            "abort.grpc_status: must be a gRPC status code",
        ),
        (
            "abort { http_status: 99 }",
            "abort.http_status: must be from 200 to 599",
        ),
        (
            "abort {}",
            "abort: must have a grpc_status, an http_status or a header_abort",
        ),
    ] {
        let text = format!("{} {ROUTER}", filter("f", &any(FAULT, fields)));
        assert_eq!(fault(&text), format!("http_filters[0].typed_config.{rule}"));
    }
}

fn cookie(fields: &str) -> String {
    let state = any(
        "envoy.extensions.http.stateful_session.cookie.v3.CookieBasedSessionState",
        fields,
    );
    any(
        SESSION,
        &format!("session_state {{ name: 'n' typed_config {{ {state} }} }}"),
    )
}

#[test]
fn c253_session_configuration_is_read() {
    let session = |text: &str| match filters(&format!("{} {ROUTER}", filter("s", text)))
        .remove(0)
        .1
    {
        FilterConfig::Session(session) => session,
        other => panic!("{other:?}"),
    };
    // Without a session state, the filter does nothing.
    assert_eq!(session(&any(SESSION, "")), None);
    let config = session(&cookie(
        "cookie { name: 'c' ttl { seconds: 9 } path: '/p' }",
    ));
    let expected = SessionConfig {
        cookie: "c".to_owned(),
        ttl: Duration::from_secs(9),
        path: "/p".to_owned(),
    };
    assert_eq!(config, Some(Arc::new(expected)));
}

#[test]
fn c253_invalid_session_configuration_is_rejected() {
    let within = "http_filters[0].typed_config.session_state.typed_config";
    for (text, rule) in [
        (cookie(""), ".cookie: must be set"),
        (cookie("cookie {}"), ".cookie.name: must not be empty"),
        (
            cookie("cookie { name: 'c' ttl { seconds: -1 } }"),
            ".cookie.ttl: must be a duration that is not negative",
        ),
        (
            any(
                SESSION,
                &format!("session_state {{ typed_config {{ {} }} }}", any(FAULT, "")),
            ),
            ": \"envoy.extensions.filters.http.fault.v3.HTTPFault\" is not supported",
        ),
        (any(SESSION, "session_state { name: 'x' }"), ": must be set"),
        (
            cookie("cookie { name: 'a\\r\\nb' }"),
            ".cookie.name: must be printable ASCII",
        ),
        (
            cookie("cookie { name: 'c' path: '/\\303\\244' }"),
            ".cookie.path: must be printable ASCII",
        ),
    ] {
        let text = format!("{} {ROUTER}", filter("s", &text));
        assert_eq!(fault(&text), format!("{within}{rule}"));
    }
}

/// Parses a resource with a filter `my.Filter` of the program, whose configuration is its bytes or a JSON object with a
/// field `n`.
fn parsed(resource_type: &ResourceType, text: &str) -> Result<ParsedResource, Invalid> {
    let extensions =
        Extensions::default().with_http_filter("my.Filter", |config| match &config.value {
            ExtensionValue::Message(bytes) => Ok(Arc::new(bytes.len())),
            ExtensionValue::Struct(object) => {
                if object.fields.contains_key("n") {
                    Ok(Arc::new(object.fields.len()))
                } else {
                    Err(Invalid::new("must be set").at("n"))
                }
            }
        });
    ResourceParsers::grpc_with(&extensions).parse(resource_type, &bytes(resource_type, text))
}

fn typed_struct(message: &str, name: &str, fields: &str) -> String {
    any(message, &format!("type_url: '{name}' value {{ {fields} }}"))
}

const N: &str = "fields { key: 'n' value { number_value: 1 } }";

#[test]
fn c176_typed_struct_has_the_type_of_its_own_url() {
    for message in ["xds.type.v3.TypedStruct", "udpa.type.v1.TypedStruct"] {
        for name in ["my.Filter", "type.googleapis.com/my.Filter"] {
            let text = filter("m", &typed_struct(message, name, N));
            let listener = listener(&format!("{text} {ROUTER}"));
            let found = parsed(&ResourceType::LISTENER, &listener).unwrap();
            let api = found.get::<Listener>().unwrap().api.clone().unwrap();
            let FilterConfig::Custom(custom) = &api.filters[0].config else {
                panic!("{:?}", api.filters);
            };
            assert_eq!(custom.parsed().downcast_ref::<usize>(), Some(&1));
            // Without the extension, the filter is unknown.
            assert_eq!(
                rejected::<Listener>(&listener),
                "l: api_listener.api_listener.http_filters[0]: \"m\" of type \"my.Filter\" is not supported"
            );
        }
    }
}

#[test]
fn c176_configuration_that_the_filter_rejects_is_invalid() {
    let bad = filter(
        "m",
        &typed_struct("xds.type.v3.TypedStruct", "my.Filter", ""),
    );
    let error = parsed(
        &ResourceType::LISTENER,
        &listener(&format!("{bad} {ROUTER}")),
    );
    assert_eq!(
        error.unwrap_err().to_string(),
        "l: api_listener.api_listener.http_filters[0].typed_config.n: must be set"
    );
    let nameless = filter("m", &typed_struct("xds.type.v3.TypedStruct", "", N));
    assert_eq!(
        fault(&format!("{nameless} {ROUTER}")),
        "http_filters[0].typed_config.value.type_url: must not be empty"
    );
    let builtin = filter("m", &typed_struct("xds.type.v3.TypedStruct", FAULT, N));
    assert_eq!(
        fault(&format!("{builtin} {ROUTER}")),
        format!("http_filters[0].typed_config: must be the message {FAULT:?}, not a TypedStruct")
    );
}

fn with_overrides(host: &str, route: &str, weighted: &str) -> String {
    format!(
        "name: 'r' virtual_hosts {{ name: 'h' domains: '*' {host}
           routes {{ match {{ prefix: '' }} {route} route {{ weighted_clusters {{
             clusters {{ name: 'c' weight {{ value: 1 }} {weighted} }} }} }} }} }}"
    )
}

fn over(name: &str, any: &str) -> String {
    format!("typed_per_filter_config {{ key: '{name}' value {{ {any} }} }}")
}

#[test]
fn c194_overrides_are_read_at_every_level() {
    let fault = over("f", &any(FAULT, ""));
    let text = with_overrides(&fault, &fault, &fault);
    let config: RouteConfig = accepted(&text);
    let host = &config.virtual_hosts[0];
    let expected = FilterOverride::Config(FilterConfig::Fault(Arc::default()));
    assert_eq!(host.filter_overrides.get("f"), Some(&expected));
    assert_eq!(host.routes[0].filter_overrides.get("f"), Some(&expected));
}

#[test]
fn c194_disabled_filter_and_optional_unknown_one() {
    let wrapper = "envoy.config.route.v3.FilterConfig";
    let disabled = over("f", &any(wrapper, "disabled: true"));
    let config: RouteConfig = accepted(&with_overrides(&disabled, "", ""));
    let overrides = &config.virtual_hosts[0].filter_overrides;
    assert_eq!(overrides.get("f"), Some(&FilterOverride::Disabled));
    let cors = any("envoy.extensions.filters.http.cors.v3.Cors", "");
    let optional = over(
        "f",
        &any(wrapper, &format!("is_optional: true config {{ {cors} }}")),
    );
    let config: RouteConfig = accepted(&with_overrides(&optional, "", ""));
    assert!(config.virtual_hosts[0].filter_overrides.is_empty());
    // An optional filter that is known must still be valid.
    let bad = any(FAULT, "abort {}");
    let bad = over(
        "f",
        &any(wrapper, &format!("is_optional: true config {{ {bad} }}")),
    );
    assert_eq!(
        rejected::<RouteConfig>(&with_overrides(&bad, "", "")),
        "r: virtual_hosts[0].typed_per_filter_config[\"f\"].config.abort: must have a grpc_status, an http_status or a header_abort"
    );
}

#[test]
fn c253_session_of_a_route_replaces_or_disables() {
    let message = "envoy.extensions.filters.http.stateful_session.v3.StatefulSessionPerRoute";
    let per_route = |fields: &str| {
        let config: RouteConfig =
            accepted(&with_overrides(&over("s", &any(message, fields)), "", ""));
        config.virtual_hosts[0].filter_overrides["s"].clone()
    };
    for none in ["", "stateful_session {}", "disabled: true"] {
        assert_eq!(per_route(none), FilterOverride::Disabled, "{none}");
    }
    let state = any(
        "envoy.extensions.http.stateful_session.cookie.v3.CookieBasedSessionState",
        "cookie { name: 'other' }",
    );
    let other = format!("stateful_session {{ session_state {{ typed_config {{ {state} }} }} }}");
    match per_route(&other) {
        FilterOverride::Config(FilterConfig::Session(Some(session))) => {
            assert_eq!(session.cookie, "other");
        }
        found => panic!("{found:?}"),
    }
    // The filter's own message is not that of a route.
    let wrong = with_overrides(&over("s", &any(SESSION, "")), "", "");
    assert_eq!(
        rejected::<RouteConfig>(&wrong),
        format!(
            "r: virtual_hosts[0].typed_per_filter_config[\"s\"]: \"{SESSION}\" is not supported"
        )
    );
}
