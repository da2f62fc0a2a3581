//! The state of a folder.

use std::path::Path;

use oxds_core::preview::State;
use oxds_server::Severity;

use super::Loaded;
use crate::commands::args::lifecycle::FolderFieldArgs;
use crate::exit::Failure;

/// Reads a folder, as `serve` does.
pub(crate) fn read_folder(folder: &Path, fields: &FolderFieldArgs) -> Result<Loaded, Failure> {
    let report = fields.load(folder, false, None)?;
    Ok(Loaded {
        state: State::new(report.of_all_nodes(), &report.groups),
        errors: report.count(Severity::Error),
        findings: report.findings,
    })
}
