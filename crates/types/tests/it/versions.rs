//! Resources of API v2: read from files, and converted for v2 clients.

use oxds_types::codec::{Format, encode};
use oxds_types::discovery::Any;
use oxds_types::version_map::{Incompatibility, to_v2, to_v3};
use oxds_types::{ApiVersion, ResourceType};
use prost::Message as _;
use prost_reflect::{DynamicMessage, ReflectMessage as _, Value};

use crate::{lines, load, yaml, yaml_errors};

/// A listener in v2, as in files of 2019; `V3` is its current form.
const V2: &str = "
'@type': type.googleapis.com/envoy.api.v2.Listener
name: ingress
address: { socket_address: { address: 0.0.0.0, port_value: 80 } }
filter_chains:
- filters:
  - name: envoy.http_connection_manager
    typed_config:
      '@type': type.googleapis.com/envoy.config.filter.network.http_connection_manager.v2.HttpConnectionManager
      stat_prefix: in
      rds: { route_config_name: shop, config_source: { ads: {} } }
      http_filters:
      - name: envoy.router
        typed_config:
          '@type': type.googleapis.com/envoy.config.filter.http.router.v2.Router
          dynamic_stats: true
";
const V3: &str = "
'@type': type.googleapis.com/envoy.config.listener.v3.Listener
name: ingress
address: { socket_address: { address: 0.0.0.0, port_value: 80 } }
filter_chains:
- filters:
  - name: envoy.http_connection_manager
    typed_config:
      '@type': type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
      stat_prefix: in
      rds: { route_config_name: shop, config_source: { ads: {}, resource_api_version: V3 } }
      http_filters:
      - name: envoy.router
        typed_config:
          '@type': type.googleapis.com/envoy.extensions.filters.http.router.v3.Router
          dynamic_stats: true
";

/// Given the same listener in v2 and in v3, when both files are read, then bytes, version and references are equal.
#[test]
fn s64_v2_file_equals_the_v3_file() {
    let (old, new) = (yaml(V2), yaml(V3));
    assert_eq!(old[0].any, new[0].any);
    assert_eq!(old[0].version, new[0].version);
    assert_eq!(old[0].references, new[0].references);
    assert_eq!(old[0].references[0].resource_type, ResourceType::ROUTE);
}

/// Given a v3 listener with a v2 filter, as in files that are partly migrated, when it is read, then all of it is v3.
#[test]
fn s64_v2_and_v3_can_be_mixed_in_a_file() {
    let mixed = V2.replace("envoy.api.v2.Listener", "envoy.config.listener.v3.Listener");
    assert_eq!(yaml(&mixed)[0].any, yaml(V3)[0].any);
    let other_way = V3.replace("envoy.config.listener.v3.Listener", "envoy.api.v2.Listener");
    assert_eq!(yaml(&other_way)[0].any, yaml(V3)[0].any);
}

/// Given v2 resources in text format and binary, when they are read, then they are converted to v3 as from YAML.
#[test]
fn s64_text_format_and_binary_accept_v2() {
    let new = &yaml(V3)[0];
    let value = to_v2(new.resource_type.message(), &new.any.value).unwrap();
    let any = Any {
        type_url: new
            .resource_type
            .type_url_in(ApiVersion::V2)
            .unwrap()
            .to_owned(),
        value: value.into(),
    };
    let binary = encode(&[any], Format::Binary).unwrap();
    let read = oxds_types::codec::decode(
        "ingress.pb".as_ref(),
        Format::Binary,
        &binary,
        &oxds_types::codec::Options::default(),
    );
    let read = read.unwrap_or_else(|errors| panic!("{}", lines(&errors)));
    assert_eq!(read[0].resource_type, ResourceType::LISTENER);
    assert!(yaml_of(&read[0].any).contains("envoy.extensions.filters.http.router.v3.Router"));

    let cluster = "[type.googleapis.com/envoy.api.v2.Cluster] { name: \"shop\" }";
    for text in [
        cluster.to_owned(),
        format!("resources {{ {cluster} }}"),
        "# proto-message: envoy.api.v2.Cluster\nname: \"shop\"".to_owned(),
        format!("# proto-message: envoy.api.v2.DiscoveryResponse\nresources {{ {cluster} }}"),
        format!("# proto-message: envoy.api.v2.Resource\nname: \"shop\" resource {{ {cluster} }}"),
    ] {
        let read = load(Format::Text, &text).unwrap_or_else(|errors| panic!("{}", lines(&errors)));
        let read = &read[0];
        assert_eq!(
            (&read.resource_type, &*read.name),
            (&ResourceType::CLUSTER, "shop"),
            "{text}"
        );
        assert_eq!(read.any.type_url, ResourceType::CLUSTER.type_url());
    }
}

fn yaml_of(any: &Any) -> String {
    String::from_utf8(encode(std::slice::from_ref(any), Format::Yaml).unwrap()).unwrap()
}

/// Given a v2 configuration as `TypedStruct`, in v2 and in v3 listeners and with fields in any order, when the file is
/// read, then its type URL and names are those of v3.
#[test]
fn v57_typed_struct_of_v2_is_read_as_v3() {
    let holder = |holder: &str, version: &str, fields: &str| {
        let from = "'@type': type.googleapis.com/envoy.config.filter.http.router.v2.Router
          dynamic_stats: true";
        V2.replace(
            from,
            &format!(
                "'@type': type.googleapis.com/{holder}
          type_url: type.googleapis.com/{version}
          value: {fields}"
            ),
        )
    };
    let host = "envoy.config.filter.http.dynamic_forward_proxy.v2alpha.PerRouteConfig";
    let new = "envoy.extensions.filters.http.dynamic_forward_proxy.v3.PerRouteConfig";
    for name in ["udpa.type.v1.TypedStruct", "xds.type.v3.TypedStruct"] {
        let old = holder(name, host, "{ own: 1, host_rewrite: a }");
        // A field that no descriptor knows is kept in no version: v3 may know another one.
        let unknown = yaml_errors(&old);
        assert!(unknown.contains("own: exists in v2 only"), "{unknown}");
        let old = holder(name, host, "{ hostRewrite: a }");
        let expected = holder(name, new, "{ hostRewriteLiteral: a }");
        assert_eq!(yaml(&old)[0].any, yaml(&expected)[0].any, "{name}");
        let in_v3 = old.replace("envoy.api.v2.Listener", "envoy.config.listener.v3.Listener");
        assert_eq!(yaml(&in_v3)[0].any, yaml(&expected)[0].any, "{name}");
    }
    // A `Struct` without a type is the same in all versions.
    let filter = V3.replace(
        "'@type': type.googleapis.com/envoy.extensions.filters.http.router.v3.Router
          dynamic_stats: true",
        "'@type': type.googleapis.com/google.protobuf.Struct
          value: { host_rewrite: envoy.api.v2.Cluster }",
    );
    assert!(yaml_of(&yaml(&filter)[0].any).contains("host_rewrite: envoy.api.v2.Cluster"));
}

/// Given one file with resources of both majors, bare and wrapped, when it is read, then the type URL of each resource
/// decides its major.
#[test]
fn v55_v56_type_url_of_each_resource_decides_its_major() {
    let indented = |text: &str| text.trim().replace('\n', "\n  ");
    for response in [
        "",
        "'@type': type.googleapis.com/envoy.api.v2.DiscoveryResponse\n",
    ] {
        let file = format!(
            "{response}resources:\n- {}\n- {}\n",
            indented(&V2.replace("name: ingress", "name: a")),
            indented(V3)
        );
        let read = yaml(&file);
        let names: Vec<&str> = read.iter().map(|one| &*one.name).collect();
        assert_eq!(names, ["a", "ingress"]);
        assert_eq!(read[0].any.type_url, read[1].any.type_url);
        assert_eq!(read[1].any, yaml(V3)[0].any);
        // The same resources as a binary response, whose bodies keep their major until they are read.
        let old = Any {
            type_url: ResourceType::LISTENER
                .type_url_in(ApiVersion::V2)
                .unwrap()
                .to_owned(),
            value: to_v2(ResourceType::LISTENER.message(), &read[0].any.value)
                .unwrap()
                .into(),
        };
        let binary = encode(&[old, read[1].any.clone()], Format::Binary).unwrap();
        let options = oxds_types::codec::Options::default();
        let again =
            oxds_types::codec::decode("both.pb".as_ref(), Format::Binary, &binary, &options);
        let again = again.unwrap_or_else(|errors| panic!("{}", lines(&errors)));
        assert_eq!(
            (again[0].any.type_url.as_str(), again.len()),
            (read[0].any.type_url.as_str(), 2)
        );
        assert_eq!(again[1].any, read[1].any);
    }
}

/// Given a bootstrap as `Any` of v2, as `Any` of v3, and bare, in every format, when it is read, then all are the same
/// v3 message; it is written in either form.
#[test]
fn v55_bootstrap_is_any_of_either_major_or_bare() {
    use oxds_types::codec::{Document, read_documents, write_documents};
    use oxds_types::descriptor::v2_pool;
    use oxds_types::translate::{Major, Options, Translator};

    const BOOTSTRAP: &str = "envoy.config.bootstrap.v3.Bootstrap";
    let (from, to) = (v2_pool().clone(), oxds_types::descriptor::pool().clone());
    let translator = Translator::new(from, to, Major::stable(3), Options::default()).unwrap();
    let body = "node: { id: edge, cluster: shop }\nadmin: { access_log_path: /dev/null }\n";
    let v3 = format!("'@type': type.googleapis.com/{BOOTSTRAP}\n{body}");
    let files = [body.to_owned(), v3.replace(".v3.", ".v2."), v3.clone()];
    let read = |format: Format, bytes: &[u8]| {
        let documents = read_documents(v2_pool(), format, bytes, None);
        let documents =
            documents.or_else(|_| read_documents(v2_pool(), format, bytes, Some(BOOTSTRAP)));
        documents
            .unwrap_or_else(|error| panic!("{error}"))
            .remove(0)
    };
    for file in files {
        let document = read(Format::Yaml, file.as_bytes());
        let bare = Document::new(document.message.clone(), None);
        for document in [document, bare] {
            // A bare file is of the current major.
            let is_old = document.message.descriptor().full_name() != BOOTSTRAP;
            if is_old && document.type_url.is_none() {
                continue;
            }
            for format in [Format::Yaml, Format::Json, Format::Text, Format::Binary] {
                let written = write_documents(std::slice::from_ref(&document), format).unwrap();
                let again = read(format, &written);
                assert_eq!(
                    (&again.message, &again.type_url),
                    (&document.message, &document.type_url)
                );
                let name = again.message.descriptor().full_name().to_owned();
                let done = translator
                    .translate_strict(&name, &again.message.encode_to_vec())
                    .unwrap();
                assert_eq!(done.message, BOOTSTRAP);
                let expected = read(Format::Yaml, v3.as_bytes()).message.encode_to_vec();
                assert_eq!(done.value, expected, "{format:?} {file}");
            }
        }
    }
}

/// Given v2 files with fields that v3 removed, when they are read, then each field is an error with position and path.
/// A field that neither version has is an unknown field.
#[test]
fn s64_removed_v2_fields_are_errors_with_path() {
    let errors = yaml_errors(
        "'@type': type.googleapis.com/envoy.api.v2.Cluster
name: shop
hosts:
- socket_address: { address: 10.0.0.1, port_value: 80 }
tls_context: { sni: shop.example }
",
    );
    assert_eq!(
        errors,
        "test:3:1: error: hosts: exists in v2 only: envoy.config.cluster.v3.Cluster has no such field\n\
         test:5:1: error: tls_context: exists in v2 only: envoy.config.cluster.v3.Cluster has no such field\n"
    );

    let errors = yaml_errors(&V2.replace("dynamic_stats: true", "speed: 3"));
    let unknown = "error: filter_chains[0].filters[0].typed_config.http_filters[0].typed_config.speed: unknown field";
    assert!(errors.contains(unknown), "{errors}");

    // v2 accepted a `Struct` for this filter, v3 does not.
    let errors = yaml_errors(
        "'@type': type.googleapis.com/envoy.api.v2.Listener
name: ingress
filter_chains:
- filters:
  - name: envoy.tcp_proxy
    config: { stat_prefix: tcp, cluster: shop }
",
    );
    let expected = "test:6:5: error: filter_chains[0].filters[0].config: exists in v2 only: \
                    envoy.config.listener.v3.Filter has no such field\n";
    assert_eq!(errors, expected);

    let squash = "envoy.config.filter.http.squash.v2.Squash";
    let errors = yaml_errors(
        &V2.replace("envoy.config.filter.http.router.v2.Router", squash)
            .replace("dynamic_stats: true", "cluster: shop"),
    );
    let expected =
        format!("http_filters[0].typed_config: exists in v2 only: {squash} does not exist in v3\n");
    assert!(errors.ends_with(&expected), "{errors}");
}

/// Given a v2 file that breaks a rule of v3, when it is read, then the broken rule is an error.
#[test]
fn s64_v2_files_are_validated_by_v3_rules() {
    let errors = yaml_errors(&V2.replace("stat_prefix: in", "stat_prefix: ''"));
    assert!(
        errors.contains("stat_prefix: string.min_len = 1 does not hold"),
        "{errors}"
    );
}

/// Given a resource with `Any` messages at three depths, when it is converted to v2, then all type URLs are those of
/// v2, and the conversion back restores the bytes.
#[test]
fn s62_every_nested_any_is_converted() {
    let new = &yaml(V3)[0];
    let old = to_v2(new.resource_type.message(), &new.any.value).unwrap();
    let text = String::from_utf8_lossy(&old);
    for name in [
        "type.googleapis.com/envoy.config.filter.network.http_connection_manager.v2.HttpConnectionManager",
        "type.googleapis.com/envoy.config.filter.http.router.v2.Router",
    ] {
        assert!(text.contains(name), "{text}");
    }
    assert!(!text.contains("v3"), "{text}");
    assert_eq!(to_v3("envoy.api.v2.Listener", &old).unwrap(), new.any.value);
}

/// Given an `Any` of a custom type, when it is converted to v2, then it is not changed. A type of Envoy that v2 lacks
/// is an error.
#[test]
fn s62_custom_extensions_are_not_converted() {
    let any = |name: &str| Any {
        type_url: format!("type.googleapis.com/{name}"),
        value: b"\x0a\x01x"[..].into(),
    };
    let extension = |name: &str| {
        let any = any(name).encode_to_vec();
        // `TypedExtensionConfig`-like: cluster_type { name, typed_config }.
        let mut custom = vec![0x0a, 1, b'c', 0x12, u8::try_from(any.len()).unwrap()];
        custom.extend(any);
        let mut cluster = vec![0xb2, 0x02, u8::try_from(custom.len()).unwrap()];
        cluster.extend(custom);
        cluster
    };
    let cluster = ResourceType::CLUSTER;
    for own in [
        "shop.Own",
        "udpa.type.v1.TypedStruct",
        "google.protobuf.StringValue",
    ] {
        let value = extension(own);
        assert_eq!(to_v2(cluster.message(), &value).unwrap(), value, "{own}");
    }
    for new in [
        "envoy.extensions.clusters.dns.v3.DnsCluster",
        "envoy.extensions.of.tomorrow.v3.Cluster",
        "xds.type.v3.TypedStruct",
    ] {
        let errors = to_v2(cluster.message(), &extension(new)).unwrap_err();
        assert_eq!(errors[0].path, "cluster_type.typed_config");
        let to = ApiVersion::V2.into();
        let message = new.to_owned();
        assert_eq!(errors[0].cause, Incompatibility::NoMessage { message, to });
    }
}

/// Returns the errors of the conversion of a YAML resource to v2.
fn v2_errors(text: &str) -> Vec<String> {
    let resource = &yaml(text)[0];
    let errors = to_v2(resource.resource_type.message(), &resource.any.value).unwrap_err();
    errors.iter().map(ToString::to_string).collect()
}

/// Given resources with fields, list items and types that are newer than v2, when they are converted, then each is
/// reported with its path.
#[test]
fn s63_fields_that_v2_lacks_are_reported_with_path() {
    let new = "suppress_grpc_request_failure_code_stats: true";
    let listener = V3.replace("dynamic_stats: true", new);
    assert_eq!(
        v2_errors(&format!("{listener}default_filter_chain: {{}}\n")),
        [
            "filter_chains[0].filters[0].typed_config.http_filters[0].typed_config.\
             suppress_grpc_request_failure_code_stats: \
             envoy.config.filter.http.router.v2.Router has no such field",
            "default_filter_chain: envoy.api.v2.Listener has no such field",
        ]
    );

    let endpoint = "'@type': type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment
cluster_name: shop
endpoints:
- lb_endpoints:
  - endpoint: { hostname: a }
  - endpoint: { additional_addresses: [{ address: { socket_address: { address: '::1', port_value: 1 } } }] }
";
    assert_eq!(
        v2_errors(endpoint),
        [
            "endpoints[0].lb_endpoints[1].endpoint.additional_addresses: envoy.api.v2.endpoint.Endpoint has no such field"
        ]
    );

    let route = "'@type': type.googleapis.com/envoy.config.route.v3.RouteConfiguration
name: shop
virtual_hosts:
- name: all
  domains: ['*']
  typed_per_filter_config:
    cors:
      '@type': type.googleapis.com/envoy.extensions.filters.http.cors.v3.CorsPolicy
";
    assert_eq!(
        v2_errors(route),
        [
            "virtual_hosts[0].typed_per_filter_config[\"cors\"]: envoy.extensions.filters.http.cors.v3.CorsPolicy \
          does not exist in v2"
        ]
    );

    let cluster = "'@type': type.googleapis.com/envoy.config.cluster.v3.Cluster
name: shop
health_checks:
- timeout: 1s
  interval: 1s
  unhealthy_threshold: 1
  healthy_threshold: 1
  http_health_check:
    path: /
    codec_client_type: HTTP3
    receive: [{ text: '00' }, { text: '01' }]
";
    assert_eq!(
        v2_errors(cluster),
        [
            "health_checks[0].http_health_check.receive[1]: more than one value: the field is not a list in \
             envoy.api.v2.core.HealthCheck.HttpHealthCheck",
        ]
    );
}

/// Given enum values that are newer than v2, when they are converted, then they are reported.
#[test]
fn s63_enum_values_that_v2_lacks_are_reported() {
    for (message, field, enumeration, number) in [
        (
            "envoy.config.rbac.v3.RBAC",
            "action",
            "envoy.config.rbac.v2.RBAC.Action",
            2,
        ),
        (
            "envoy.extensions.common.dynamic_forward_proxy.v3.DnsCacheConfig",
            "dns_lookup_family",
            "envoy.api.v2.Cluster.DnsLookupFamily",
            3,
        ),
    ] {
        let mut filled = DynamicMessage::new(oxds_types::descriptor::message(message).unwrap());
        filled.set_field_by_name(field, Value::EnumNumber(number));
        let errors = to_v2(message, &filled.encode_to_vec()).unwrap_err();
        assert_eq!(errors[0].path, field);
        let enumeration = enumeration.to_owned();
        let no_value = Incompatibility::NoEnumValue {
            enumeration,
            number,
        };
        assert_eq!(errors[0].cause, no_value);

        filled.set_field_by_name(field, Value::EnumNumber(1));
        let old = to_v2(message, &filled.encode_to_vec());
        assert_eq!(old.unwrap(), filled.encode_to_vec(), "a value that v2 has");
    }
}
