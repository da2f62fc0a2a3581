//! Errors of reading a tree, sorted by who must act.

use std::path::{Path, PathBuf};

use crate::parse;

/// Error: the tree cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The input cannot be read; the caller must fix the arguments. Exit code 2.
    #[error(transparent)]
    Unusable(#[from] Unusable),
    /// The files do not compile; their authors must fix them. Exit code 3.
    #[error("the files do not compile: {} errors, the first: {}", .0.len(), .0.first().map(ToString::to_string).unwrap_or_default())]
    Compile(Vec<parse::Error>),
}

/// Error: the requested input cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unusable {
    /// The input specification is malformed.
    #[error("{input}: {why}")]
    Spelling {
        /// Input as typed on the command line.
        input: String,
        /// Description of the error, with the expected value.
        why: String,
    },
    /// A file or folder cannot be read.
    #[error("{}: {why}", path.display())]
    Unreadable {
        /// Path of the file or folder.
        path: PathBuf,
        /// Message of the operating system.
        why: String,
    },
    /// The input contains no proto file.
    #[error("no .proto file in {0}")]
    Empty(String),
    /// git does not know the commit.
    #[error("{repository}: unknown revision {revision}{hint}")]
    UnknownRevision {
        /// Path of the repository.
        repository: String,
        /// Requested revision, such as `branch=main`.
        revision: String,
        /// Remedy, for example for a shallow clone.
        hint: String,
    },
    /// The repository has none of the branches that are taken for the default branch.
    #[error(
        "{repository}: no default branch: expected origin/HEAD, main or master; \
         choose the base with --against .git#ref=…{hint}"
    )]
    NoDefaultBranch {
        /// Path of the repository.
        repository: String,
        /// Remedy for a shallow clone, or nothing.
        hint: String,
    },
    /// The commit does not have the subfolder.
    #[error("{revision} has no folder {path}")]
    NotInCommit {
        /// Requested revision, such as `branch=main`.
        revision: String,
        /// The subfolder.
        path: String,
    },
    /// git failed or is not installed.
    #[error("git {command}: {why}")]
    Git {
        /// Arguments of the command.
        command: String,
        /// Error output of git.
        why: String,
    },
    /// cargo has not fetched the crate.
    #[error(
        "crate {name} {version} not found in cargo's home ({home}): \
         fetch it with `cargo add {name}@={version} && cargo fetch` in any package"
    )]
    NotFetched {
        /// Name of the crate.
        name: String,
        /// Version of the crate.
        version: String,
        /// Folder that was searched.
        home: String,
    },
    /// The file is not a descriptor set.
    #[error("{}: malformed FileDescriptorSet: {why}", path.display())]
    BrokenSet {
        /// Path of the file.
        path: PathBuf,
        /// Description of the error.
        why: String,
    },
    /// `buf.yaml` or `buf.work.yaml` is invalid.
    #[error("{file}: {why}")]
    Modules {
        /// Path of the file, with line and column if known.
        file: String,
        /// Description of the error.
        why: String,
    },
}

/// Converts an error of the operating system.
pub(super) fn unreadable(path: &Path, error: &std::io::Error) -> Unusable {
    Unusable::Unreadable {
        path: path.to_owned(),
        why: error.to_string(),
    }
}

/// Describes a pipe or device in the place of a file. Reading it could block.
pub(super) fn not_regular(path: &Path) -> Unusable {
    Unusable::Unreadable {
        path: path.to_owned(),
        why: "not a regular file".to_owned(),
    }
}
