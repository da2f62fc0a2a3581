//! Rewrites `data/descriptors.bin.gz` after an update of `envoy-types`:
//!
//! ```text
//! cargo run -p oxds-types --example regenerate-descriptors
//! ```
//! The test `descriptors_are_those_of_the_locked_envoy_types` tells when that is needed.

use std::error::Error;
use std::fs::File;
use std::io::Write;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;

mod generate;

fn main() -> Result<(), Box<dyn Error>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/descriptors.bin.gz");
    let mut file = GzEncoder::new(File::create(&path)?, Compression::best());
    file.write_all(&generate::generate()?)?;
    file.finish()?;
    Ok(())
}
