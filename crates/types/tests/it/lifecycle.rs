//! V-44, V-45, V-58, V-59: deprecated, unfinished and unknown fields of resources in every format and at every depth.

use std::path::Path;

use bytes::Bytes;
use oxds_types::codec::{Format, LoadedResource, Options, decode, encode};
use oxds_types::error::Reason;
use oxds_types::lifecycle::{Clock, Policy};
use oxds_types::runtime::{Layer, Snapshot, Source};
use oxds_types::{Error, discovery::Any};

use crate::{load, yaml};

const SOFT: &str = "\
'@type': type.googleapis.com/envoy.config.cluster.v3.Cluster
name: shop
http2_protocol_options: {}
";
const HARD: &str = "\
'@type': type.googleapis.com/envoy.config.route.v3.RouteConfiguration
name: shop
virtual_hosts:
- name: all
  domains: ['*']
  rate_limits:
  - actions:
    - dynamic_metadata: { descriptor_key: user, metadata_key: { key: k, path: [{ key: p }] } }
";
const HARD_KEY: &str =
    "envoy.deprecated_features:envoy.config.route.v3.RateLimit.Action.dynamic_metadata";
const HTTP2: &str = "envoy.config.cluster.v3.Cluster.http2_protocol_options";

fn options(keys: &[&str]) -> Options {
    let mut layer = Layer::new("test", Source::Static);
    for key in keys {
        layer.set((*key).to_owned(), true.into()).unwrap();
    }
    let mut options = Options::default();
    options.policy = Policy::new(Snapshot::from_layers(vec![layer]), Clock::default());
    options
}

fn load_with(text: &str, options: &Options) -> Result<Vec<LoadedResource>, Vec<Error>> {
    decode(Path::new("test"), Format::Yaml, text.as_bytes(), options)
}

fn warnings(loaded: &[LoadedResource]) -> Vec<String> {
    let warnings = loaded.iter().flat_map(|resource| &resource.warnings);
    warnings.map(ToString::to_string).collect()
}

/// Given a deprecated field, then the warning has line, column, full name and replacement.
#[test]
fn v44_deprecated_field_is_a_warning_with_its_replacement() {
    assert_eq!(
        warnings(&yaml(SOFT)),
        [format!(
            "test:3:1: warning: http2_protocol_options: deprecated field {HTTP2}: use \
             envoy.extensions.upstreams.http.v3.HttpProtocolOptions.ExplicitHttpConfig.http2_protocol_options"
        )]
    );
}

/// Given the same field in every format, then each has the warning.
#[test]
fn v44_every_format_warns() {
    let loaded = yaml(SOFT);
    let any = |value: &Bytes| Any {
        type_url: loaded[0].any.type_url.clone(),
        value: value.clone(),
    };
    let any = any(&loaded[0].any.value);
    for format in [Format::Yaml, Format::Json, Format::Text, Format::Binary] {
        let file = encode(std::slice::from_ref(&any), format).unwrap();
        let again = decode(Path::new("test"), format, &file, &Options::default()).unwrap();
        let [warning] = &again[0].warnings[..] else {
            panic!("{format:?}: {:?}", again[0].warnings);
        };
        let Reason::Deprecated(used) = &warning.reason else {
            panic!("{format:?}: {warning:?}");
        };
        assert_eq!(
            (used.element.name(), warning.count),
            (HTTP2, 1),
            "{format:?}"
        );
        assert_eq!(warning.resource.as_deref(), Some("shop"), "{format:?}");
    }
}

/// Given a program that checks its resources elsewhere, then nothing is looked for, and nothing is disallowed, in any
/// format.
#[test]
fn v44_life_cycle_is_not_checked_if_turned_off() {
    let mut unchecked = Options::default();
    unchecked.check_life_cycle = false;
    let hard = decode(Path::new("test"), Format::Yaml, HARD.as_bytes(), &unchecked).unwrap();
    assert_eq!(hard[0].warnings, []);
    let any = yaml(SOFT)[0].any.clone();
    for format in [Format::Yaml, Format::Json, Format::Text, Format::Binary] {
        let file = encode(std::slice::from_ref(&any), format).unwrap();
        let loaded = decode(Path::new("test"), format, &file, &unchecked).unwrap();
        assert_eq!(loaded[0].warnings, [], "{format:?}");
    }
}

/// Given many uses in one resource and in another one, then each resource has one warning with a count.
#[test]
fn v44_resource_has_one_warning_per_field() {
    let matchers =
        "{ name: x, exact_match: a }, { name: y, exact_match: b }, { name: z, exact_match: c }";
    let text = format!(
        "- '@type': type.googleapis.com/envoy.config.route.v3.RouteConfiguration
  name: one
  virtual_hosts:
  - {{ name: all, domains: ['*'], routes: [{{ match: {{ prefix: /, headers: [{matchers}] }}, route: {{ cluster: shop }} }}] }}
- {{'@type': type.googleapis.com/envoy.config.cluster.v3.Cluster, name: shop, http2_protocol_options: {{}} }}
"
    );
    let loaded = yaml(&text);
    let [warning] = &loaded[0].warnings[..] else {
        panic!("{:?}", loaded[0].warnings);
    };
    assert_eq!(warning.count, 3);
    assert_eq!(warning.position.unwrap().line, 4);
    assert_eq!(loaded[1].warnings[0].resource.as_deref(), Some("shop"));
}

/// A listener with one filter. `typed_config` is what follows the colon.
fn listener(typed_config: &str) -> String {
    format!(
        "'@type': type.googleapis.com/envoy.config.listener.v3.Listener
name: web
filter_chains:
- filters:
  - name: x
    typed_config:{typed_config}"
    )
}

/// Given the field in an `Any` in an `Any`, and in the `Struct` of a `TypedStruct`, then the warning has its path.
#[test]
fn v44_nested_messages_are_checked_at_every_depth() {
    let manager = "      '@type': type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
      stat_prefix: web
      rds: { route_config_name: web, config_source: { ads: {} } }
      access_log:
      - name: file
        typed_config:
          '@type': type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog
          path: /dev/stdout
          format: x
";
    let found = warnings(&yaml(&listener(&format!("\n{manager}"))));
    assert_eq!(found.len(), 1, "{found:?}");
    let start = "test:15:11: warning: filter_chains[0].filters[0].typed_config.access_log[0].typed_config.format: deprecated field";
    assert!(found[0].starts_with(start), "{found:?}");

    for package in ["xds.type.v3", "udpa.type.v1"] {
        let typed_struct = format!(
            "      '@type': type.googleapis.com/{package}.TypedStruct
      type_url: type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
      value:
        statPrefix: web
        accessLogFlushInterval: 1s
        not_known_here: true
        access_log:
        - name: file
          typed_config:
            '@type': type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog
            path: /dev/stdout
            format: x
        rds: {{ config_source: {{ api_config_source: {{ api_type: GRPC, transport_api_version: V2 }} }} }}
"
        );
        let found = warnings(&yaml(&listener(&format!("\n{typed_struct}"))));
        let paths: Vec<_> = found
            .iter()
            .map(|line| line.split(": ").nth(2).unwrap())
            .collect();
        let base = "filter_chains[0].filters[0].typed_config.value";
        assert_eq!(
            paths,
            [
                format!("{base}.access_log_flush_interval"),
                format!("{base}.access_log[0].typed_config.format"),
                format!("{base}.rds.config_source.api_config_source.transport_api_version"),
            ],
            "{found:?}"
        );
        assert!(found[0].starts_with("test:11:9: "), "{found:?}");
    }
}

/// Given a file in API v2, whose descriptors have no annotations, then it has the warnings of v3.
#[test]
fn v44_files_in_v2_warn_as_in_v3() {
    let text = SOFT.replace("envoy.config.cluster.v3.Cluster", "envoy.api.v2.Cluster");
    let found = warnings(&yaml(&text));
    assert_eq!(found, warnings(&yaml(SOFT)));
}

/// Given 300 clusters with the field and one error at the end, then the error is reported: warnings do not hide it.
#[test]
fn v44_warnings_do_not_hide_errors() {
    let cluster = SOFT.replace('\n', "\n  ").trim_end().to_owned();
    let many = format!("- {cluster}\n").repeat(300);
    assert_eq!(yaml(&many).len(), 300);
    let text = format!("{many}- {cluster}\n  conect_timeout: 1s\n");
    let errors = load(Format::Yaml, &text).unwrap_err();
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(matches!(errors[0].reason, Reason::UnknownField { .. }));
}

/// Given a disallowed field, then the error has line, column, name, replacement and the key to paste.
#[test]
fn v45_disallowed_field_is_an_error_with_its_key() {
    let errors = load(Format::Yaml, HARD).unwrap_err();
    assert_eq!(
        errors[0].to_string(),
        format!(
            "test:8:7: error: virtual_hosts[0].rate_limits[0].actions[0].dynamic_metadata: deprecated field \
             envoy.config.route.v3.RateLimit.Action.dynamic_metadata is disallowed: use \
             envoy.config.route.v3.RateLimit.Action.metadata; to allow it for now, set the runtime key \"{HARD_KEY}\": true"
        )
    );
    assert_eq!(errors[0].resource.as_deref(), Some("shop"));
    assert!(errors[0].snippet().is_some());
}

#[test]
fn v45_runtime_key_allows_a_disallowed_field() {
    for key in [HARD_KEY, "envoy.features.enable_all_deprecated_features"] {
        let loaded = load_with(HARD, &options(&[key])).unwrap();
        let found = warnings(&loaded);
        assert!(
            found[0].contains("allowed by the runtime although it is disallowed by default"),
            "{found:?}"
        );
    }
    assert!(
        load_with(
            HARD,
            &options(&[&format!("envoy.deprecated_features:{HTTP2}")])
        )
        .is_err()
    );
}

#[test]
fn v45_any_deprecated_field_can_be_disallowed() {
    let errors = load_with(
        SOFT,
        &options(&["envoy.features.fail_on_any_deprecated_feature"]),
    );
    let errors = errors.unwrap_err();
    assert!(
        errors[0]
            .to_string()
            .contains("is disallowed by the runtime"),
        "{errors:?}"
    );
}

/// Given an enum field that is unset, and whose default value is disallowed, then that is an error at its message.
#[test]
fn v45_deprecated_default_value_counts_while_unset() {
    let text = |api_type: &str| {
        format!(
            "'@type': type.googleapis.com/envoy.config.cluster.v3.Cluster
name: shop
eds_cluster_config:
  eds_config:
    api_config_source: {{ transport_api_version: V3{api_type} }}
"
        )
    };
    yaml(&text(", api_type: GRPC"));
    let errors = load(Format::Yaml, &text("")).unwrap_err();
    let error = errors[0].to_string();
    let name = "envoy.config.core.v3.ApiConfigSource.ApiType.DEPRECATED_AND_UNAVAILABLE_DO_NOT_USE";
    let start = format!(
        "test:5:5: error: eds_cluster_config.eds_config.api_config_source.api_type: deprecated default value {name} is disallowed"
    );
    assert!(error.starts_with(&start), "{error}");
    let key = "\"envoy.deprecated_features:envoy.config.core.v3.ApiConfigSource.DEPRECATED_AND_UNAVAILABLE_DO_NOT_USE\": true";
    assert!(error.ends_with(key), "{error}");
    let used = load(
        Format::Yaml,
        &text(", api_type: DEPRECATED_AND_UNAVAILABLE_DO_NOT_USE"),
    );
    let [error] = &used.unwrap_err()[..] else {
        panic!("one error for one value");
    };
    assert!(error.to_string().contains("deprecated value "), "{error}");
}

#[test]
fn v44_deprecated_enum_value_is_a_warning() {
    let text = "'@type': type.googleapis.com/envoy.config.cluster.v3.Cluster
name: shop
eds_cluster_config:
  eds_config:
    api_config_source: { api_type: GRPC, transport_api_version: V2 }
";
    let found = warnings(&yaml(text));
    let end = "deprecated value envoy.config.core.v3.ApiVersion.V2: use envoy.config.core.v3.ApiVersion.V3";
    assert_eq!(found.len(), 1);
    assert!(found[0].ends_with(end), "{found:?}");
}

/// Given a field, a message and a file that are work in progress, then each use is a warning, and nothing can disallow
/// it.
#[test]
fn v59_work_in_progress_is_a_warning() {
    let of_type =
        |config: &str| listener(&format!(" {{ '@type': type.googleapis.com/{config} }}\n"));
    let field = of_type(
        "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager, stat_prefix: x, \
         rds: { route_config_name: x, config_source: { ads: {} } }, http2_protocol_options: { use_oghttp2_codec: true }",
    );
    let message = "'@type': type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig
name: x
typed_config: { '@type': type.googleapis.com/envoy.extensions.filters.http.thrift_to_metadata.v3.ThriftToMetadataPerRoute }
";
    let file =
        of_type("envoy.extensions.filters.network.generic_proxy.codecs.http1.v3.Http1CodecConfig");
    for (text, expected) in [
        (
            field.as_str(),
            "work-in-progress field envoy.config.core.v3.Http2ProtocolOptions.use_oghttp2_codec: it may change without notice",
        ),
        (
            message,
            "work-in-progress message envoy.extensions.filters.http.thrift_to_metadata.v3.ThriftToMetadataPerRoute: it may \
             change without notice",
        ),
        (
            file.as_str(),
            "message envoy.extensions.filters.network.generic_proxy.codecs.http1.v3.Http1CodecConfig of the work-in-progress \
             file envoy/extensions/filters/network/generic_proxy/codecs/http1/v3/http1.proto: it may change without notice",
        ),
    ] {
        let strict = options(&["envoy.features.fail_on_any_deprecated_feature"]);
        let loaded = load_with(text, &strict).unwrap_or_else(|errors| panic!("{errors:?}"));
        let found = warnings(&loaded);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].ends_with(expected), "{found:?}");
    }
}

/// Given unknown fields in text and in binary form, when they are accepted, then each is a warning with type and name
/// or number, and the binary form is passed on with it.
#[test]
fn v58_accepted_unknown_fields_are_warnings_and_kept() {
    let mut lenient = Options::default();
    lenient.allow_unknown_fields = true;
    let text =
        "'@type': type.googleapis.com/envoy.config.cluster.v3.Cluster\nname: shop\nnew_field: 1\n";
    let loaded = load_with(text, &lenient).unwrap();
    assert_eq!(
        warnings(&loaded),
        [
            "test:3:1: warning: new_field: unknown field `new_field` in envoy.config.cluster.v3.Cluster, ignored"
        ]
    );

    // Cluster { name: "shop", 1234: 1 }, in an `Any`.
    let body = b"\x0a\x04shop\x90\x4d\x01";
    let url = b"type.googleapis.com/envoy.config.cluster.v3.Cluster";
    let mut any = vec![0x0a, url.len() as u8];
    any.extend_from_slice(url);
    any.extend_from_slice(&[0x12, body.len() as u8]);
    any.extend_from_slice(body);
    let loaded = decode(Path::new("x.pb"), Format::Binary, &any, &lenient).unwrap();
    assert_eq!(
        warnings(&loaded),
        ["x.pb: warning: 1234: unknown field `1234` in envoy.config.cluster.v3.Cluster, passed on"]
    );
    assert_eq!(loaded[0].any.value.as_ref(), body);
}

/// Given a message of a program with an `Any` whose content has an unknown field, when unknown fields are accepted,
/// then the canonical bytes still have it.
#[test]
fn v58_unknown_field_in_an_any_survives_the_canonical_form() {
    use envoy_types::pb::envoy::config::core::v3::TypedExtensionConfig;
    use envoy_types::pb::google::protobuf::Any;
    use prost::Message as _;
    let router = "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router";
    let message = TypedExtensionConfig {
        name: "router".to_owned(),
        typed_config: Some(Any {
            type_url: router.to_owned(),
            value: b"\x90\x4d\x01".to_vec(),
        }),
    };
    let strict = oxds_types::codec::check(&message, None)
        .unwrap_err()
        .to_string();
    assert!(strict.contains("unknown field `1234`"), "{strict}");
    let mut lenient = Options::default();
    lenient.allow_unknown_fields = true;
    let loaded = oxds_types::codec::check_with(&message, None, &lenient).unwrap();
    let again = TypedExtensionConfig::decode(loaded.any.value).unwrap();
    assert_eq!(again.typed_config.unwrap().value, b"\x90\x4d\x01");
    assert_eq!(loaded.warnings.len(), 1);
}

/// Given a program that pushes a message with a disallowed field, then the error has the key.
#[test]
#[expect(deprecated, reason = "the test uses a deprecated field")]
fn v45_messages_of_programs_are_checked() {
    use envoy_types::pb::envoy::config::trace::v3::DynamicOtConfig;
    let message = DynamicOtConfig {
        library: "x".to_owned(),
        ..DynamicOtConfig::default()
    };
    let error = oxds_types::codec::check(&message, Some("ot"))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains(
            "\"envoy.deprecated_features:envoy.config.trace.v3.DynamicOtConfig.library\": true"
        ),
        "{error}"
    );
}
