//! S-72: the forms of documents, and the equality of resources across formats.

use std::path::Path;
use std::time::Duration;

use oxds_types::ResourceType;
use oxds_types::codec::{Format, Options, decode, encode};
use proptest::prelude::*;

use crate::{lines, load, yaml, yaml_errors};

const CLUSTER: &str = "'@type': type.googleapis.com/envoy.config.cluster.v3.Cluster\nname: ";

#[test]
fn s72_file_extension_selects_the_format() {
    for (name, format) in [
        ("a.yaml", Some(Format::Yaml)),
        ("a.b.yml", Some(Format::Yaml)),
        ("a.json", Some(Format::Json)),
        ("a.pb_text", Some(Format::Text)),
        ("a.textproto", Some(Format::Text)),
        ("a.pb", Some(Format::Binary)),
        ("a.txt", None),
        ("yaml", None),
        (".yaml", None),
    ] {
        assert_eq!(Format::from_path(Path::new(name)), format, "{name}");
    }
}

/// The configuration of an extension may be a `TypedStruct`, of both packages (gRFC A39).
#[test]
fn typed_struct_is_an_extension_configuration() {
    for package in ["xds.type.v3", "udpa.type.v1"] {
        let config = |value: &str| {
            format!(
                "{CLUSTER}a\ntyped_extension_protocol_options:\n  x: {{ '@type': type.googleapis.com/{package}.TypedStruct, \
                 type_url: type.googleapis.com/my.Filter, value: {value} }}\n"
            )
        };
        let resource = &yaml(&config("{ a: 1, b: [ x, { c: null } ] }"))[0];
        // In JSON form it is the same resource.
        let json = encode(std::slice::from_ref(&resource.any), Format::Json).unwrap();
        let again = decode(
            Path::new("a.json"),
            Format::Json,
            &json,
            &Options::default(),
        );
        assert_eq!(again.unwrap()[0].any, resource.any);
        let errors = yaml_errors(&config("7"));
        assert!(errors.starts_with("test:4:"), "{errors}");
    }
}

#[test]
fn s72_document_is_a_resource_a_list_or_a_response() {
    let text = format!(
        "{CLUSTER}one\n\
         ---\n\
         - {{ '@type': type.googleapis.com/envoy.config.cluster.v3.Cluster, name: two }}\n\
         - {{ '@type': type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment, cluster_name: three }}\n\
         ---\n\
         version_info: '7'\n\
         resources:\n\
         - {{ '@type': type.googleapis.com/envoy.config.cluster.v3.Cluster, name: four }}\n\
         ---\n\
         '@type': type.googleapis.com/envoy.service.discovery.v3.DiscoveryResponse\n\
         resources:\n\
         - {{ '@type': type.googleapis.com/envoy.config.cluster.v3.Cluster, name: five }}\n\
         type_url: type.googleapis.com/envoy.config.cluster.v3.Cluster\n"
    );
    let loaded = yaml(&text);
    let names: Vec<&str> = loaded.iter().map(|resource| &*resource.name).collect();
    assert_eq!(names, ["one", "two", "three", "four", "five"]);
    let line = |i: usize| loaded[i].position.map(|position| position.line);
    assert_eq!(
        [line(0), line(1), line(2), line(3), line(4)],
        [1, 4, 5, 7, 11].map(Some)
    );
    assert_eq!(loaded[2].resource_type, ResourceType::ENDPOINT);
    assert_eq!(loaded[2].any.type_url, ResourceType::ENDPOINT.type_url());
}

#[test]
fn s72_wrapper_sets_name_and_ttl() {
    let text = "\
resources:
- '@type': type.googleapis.com/envoy.service.discovery.v3.Resource
  name: shop/lb
  ttl: 1.5s
  version: ignored
  resource:
    '@type': type.googleapis.com/envoy.config.endpoint.v3.LbEndpoint
";
    let loaded = yaml(text);
    assert_eq!(&*loaded[0].name, "shop/lb");
    assert_eq!(loaded[0].resource_type, ResourceType::LB_ENDPOINT);
    assert_eq!(loaded[0].ttl, Some(Duration::from_millis(1500)));
    let nameless = text.replace("  name: shop/lb\n", "");
    let errors = load(Format::Yaml, &nameless).unwrap_err();
    assert_eq!(
        errors[0].to_string(),
        "test:5:3: error: resources[0].resource: missing name in envoy.config.endpoint.v3.LbEndpoint",
    );
}

#[test]
fn s72_empty_documents_have_no_resources() {
    for text in [
        "",
        "\n",
        "# nothing\n",
        "---\n",
        "---\n# a\n---\n...\n",
        "\u{feff}# bom\n",
        "[]",
        "resources:\n",
        "{}",
    ] {
        assert_eq!(yaml(text), [], "{text:?}");
    }
    assert_eq!(load(Format::Json, "[]"), Ok(vec![]));
    assert_eq!(load(Format::Text, ""), Ok(vec![]));
}

#[test]
fn s72_markers_inside_scalars_do_not_split_documents() {
    let text = format!(
        "%YAML 1.2\n---\n{CLUSTER}\"a\"\nalt_stat_name: |\n  ---\n  x\n...\n--- # two\n{CLUSTER}b\n"
    );
    assert_eq!(yaml(&text).len(), 2);
}

#[test]
fn s72_resource_without_type_is_an_error() {
    let errors = load(Format::Yaml, "name: shop\n").unwrap_err();
    assert_eq!(lines(&errors), "test:1:1: error: missing `@type`\n");
    let errors = load(Format::Json, "[{\"name\": \"x\"}]").unwrap_err();
    assert_eq!(lines(&errors), "test:1:2: error: [0]: missing `@type`\n");
    assert!(load(Format::Yaml, "just text\n").is_err());
}

#[test]
fn s72_xdstp_names_are_canonical() {
    let text = format!("{CLUSTER}xdstp://a/envoy.config.cluster.v3.Cluster/x%3a80?b=1&a=2\n");
    assert_eq!(
        &*yaml(&text)[0].name,
        "xdstp://a/envoy.config.cluster.v3.Cluster/x:80?a=2&b=1"
    );
}

#[test]
fn s72_yaml_anchors_and_merge_keys_are_supported() {
    let text = "\
- &base
  '@type': type.googleapis.com/envoy.config.cluster.v3.Cluster
  name: one
  connect_timeout: 3s
- <<: *base
  name: two
";
    let loaded = yaml(text);
    assert_eq!(&*loaded[1].name, "two");
    let text = text.replace(
        "- <<: *base\n",
        "- '@type': type.googleapis.com/envoy.config.cluster.v3.Cluster\n  connect_timeout: 3s\n",
    );
    assert_eq!(yaml(&text)[1].version, loaded[1].version);
}

#[test]
fn s72_text_format_is_a_response_an_any_or_a_named_type() {
    let url = "type.googleapis.com/envoy.config.cluster.v3.Cluster";
    for text in [
        format!("resources {{ [{url}] {{ name: \"shop\" connect_timeout {{ seconds: 3 }} }} }}"),
        format!("# a cluster\n[{url}] {{ name: \"shop\" connect_timeout {{ seconds: 3 }} }}"),
        "# proto-file: x\n# proto-message: envoy.config.cluster.v3.Cluster\nname: \"shop\"\nconnect_timeout { seconds: 3 }".to_owned(),
    ] {
        let loaded = load(Format::Text, &text).unwrap_or_else(|errors| panic!("{}", lines(&errors)));
        assert_eq!(&*loaded[0].name, "shop", "{text}");
        assert_eq!(loaded[0].version, yaml(&format!("{CLUSTER}shop\nconnect_timeout: 3s\n"))[0].version);
    }
}

#[test]
fn s64_v2_types_are_read_as_v3() {
    let text = "{ '@type': type.googleapis.com/envoy.api.v2.Cluster, name: shop }";
    let loaded = yaml(text);
    assert_eq!(loaded[0].resource_type, ResourceType::CLUSTER);
    assert_eq!(loaded[0].any.type_url, ResourceType::CLUSTER.type_url());
    assert_eq!(
        loaded[0].version,
        yaml(&format!("{CLUSTER}shop"))[0].version
    );
}

#[test]
fn all_formats_round_trip() {
    let loaded = yaml(RICH);
    let anys: Vec<_> = loaded.iter().map(|resource| resource.any.clone()).collect();
    for format in [Format::Yaml, Format::Json, Format::Text, Format::Binary] {
        let file = encode(&anys, format).unwrap();
        let again =
            decode(Path::new("again"), format, &file, &Options::default()).unwrap_or_else(|e| {
                panic!(
                    "{format:?}: {}\n{}",
                    lines(&e),
                    String::from_utf8_lossy(&file)
                )
            });
        let again: Vec<_> = again.into_iter().map(|resource| resource.any).collect();
        assert_eq!(again, anys, "{format:?}");
        let same = encode(&anys, format).unwrap() == file;
        assert!(
            same || format == Format::Text,
            "{format:?} is deterministic"
        );
    }
}

/// A resource with maps, wrappers, durations, numbers of all sizes, bytes, and an `Any` in an `Any`.
const RICH: &str = r#"
'@type': type.googleapis.com/envoy.config.cluster.v3.Cluster
name: "true"
type: EDS
connect_timeout: 0.250s
per_connection_buffer_limit_bytes: 32768
eds_cluster_config: { eds_config: { ads: {} }, service_name: "10" }
metadata:
  filter_metadata:
    envoy.lb: { canary: true, weight: 1.5, names: [a, null], nested: { b: {}, a: "x\ny" } }
    b: {}
    a: { "": 0 }
typed_extension_protocol_options:
  envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
    '@type': type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
    explicit_http_config: { http2_protocol_options: { max_concurrent_streams: 100 } }
upstream_connection_options: { tcp_keepalive: { keepalive_time: 0 } }
health_checks:
- timeout: 1s
  interval: 2s
  unhealthy_threshold: 3
  healthy_threshold: 1
  custom_health_check:
    name: x
    typed_config:
      '@type': type.googleapis.com/google.protobuf.Any
      value: { '@type': type.googleapis.com/google.protobuf.Duration, value: 3s }
- timeout: 1s
  interval: 2s
  unhealthy_threshold: 3
  healthy_threshold: 1
  tcp_health_check: { send: { binary: AP8Q } }
"#;

fn assignment() -> impl Strategy<Value = Vec<(String, u16, u32)>> {
    prop::collection::vec(("[a-z]{1,6}", 0..=u16::MAX, 1..1000u32), 0..6)
}

fn render(order: &[usize], keys: &[(String, u16, u32)]) -> String {
    let metadata: String = order
        .iter()
        .map(|&i| format!("          {}{i}: {{ port: {} }}\n", keys[i].0, keys[i].1))
        .collect();
    let fields = [
        "      health_status: HEALTHY\n".to_owned(),
        "      load_balancing_weight: 7\n".to_owned(),
        format!("      metadata:\n        filter_metadata:\n          always: {{}}\n{metadata}"),
    ];
    let rotate = order.first().copied().unwrap_or_default() % 3;
    let body: String = (0..3).map(|i| fields[(i + rotate) % 3].as_str()).collect();
    format!(
        "'@type': type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment\n\
         cluster_name: shop\nendpoints:\n  - lb_endpoints:\n    - endpoint: {{}}\n{body}"
    )
}

proptest! {
    #[test]
    fn s29_versions_do_not_depend_on_field_order(
        (keys, order) in assignment().prop_flat_map(|keys| {
            let order: Vec<usize> = (0..keys.len()).collect();
            (Just(keys), Just(order).prop_shuffle())
        })
    ) {
        let straight: Vec<usize> = (0..keys.len()).collect();
        let (one, other) = (yaml(&render(&straight, &keys)), yaml(&render(&order, &keys)));
        prop_assert_eq!(&one[0].any.value, &other[0].any.value);
        prop_assert_eq!(one[0].version, other[0].version);
        let mut changed = keys.clone();
        if let Some(entry) = changed.first_mut() {
            entry.1 = entry.1.wrapping_add(1);
            prop_assert_ne!(yaml(&render(&straight, &changed))[0].version, one[0].version);
        }
    }

    #[test]
    fn json_and_binary_are_equivalent(keys in assignment()) {
        let straight: Vec<usize> = (0..keys.len()).collect();
        let any = yaml(&render(&straight, &keys)).remove(0).any;
        let json = encode(std::slice::from_ref(&any), Format::Json).unwrap();
        let json = decode(Path::new("j"), Format::Json, &json, &Options::default()).unwrap();
        prop_assert_eq!(&json[0].any, &any);
        let binary = encode(std::slice::from_ref(&any), Format::Binary).unwrap();
        let binary = decode(Path::new("b"), Format::Binary, &binary, &Options::default()).unwrap();
        prop_assert_eq!(&binary[0].any, &any);
    }

    #[test]
    fn arbitrary_input_does_not_panic(text in "\\PC{0,40}", bytes: Vec<u8>) {
        for format in [Format::Yaml, Format::Json, Format::Text, Format::Binary] {
            let _ = load(format, &text);
            let _ = decode(Path::new("x"), format, &bytes, &Options::default());
        }
    }
}
