//! G: inputs that fuzzers found (`fuzz/targets/files.rs`).

use std::path::Path;

use envoy_types::pb::envoy::config::cluster::v3::Cluster;
use envoy_types::pb::envoy::config::core::v3::Metadata;
use envoy_types::pb::google::protobuf::Any as TypedMetadata;
use oxds_types::ResourceType;
use oxds_types::codec::{Format, LoadedResource, Options, decode, encode};
use oxds_types::discovery::Any;
use prost::Message;

use crate::lines;

/// Returns the resource of a binary file with this cluster.
fn loaded(cluster: &Cluster) -> LoadedResource {
    let any = Any {
        type_url: ResourceType::CLUSTER.type_url().to_owned(),
        value: cluster.encode_to_vec().into(),
    };
    let file = encode(&[any], Format::Binary).unwrap();
    again(Format::Binary, &file)
}

fn again(format: Format, file: &[u8]) -> LoadedResource {
    let loaded = decode(Path::new("f"), format, file, &Options::default());
    let loaded = loaded.unwrap_or_else(|errors| panic!("{format:?}: {}", lines(&errors)));
    loaded.into_iter().next().unwrap()
}

/// Clients look at the part behind the last `/` only.
#[test]
fn g_type_url_of_any_host_is_written_as_text() {
    let typed = TypedMetadata {
        type_url: "a[b/google.protobuf.StringValue".to_owned(),
        ..TypedMetadata::default()
    };
    let cluster = Cluster {
        name: "a".to_owned(),
        metadata: Some(Metadata {
            typed_filter_metadata: [("k".to_owned(), typed)].into(),
            ..Metadata::default()
        }),
        ..Cluster::default()
    };
    let resource = loaded(&cluster);
    let [yaml, text] = [Format::Yaml, Format::Text].map(|format| {
        let file = encode(std::slice::from_ref(&resource.any), format).unwrap();
        again(format, &file).any
    });
    assert_eq!(yaml, text);
}
