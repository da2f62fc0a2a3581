//! The descriptors are complete and current, and match the messages and tables that are written by hand.

use oxds_types::resource_type::ADS;
use oxds_types::{ApiVersion, ResourceType, descriptor};

#[path = "../../examples/regenerate-descriptors/generate.rs"]
mod generate;
#[path = "../../examples/regenerate-descriptors/v2.rs"]
mod v2;

#[test]
fn descriptors_match_the_locked_envoy_types() {
    assert!(
        descriptor::descriptor_set() == generate::generate().unwrap(),
        "run `cargo run -p oxds-types --example regenerate-descriptors`"
    );
}

/// The crate with the protos must be fetched first: `cargo fetch --manifest-path interop/peers/trees/Cargo.toml`.
#[test]
#[ignore = "needs the crate data-plane-api, which is not a dependency"]
fn v2_descriptors_match_the_last_v2_protos() {
    assert!(descriptor::v2_descriptor_set() == v2::generate(descriptor::pool()).unwrap());
}

#[test]
fn options_have_their_extensions() {
    let field = |message: &str, field: &str| {
        descriptor::message(message)
            .unwrap()
            .get_field_by_name(field)
            .unwrap()
            .options()
    };
    let extension = |name: &str| descriptor::pool().get_extension_by_name(name).unwrap();
    let port = field("envoy.config.core.v3.SocketAddress", "port_value");
    let rules = port.get_extension(&extension("validate.rules")).to_string();
    assert!(rules.contains("uint32{lte:65535}"), "{rules}");

    let cluster = descriptor::message("envoy.config.cluster.v3.Cluster").unwrap();
    let versioning = cluster
        .options()
        .get_extension(&extension("udpa.annotations.versioning"))
        .to_string();
    assert!(versioning.contains("envoy.api.v2.Cluster"), "{versioning}");

    let file = cluster.parent_file().options();
    assert!(file.has_extension(&extension("udpa.annotations.file_status")));
}

/// Compares field numbers and labels of the messages in `oxds_types::discovery` with the descriptors.
#[test]
fn discovery_messages_match_the_descriptors() {
    let source = include_str!("../../src/discovery.rs");
    let mut compared = 0;
    for declaration in source.split("\npub struct ").skip(1) {
        let (name, body) = declaration.split_once(" {").unwrap();
        // Ours (V-50): the API never had it.
        if name == "VersionedTypeUrl" {
            continue;
        }
        let message = match name {
            "Any" => "google.protobuf.Any".to_owned(),
            "CacheControl" => "envoy.service.discovery.v3.Resource.CacheControl".to_owned(),
            "ParametrizedName" => "envoy.service.discovery.v3.ResourceName".to_owned(),
            name => format!("envoy.service.discovery.v3.{name}"),
        };
        let message = descriptor::message(&message).unwrap();
        let body = body.split("\n}").next().unwrap();
        let declared: Vec<(&str, &str)> = body
            .split("#[prost(")
            .skip(1)
            .map(|field| {
                let (attribute, rest) = field.split_once(")]").unwrap();
                let name = rest
                    .trim()
                    .strip_prefix("pub ")
                    .unwrap()
                    .split(':')
                    .next()
                    .unwrap();
                (name, attribute)
            })
            .filter(|(name, _)| *name != "versioned_type_urls")
            .collect();
        assert_eq!(declared.len(), message.fields().len(), "{name}");
        for (field, attribute) in declared {
            let descriptor = message.get_field_by_name(field).unwrap();
            let tag = format!("tag = \"{}\"", descriptor.number());
            assert!(attribute.ends_with(&tag), "{name}.{field}: {attribute}");
            let repeated = descriptor.is_list() && !descriptor.is_map();
            assert_eq!(attribute.contains("repeated"), repeated, "{name}.{field}");
            compared += 1;
        }
    }
    assert_eq!(compared, 48, "number of fields in discovery.rs");
}

/// All methods and messages in the table of resource types exist.
#[test]
fn resource_type_table_matches_the_descriptors() {
    let v3 = ApiVersion::V3;
    let services = ResourceType::known()
        .filter_map(|resource_type| resource_type.service(v3))
        .chain([&ADS[0]]);
    for service in services {
        let descriptor = descriptor::pool()
            .get_service_by_name(service.name)
            .unwrap();
        let methods: Vec<String> = descriptor.methods().map(|m| m.name().to_owned()).collect();
        let mut named: Vec<&str> = [service.stream, service.delta, service.fetch]
            .into_iter()
            .flatten()
            .collect();
        assert_eq!(named.len(), methods.len(), "{}", service.name);
        named.retain(|name| !methods.iter().any(|method| method == name));
        assert_eq!(named, [""; 0], "{}", service.name);
    }
    for resource_type in ResourceType::known() {
        assert!(
            descriptor::message(resource_type.message()).is_some(),
            "{resource_type}"
        );
    }
}
