//! Descriptors of all messages of the API, with their options.
//!
//! `envoy-types` ships a descriptor set but does not export it; `data/descriptors.bin.gz` is that set without comments
//! and source positions, written by `cargo run -p oxds-types --example regenerate-descriptors`. A test fails when it
//! differs from the locked `envoy-types`. The messages `TypedStruct` are added, which carry the configurations of
//! extensions.
//!
//! `data/v2.bin.gz` has the messages of the retired API v2, without options, from the same command.

use std::io::Read;
use std::sync::LazyLock;

use flate2::read::GzDecoder;
use prost_reflect::{DescriptorPool, MessageDescriptor};

static COMPRESSED: &[u8] = include_bytes!("../data/descriptors.bin.gz");

static COMPRESSED_V2: &[u8] = include_bytes!("../data/v2.bin.gz");

/// Returns the pool of all descriptors of API v3. The first call builds it, which takes about 25 ms. The transport
/// protocol does not need it; only files, JSON and v2 do.
///
/// Options have their extensions (`validate.rules`, `udpa.annotations…`, `xds.annotations…`).
pub fn pool() -> &'static DescriptorPool {
    static POOL: LazyLock<DescriptorPool> = LazyLock::new(|| {
        // The data is part of the program, and a test builds the pool.
        #[allow(clippy::expect_used)]
        DescriptorPool::decode(descriptor_set().as_slice()).expect("embedded descriptors are valid")
    });
    &POOL
}

/// Returns a pool with the descriptors of API v3 and v2. The first call builds it, which takes about 15 ms more than
/// [`pool`]. Only v2 files and v2 clients need it.
pub fn v2_pool() -> &'static DescriptorPool {
    static POOL: LazyLock<DescriptorPool> = LazyLock::new(|| {
        let mut both = pool().clone();
        // The data is part of the program, see above.
        #[allow(clippy::expect_used)]
        both.decode_file_descriptor_set(v2_descriptor_set().as_slice())
            .expect("embedded descriptors of v2 are valid");
        both
    });
    &POOL
}

/// Returns the encoded `google.protobuf.FileDescriptorSet` of API v3, for example for gRPC reflection.
#[must_use]
pub fn descriptor_set() -> Vec<u8> {
    decompress(COMPRESSED)
}

/// Returns the encoded `FileDescriptorSet` with the files of API v2. Most of them import files of [`descriptor_set`].
#[must_use]
pub fn v2_descriptor_set() -> Vec<u8> {
    decompress(COMPRESSED_V2)
}

fn decompress(data: &[u8]) -> Vec<u8> {
    let mut set = Vec::new();
    // The data is part of the program, see above.
    #[allow(clippy::expect_used)]
    GzDecoder::new(data)
        .read_to_end(&mut set)
        .expect("embedded descriptors decompress");
    set
}

/// Returns the descriptor of a v3 message by full name.
#[must_use]
pub fn message(full_name: &str) -> Option<MessageDescriptor> {
    pool().get_message_by_name(full_name)
}
