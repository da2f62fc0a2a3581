//! Integration tests, one file per scenario family.

// Helpers of tests are tests, which clippy sees only at the attribute.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod checks;
mod descriptors;
mod documents;
mod limits;
mod messages;
mod references;
mod versions;

use std::path::Path;

use oxds_types::Error;
use oxds_types::codec::{Format, LoadedResource, Options, decode};

/// Reads a text with the default options, as the file `test`.
fn load(format: Format, text: &str) -> Result<Vec<LoadedResource>, Vec<Error>> {
    decode(
        Path::new("test"),
        format,
        text.as_bytes(),
        &Options::default(),
    )
}

/// The same, of YAML that must be good.
fn yaml(text: &str) -> Vec<LoadedResource> {
    load(Format::Yaml, text).unwrap_or_else(|errors| panic!("{}", lines(&errors)))
}

/// The errors of YAML that must be bad, one line each.
fn yaml_errors(text: &str) -> String {
    lines(&load(Format::Yaml, text).unwrap_err())
}

fn lines(errors: &[Error]) -> String {
    errors.iter().map(|error| format!("{error}\n")).collect()
}
