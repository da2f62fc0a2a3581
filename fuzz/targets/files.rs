//! Any bytes as a file of resources, in each format: resources or errors with the file, never a panic. Resources that
//! were read can be written in every format, and reads back as the same; clients of both API versions get it, or a
//! reason.
#![no_main]

use std::path::Path;

use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use oxds_types::codec::{Format, LoadedResource, Options, check_depth, decode, encode};
use oxds_types::discovery::{Any, Duration, Resource};
use oxds_types::version_map::to_v2;
use prost::Message as _;

const FORMATS: [Format; 4] = [Format::Yaml, Format::Json, Format::Text, Format::Binary];

mod wire;

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    match data.first() {
        Some(variant) if FORMATS[usize::from(variant % 4)] == Format::Binary => {
            wire::mutate(data, size, max_size, seed)
        }
        _ => fuzzer_mutate(data, size, max_size),
    }
});

fuzz_target!(|bytes: &[u8]| {
    let Some((variant, bytes)) = bytes.split_first() else {
        return;
    };
    let mut options = Options::default();
    options.allow_unknown_fields = variant & 4 != 0;
    let format = FORMATS[usize::from(variant % 4)];
    match decode(Path::new("f"), format, bytes, &options) {
        Ok(resources) => {
            for resource in &resources {
                check(resource, format, &options);
            }
        }
        Err(errors) => {
            assert!(!errors.is_empty());
            for error in errors {
                assert!(error.to_string().starts_with('f'), "{error}");
            }
        }
    }
});

/// A resource is valid for the client, and reads back as the same from each format, with its name and TTL.
fn check(resource: &LoadedResource, read_as: Format, options: &Options) {
    check_depth(resource.resource_type.message(), &resource.any.value).expect("checked at load");
    let _ = to_v2(resource.resource_type.message(), &resource.any.value);
    let wrapper = Resource {
        name: resource.name.to_string(),
        resource: Some(resource.any.clone()),
        ttl: resource.ttl.map(|ttl| Duration {
            seconds: ttl.as_secs().cast_signed(),
            nanos: ttl.subsec_nanos().cast_signed(),
        }),
        ..Resource::default()
    };
    let wrapper = Any {
        type_url: "type.googleapis.com/envoy.service.discovery.v3.Resource".to_owned(),
        value: wrapper.encode_to_vec().into(),
    };
    for format in FORMATS {
        // An `Any` of unknown type, which binary files may have, cannot be written as text.
        let Ok(text) = encode(std::slice::from_ref(&wrapper), format) else {
            assert_eq!(read_as, Format::Binary, "{format:?} {resource:?}");
            continue;
        };
        let again = match decode(Path::new("f"), format, &text, options) {
            Ok(again) => again,
            Err(errors) => panic!("{format:?} {errors:?}\n{}", String::from_utf8_lossy(&text)),
        };
        assert_eq!(again.len(), 1, "{format:?}");
        let again = &again[0];
        assert_eq!(
            (&again.name, again.ttl),
            (&resource.name, resource.ttl),
            "{format:?}"
        );
        if again.any != resource.any {
            // Text and binary have unknown fields and a `Value` without content. JSON omits the former, and the latter
            // is null.
            let [Ok(was), Ok(is)] = [&resource.any, &again.any]
                .map(|any| encode(std::slice::from_ref(any), Format::Json))
            else {
                // An `Any` of unknown type.
                continue;
            };
            assert_eq!(
                String::from_utf8_lossy(&was),
                String::from_utf8_lossy(&is),
                "{format:?}"
            );
            let has_null = was.windows(4).any(|word| word == b"null");
            assert!(
                has_null || read_as == Format::Binary,
                "{format:?} {resource:?}"
            );
        }
    }
}
