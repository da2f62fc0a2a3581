//! The state of a commit: its files are read by git, and nothing is written.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use oxds_apicheck::input::{Input, commit_files};
use oxds_core::preview::State;
use oxds_server::store::documents::{Document, DocumentDecoder, DocumentOptions, Documents, Edits};
use oxds_server::{FindingCounts, Severity};
use oxds_types::codec::Format;

use super::{Loaded, read_folder};
use crate::commands::args::lifecycle::FolderFieldArgs;
use crate::exit::Failure;
use crate::progress;

/// Reads a folder or a commit.
pub(crate) fn of_input(input: &Input, fields: &FolderFieldArgs) -> Result<Loaded, Failure> {
    match input {
        Input::Folder(folder) => read_folder(folder, fields),
        Input::Git { .. } => read_commit(input, fields),
        _ => Err(Failure::usage(format_args!(
            "{input}: expected a folder or a commit, such as .git#ref=main,subdir=config"
        ))),
    }
}

fn read_commit(input: &Input, fields: &FolderFieldArgs) -> Result<Loaded, Failure> {
    let Input::Git {
        revision, subdir, ..
    } = input
    else {
        return Ok(Loaded::default());
    };
    let subdir = subdir.as_deref().unwrap_or_default();
    let below = |path: &str| path.get(subdir.len()..).unwrap_or(path).to_owned();
    let is_wanted = |path: &str| {
        let is_hidden = below(path).split('/').any(|part| part.starts_with('.'));
        !is_hidden && Format::from_path(Path::new(path)).is_some()
    };
    let label = format!("reading {input}");
    let files = progress::while_working(&label, || commit_files(input, &is_wanted));
    let files = files.map_err(Failure::usage)?.unwrap_or_default();
    let options = fields.options(false, None)?;
    let mut document_options = DocumentOptions::default();
    document_options.codec = options.codec;
    document_options.max_findings = usize::MAX;
    // Findings name files as git does: `main:config/a.yaml`.
    let name = revision.to_string();
    let name = name.split_once('=').map_or(&*name, |(_, name)| name);
    let top = if subdir.is_empty() { "." } else { subdir };
    let root = PathBuf::from(format!("{name}:{top}"));
    let mut documents = Documents::new(&root, document_options);
    let decoded = decode(documents.decoder(), &root, &files);
    let edits = decoded.into_iter().fold(Edits::default(), Edits::put);
    let update = documents.apply(edits);
    let counts = FindingCounts::of(&update.findings);
    Ok(Loaded {
        state: State::new(&update.changes.upserts, &update.groups),
        errors: counts.of_severity(Severity::Error)
            + update.more_findings.of_severity(Severity::Error),
        // A commit without a configuration is valid.
        findings: {
            let findings = update.findings.into_iter();
            findings.filter(|finding| finding.rule != "empty").collect()
        },
    })
}

/// Decodes the files on all processors.
fn decode(decoder: &DocumentDecoder, root: &Path, files: &[(String, Bytes)]) -> Vec<Document> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let size = files.len().div_ceil(threads).max(1);
    let one = |(path, bytes): &(String, Bytes)| decoder.decode(root.join(path), bytes);
    std::thread::scope(|scope| {
        let parts: Vec<_> = files
            .chunks(size)
            .map(|part| scope.spawn(move || part.iter().map(one).collect::<Vec<_>>()))
            .collect();
        let parts = parts.into_iter().map(|part| match part.join() {
            Ok(documents) => documents,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        parts.flatten().collect()
    })
}
