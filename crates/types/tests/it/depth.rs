//! The limit on nested messages: the same in every format, through `Any` and `Struct`, in both directions.

use std::path::Path;

use oxds_types::codec::{
    Format, Options, check_depth, decode, encode, response_from_json, response_to_json,
};
use oxds_types::discovery::{Any, DiscoveryResponse};
use oxds_types::error::Reason;
use prost::Message as _;
use prost::encoding::{WireType, encode_key, encode_varint};

/// `TypedExtensionConfig` is a resource, and holds an `Any`: each one inside the other is a level.
const EXTENSION: &str = "envoy.config.core.v3.TypedExtensionConfig";
const ROUTER: &str = "envoy.extensions.filters.http.router.v3.Router";
const CLUSTER: &str = "envoy.config.cluster.v3.Cluster";
const ANY: &str = "google.protobuf.Any";
const LIMIT: usize = 100;

fn any(message: &str, value: Vec<u8>) -> Any {
    Any {
        type_url: format!("type.googleapis.com/{message}"),
        value: value.into(),
    }
}

/// Appends a field with a length.
fn field(number: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![number << 3 | 2];
    encode_varint(body.len() as u64, &mut bytes);
    bytes.extend_from_slice(body);
    bytes
}

/// Returns an extension with this many levels below it.
fn extension(levels: usize) -> Vec<u8> {
    let mut inner = any(ROUTER, Vec::new());
    for level in (0..levels).rev() {
        let value = [field(1, b"x"), field(2, &inner.encode_to_vec())].concat();
        match level {
            0 => return value,
            _ => inner = any(EXTENSION, value),
        }
    }
    unreachable!("at least one level")
}

fn nested(levels: usize, around: impl Fn(&str) -> String, innermost: &str) -> String {
    (1..levels).fold(innermost.to_owned(), |inner, _| around(&inner))
}

/// Returns a file of each format with one extension of this many levels.
fn files(levels: usize) -> [(Format, Vec<u8>); 4] {
    let json = nested(
        levels,
        |inner| {
            format!(
                "{{\"@type\": \"type.googleapis.com/{EXTENSION}\", \"name\": \"x\", \"typed_config\": {inner}}}"
            )
        },
        &format!("{{\"@type\": \"type.googleapis.com/{ROUTER}\"}}"),
    );
    let json = format!(
        "{{\"@type\": \"type.googleapis.com/{EXTENSION}\",\n\"name\": \"x\",\n\"typed_config\": {json}}}"
    );
    let text = nested(
        levels,
        |inner| {
            format!(
                "[type.googleapis.com/{EXTENSION}] {{ name: \"x\" typed_config {{ {inner} }} }}"
            )
        },
        &format!("[type.googleapis.com/{ROUTER}] {{}}"),
    );
    let text = format!("# proto-message: {EXTENSION}\nname: \"x\"\ntyped_config {{ {text} }}\n");
    [
        (Format::Yaml, json.clone().into_bytes()),
        (Format::Json, json.into_bytes()),
        (Format::Text, text.into_bytes()),
        (
            Format::Binary,
            any(EXTENSION, extension(levels)).encode_to_vec(),
        ),
    ]
}

/// Returns the path of the only finding, which must be about the depth.
fn too_deep(format: Format, bytes: &[u8]) -> String {
    let errors = decode(Path::new("deep"), format, bytes, &Options::default()).unwrap_err();
    let [error] = &errors[..] else {
        panic!("{format:?}: {errors:?}")
    };
    assert!(
        matches!(&error.reason, Reason::TooLarge(reason) if reason.contains("100 levels")),
        "{format:?}: {error}"
    );
    error.path.clone()
}

/// Given an extension with 100 levels of messages, then every format reads it. Given 101, then every format has one
/// finding.
#[test]
fn each_format_has_the_limit_of_protobuf() {
    for (format, bytes) in files(LIMIT) {
        let loaded = decode(Path::new("deep"), format, &bytes, &Options::default());
        let loaded = loaded.unwrap_or_else(|errors| panic!("{format:?}: {errors:?}"));
        assert_eq!(loaded[0].any.value, extension(LIMIT), "{format:?}");
        let printed = encode(&[loaded[0].any.clone()], format).unwrap();
        let again = decode(Path::new("again"), format, &printed, &Options::default());
        assert_eq!(again.unwrap()[0].any, loaded[0].any, "{format:?}");
    }
    for (format, bytes) in files(LIMIT + 1) {
        let path = too_deep(format, &bytes);
        assert!(
            path.starts_with("typed_config.typed_config."),
            "{format:?}: {path}"
        );
    }
}

/// Given 6,000 messages that only carry the next one, then the file is refused.
#[test]
fn nested_wrappers_in_a_binary_file_are_invalid() {
    let cluster = any(CLUSTER, field(1, b"a"));
    let wrapped = |levels: usize, message: &str, number: Option<u8>| {
        let file = (0..levels).fold(cluster.clone(), |inner, _| {
            let inner = inner.encode_to_vec();
            any(
                message,
                number.map_or(inner.clone(), |number| field(number, &inner)),
            )
        });
        file.encode_to_vec()
    };
    for (message, number) in [
        (ANY, None),
        ("envoy.service.discovery.v3.Resource", Some(2)),
        ("envoy.service.discovery.v3.DiscoveryResponse", Some(2)),
    ] {
        let few = wrapped(3, message, number);
        let loaded = decode(Path::new("few"), Format::Binary, &few, &Options::default());
        assert_eq!(&*loaded.unwrap()[0].name, "a", "{message}");
        too_deep(Format::Binary, &wrapped(6000, message, number));
    }
}

/// Given a cluster with 8,000 messages, each in an `Any` of the one before, then the file is refused with the path, and
/// writers refuse the resource.
#[test]
fn any_in_any_of_a_resource_is_invalid() {
    let of_any = (0..8000).fold(any(ROUTER, Vec::new()), |inner, _| {
        any(ANY, inner.encode_to_vec())
    });
    let of_extension = any(EXTENSION, extension(8000));
    for content in [of_any, of_extension] {
        // Cluster.metadata.typed_filter_metadata.
        let entry = [field(1, b"k"), field(2, &content.encode_to_vec())].concat();
        let mut value = field(1, b"a");
        encode_key(25, WireType::LengthDelimited, &mut value);
        let metadata = field(2, &entry);
        encode_varint(metadata.len() as u64, &mut value);
        value.extend_from_slice(&metadata);
        let cluster = any(CLUSTER, value);

        let path = too_deep(Format::Binary, &cluster.encode_to_vec());
        assert!(
            path.starts_with("metadata.typed_filter_metadata[\"k\"]"),
            "{path}"
        );
        let error = check_depth(CLUSTER, &cluster.value)
            .unwrap_err()
            .to_string();
        assert!(error.starts_with("metadata."), "{error}");
        for format in [Format::Yaml, Format::Json, Format::Text] {
            let error = encode(std::slice::from_ref(&cluster), format).unwrap_err();
            assert!(error.to_string().contains("100 levels"), "{error}");
        }
        let response = DiscoveryResponse {
            type_url: cluster.type_url.clone(),
            resources: vec![cluster],
            ..DiscoveryResponse::default()
        };
        let error = response_to_json(&response).unwrap_err();
        assert!(error.to_string().contains("100 levels"), "{error}");
    }
}

/// Given values in `Struct` and `ListValue`, in a field and in an `Any`, which have two or three messages for each
/// level of a text, then every format refuses those that no protobuf decoder reads, with path and line.
#[test]
fn levels_of_struct_and_list_values_are_counted() {
    let structs = |levels| nested(levels, |inner| format!("{{\"a\": {inner}}}"), "{}");
    let lists = |levels| {
        format!(
            "{{\"l\": {}}}",
            nested(levels, |inner| format!("[{inner}]"), "[]")
        )
    };
    let typed = |value: &str| {
        format!(
            "{{\"@type\": \"type.googleapis.com/{CLUSTER}\",\n\"name\": \"a\",\n\"metadata\": {{\"typed_filter_metadata\": {{\"k\": \
             {{\"@type\": \"type.googleapis.com/google.protobuf.Struct\", \"value\": {value}}}}}}}}}"
        )
    };
    let plain = |value: &str| {
        format!(
            "{{\"@type\": \"type.googleapis.com/{CLUSTER}\",\n\"name\": \"a\",\n\"metadata\": {{\"filter_metadata\": {{\"k\": {value}}}}}}}"
        )
    };
    for (deep, shallow) in [
        (plain(&structs(34)), plain(&structs(32))),
        (plain(&lists(50)), plain(&lists(46))),
        (typed(&structs(34)), typed(&structs(32))),
        (typed(&lists(50)), typed(&lists(46))),
    ] {
        for format in [Format::Yaml, Format::Json] {
            let read =
                |text: &str| decode(Path::new("s"), format, text.as_bytes(), &Options::default());
            let resource = read(&shallow).unwrap().remove(0);
            // The limit is one that clients have: they can decode what is loaded.
            envoy_types::pb::envoy::config::cluster::v3::Cluster::decode(resource.any.value)
                .unwrap();
            let errors = read(&deep).unwrap_err();
            let error = errors[0].to_string();
            assert!(
                error.starts_with("s:3:")
                    && error.contains(": error: metadata.")
                    && error.contains("100 levels"),
                "{format:?}: {error}"
            );
        }
    }
}

/// Given JSON of REST discovery with nested messages, lists or unknown fields, then it is read up to the limit, and
/// refused beyond.
#[test]
fn rest_json_has_the_same_limit() {
    let response = |content: &str| format!("{{\"resources\": [{content}]}}").into_bytes();
    let [_, (_, deep), ..] = files(LIMIT + 1);
    let [_, (_, fits), ..] = files(LIMIT);
    let fits = response_from_json(&response(std::str::from_utf8(&fits).unwrap())).unwrap();
    assert_eq!(fits.resources[0].value, extension(LIMIT));
    assert!(response_to_json(&fits).is_ok());
    for refused in [
        response(std::str::from_utf8(&deep).unwrap()),
        format!("{{\"tomorrow\": {}", "[".repeat(100_000)).into_bytes(),
        format!("{{\"resources\": {}", "[{\"a\":".repeat(100_000)).into_bytes(),
    ] {
        let error = response_from_json(&refused).unwrap_err().to_string();
        assert!(error.contains("100 levels"), "{error}");
    }
}

/// The decoder reads the entries of a map with any wire type as if they had a length. Found by a fuzzer.
#[test]
fn maps_of_any_wire_type_count() {
    for wire_type in 0..6 {
        // Metadata in field 25 of a cluster, a map of `Any`s in field 2 of that.
        let mut cluster = field(1, b"x");
        for _ in 0..2 * LIMIT {
            let entry = [
                field(1, b"k"),
                field(2, &any(CLUSTER, cluster).encode_to_vec()),
            ];
            let mut map = field(2, &entry.concat());
            map[0] = 2 << 3 | wire_type;
            cluster = field(1, b"x");
            encode_key(25, WireType::LengthDelimited, &mut cluster);
            encode_varint(map.len() as u64, &mut cluster);
            cluster.extend(map);
        }
        assert!(check_depth(CLUSTER, &cluster).is_err(), "{wire_type}");
    }
}
