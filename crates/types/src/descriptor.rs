//! The descriptors of every message of the API, options included.
//!
//! `envoy-types` ships a descriptor set but does not export it; `data/descriptors.bin.gz` is that
//! set without comments and positions, written by `cargo run -p oxds-types --example
//! regenerate-descriptors`. A test fails when it differs from the locked `envoy-types`.
//!
//! `data/v2.bin.gz` is what the retired API v2 had, without options, from the same command.

use std::io::Read;
use std::sync::LazyLock;

use flate2::read::GzDecoder;
use prost_reflect::{DescriptorPool, MessageDescriptor};

static COMPRESSED: &[u8] = include_bytes!("../data/descriptors.bin.gz");

static COMPRESSED_V2: &[u8] = include_bytes!("../data/v2.bin.gz");

/// The pool of all descriptors of the current API. Built on first use, which takes about 25 ms: who only speaks the
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

/// The same and the API v2. Built on first use, too, which takes about 15 ms more: only v2 files
/// and v2 clients need it.
pub fn v2_pool() -> &'static DescriptorPool {
    static POOL: LazyLock<DescriptorPool> = LazyLock::new(|| {
        let mut both = pool().clone();
        // As above: part of the program.
        #[allow(clippy::expect_used)]
        both.decode_file_descriptor_set(v2_descriptor_set().as_slice())
            .expect("embedded descriptors of v2 are valid");
        both
    });
    &POOL
}

/// The encoded `google.protobuf.FileDescriptorSet` itself, e.g. for gRPC reflection.
#[must_use]
pub fn descriptor_set() -> Vec<u8> {
    decompress(COMPRESSED)
}

/// What the API v2 has besides: most of it builds upon [`descriptor_set`].
#[must_use]
pub fn v2_descriptor_set() -> Vec<u8> {
    decompress(COMPRESSED_V2)
}

fn decompress(data: &[u8]) -> Vec<u8> {
    let mut set = Vec::new();
    // As above: part of the program.
    #[allow(clippy::expect_used)]
    GzDecoder::new(data)
        .read_to_end(&mut set)
        .expect("embedded descriptors decompress");
    set
}

/// The descriptor of a message of the current API by full name.
#[must_use]
pub fn message(full_name: &str) -> Option<MessageDescriptor> {
    pool().get_message_by_name(full_name)
}
