//! Rewrites `data/` after an update of `envoy-types`:
//!
//! ```text
//! cargo run -p oxds-types --example regenerate-descriptors
//! ```
//! The test `descriptors_match_the_locked_envoy_types` fails when this is needed. The descriptors of v2 do not change
//! any more.

use std::error::Error;
use std::fs::File;
use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use prost_reflect::DescriptorPool;

mod generate;
mod v2;

fn main() -> Result<(), Box<dyn Error>> {
    let current = generate::generate()?;
    write("data/descriptors.bin.gz", &current)?;
    let base = DescriptorPool::decode(current.as_slice())?;
    write("data/v2.bin.gz", &v2::generate(&base)?)
}

fn write(path: &str, bytes: &[u8]) -> Result<(), Box<dyn Error>> {
    let mut file = GzEncoder::new(File::create(generate::here(path))?, Compression::best());
    file.write_all(bytes)?;
    file.finish()?;
    Ok(())
}
