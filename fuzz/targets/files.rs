//! Any bytes as a file of resources, in each format: resources or errors with the file, never a panic. What is read can be
//! written in every format, and reads back as the same; clients of both API versions get it, or a reason.
#![no_main]

use std::path::Path;

use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use oxds_types::codec::{Format, LoadedResource, Options, check_depth, decode, encode};
use oxds_types::version_map::to_v2;

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
        Ok(resources) => resources
            .iter()
            .for_each(|resource| check(resource, format)),
        Err(errors) => {
            assert!(!errors.is_empty());
            for error in errors {
                assert!(error.to_string().starts_with('f'), "{error}");
            }
        }
    }
});

fn check(resource: &LoadedResource, read_as: Format) {
    check_depth(resource.resource_type.message(), &resource.any.value).expect("checked at load");
    let _ = to_v2(resource.resource_type.message(), &resource.any.value);
    for format in FORMATS {
        // An `Any` of unknown type, which binary files may have, cannot be written as text.
        let Ok(text) = encode(std::slice::from_ref(&resource.any), format) else {
            assert_eq!(read_as, Format::Binary, "{format:?} {resource:?}");
            continue;
        };
        if resource.ttl.is_some() || read_as == Format::Binary {
            continue;
        }
        let again = decode(Path::new("f"), format, &text, &Options::default());
        let Ok(again) = again else {
            // Names and TTL of a wrapper are not in the resource.
            continue;
        };
        assert_eq!(again[0].any, resource.any, "{format:?}");
    }
}
