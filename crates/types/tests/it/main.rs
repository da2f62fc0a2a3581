//! Integration tests, one file per scenario family.

// Clippy allows unwrap in functions with `#[test]`, but not in their helpers.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod checks;
mod depth;
mod descriptors;
mod documents;
mod fuzzed;
mod lifecycle;
mod limits;
mod messages;
mod references;
mod versions;

use std::path::Path;

use oxds_types::Error;
use oxds_types::codec::{Format, LoadedResource, Options, decode};

/// Reads a text with the default options, as a file with the path `test`.
fn load(format: Format, text: &str) -> Result<Vec<LoadedResource>, Vec<Error>> {
    decode(
        Path::new("test"),
        format,
        text.as_bytes(),
        &Options::default(),
    )
}

/// Reads YAML that must be valid.
fn yaml(text: &str) -> Vec<LoadedResource> {
    load(Format::Yaml, text).unwrap_or_else(|errors| panic!("{}", lines(&errors)))
}

/// Returns the errors of YAML that must be invalid, one line each.
fn yaml_errors(text: &str) -> String {
    lines(&load(Format::Yaml, text).unwrap_err())
}

fn lines(errors: &[Error]) -> String {
    errors.iter().map(|error| format!("{error}\n")).collect()
}
