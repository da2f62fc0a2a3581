//! The descriptors of every message of the API, options included.
//!
//! `envoy-types` ships a descriptor set but does not export it; `data/descriptors.bin.gz` is that
//! set without comments and positions, written by `cargo run -p oxds-types --example
//! regenerate-descriptors`. A test fails when it differs from the locked `envoy-types`.

use std::io::Read;
use std::sync::LazyLock;

use flate2::read::GzDecoder;
use prost_reflect::{DescriptorPool, MessageDescriptor};

static COMPRESSED: &[u8] = include_bytes!("../data/descriptors.bin.gz");

/// The pool of all descriptors. Built on first use, which takes about 25 ms: who only speaks the
/// protocol, and reads no files, does not need it.
///
/// Options keep their extensions (`validate.rules`, `udpa.annotations…`, `xds.annotations…`).
pub fn pool() -> &'static DescriptorPool {
    static POOL: LazyLock<DescriptorPool> = LazyLock::new(|| {
        // The data is part of the program; a test builds the pool.
        #[allow(clippy::expect_used)]
        DescriptorPool::decode(descriptor_set().as_slice()).expect("embedded descriptors are valid")
    });
    &POOL
}

/// The encoded `google.protobuf.FileDescriptorSet` itself, e.g. for gRPC reflection.
#[must_use]
pub fn descriptor_set() -> Vec<u8> {
    let mut set = Vec::new();
    // As above: part of the program.
    #[allow(clippy::expect_used)]
    GzDecoder::new(COMPRESSED)
        .read_to_end(&mut set)
        .expect("embedded descriptors decompress");
    set
}

/// The descriptor of a message by full name.
#[must_use]
pub fn message(full_name: &str) -> Option<MessageDescriptor> {
    pool().get_message_by_name(full_name)
}
