//! One file: from its bytes to resources, or to what is wrong with it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use oxds_core::snapshot::Resource;
use oxds_types::codec::{self, Format, LoadedResource};
use oxds_types::error::Reason;
use oxds_types::file::{self, ReadError};
use oxds_types::{Error, Position};

use crate::store::{Finding, Severity};

/// A resource and where it stands.
#[derive(Debug, Clone)]
pub(super) struct Item {
    pub(super) resource: Arc<Resource>,
    pub(super) position: Option<Position>,
}

/// Reads a file. `Ok` holds warnings beside the resources; `Err` at least one error.
pub(super) fn read(
    path: &Path,
    options: &codec::Options,
) -> Result<(Vec<Item>, Vec<Finding>), Vec<Finding>> {
    let format = Format::from_path(path)
        .ok_or_else(|| vec![finding(path, "unreadable", "not a resource file")])?;
    let bytes = bytes(path, options)?;
    let loaded = codec::decode(path, format, &bytes, options).map_err(|errors| {
        errors
            .iter()
            .map(|error| translate(path, error))
            .collect::<Vec<_>>()
    })?;
    let warnings = loaded
        .iter()
        .flat_map(|resource| &resource.warnings)
        .map(|warning| Finding {
            severity: Severity::Warning,
            ..translate(path, warning)
        })
        .collect();
    Ok((loaded.into_iter().map(item).collect(), warnings))
}

/// The file's bytes, if it is one and not too large.
pub(super) fn bytes(path: &Path, options: &codec::Options) -> Result<Vec<u8>, Vec<Finding>> {
    file::read(path, options.max_bytes).map_err(|error| {
        let rule = match error {
            ReadError::TooLarge(_) => "too-large",
            _ => "unreadable",
        };
        vec![finding(path, rule, &error.to_string())]
    })
}

fn item(loaded: LoadedResource) -> Item {
    Item {
        position: loaded.position,
        resource: Arc::new(loaded.into()),
    }
}

/// An error about a file as a whole.
pub(super) fn finding(path: &Path, rule: &'static str, message: &str) -> Finding {
    Finding {
        rule,
        ..Finding::error(path, message)
    }
}

fn translate(file: &Path, error: &Error) -> Finding {
    Finding {
        severity: if error.is_warning() {
            Severity::Warning
        } else {
            Severity::Error
        },
        file: PathBuf::from(file),
        position: error.position,
        resource_type: error.resource_type.clone(),
        resource: error.resource.clone(),
        path: error.path.clone(),
        rule: rule(&error.reason),
        message: error.reason.to_string(),
        snippet: error.snippet().map(str::to_owned),
    }
}

fn rule(reason: &Reason) -> &'static str {
    match reason {
        Reason::Syntax(_) => "syntax",
        Reason::TooLarge(_) => "too-large",
        Reason::Value(_) => "value",
        Reason::UnknownField { .. } => "unknown-field",
        Reason::NoType => "no-type",
        Reason::UnknownType(_) => "unknown-type",
        Reason::NoName(_) => "no-name",
        Reason::Rule { .. } => "rule",
        Reason::Deprecated => "deprecated",
        _ => "other",
    }
}
