//! Why there is no tree, by who is to blame.

use std::path::PathBuf;

use crate::parse;

/// There is no tree.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// What was asked for cannot be read: the caller's to mend. Exit code 2.
    #[error(transparent)]
    Unusable(#[from] Unusable),
    /// What is there does not compile: its authors' to mend. Exit code 3.
    #[error("{} mistakes in the files, the first: {}", .0.len(), .0.first().map(ToString::to_string).unwrap_or_default())]
    Mistakes(Vec<parse::Error>),
}

/// What was asked for cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unusable {
    /// The input is not spelled as any is.
    #[error("{input}: {why}")]
    Spelling {
        /// What was typed.
        input: String,
        /// What is wrong with it.
        why: String,
    },
    /// A file or folder cannot be read.
    #[error("{}: {why}", path.display())]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// What the system says.
        why: String,
    },
    /// There is not a single proto file.
    #[error("{0}: no .proto file there")]
    Empty(String),
    /// git does not know the commit.
    #[error("{repository}: git knows no {revision}{hint}")]
    UnknownRevision {
        /// The repository.
        repository: String,
        /// What was asked for: `branch=main`.
        revision: String,
        /// What may help: a shallow clone lacks most commits.
        hint: String,
    },
    /// git failed, or is not there.
    #[error("git {command}: {why}")]
    Git {
        /// The command.
        command: String,
        /// What it said.
        why: String,
    },
    /// cargo has not fetched the crate.
    #[error(
        "crate {name} {version} is not in cargo's home ({home}): \
         `cargo add {name}@={version} && cargo fetch` in any package fetches it"
    )]
    NotFetched {
        /// The crate.
        name: String,
        /// Its version.
        version: String,
        /// Where it was looked for.
        home: String,
    },
    /// A descriptor set is none.
    #[error("{}: not a FileDescriptorSet: {why}", path.display())]
    BrokenSet {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// `buf.yaml` or `buf.work.yaml` is wrong.
    #[error("{file}: {why}")]
    Modules {
        /// The file, with line and column where they are known.
        file: String,
        /// What is wrong.
        why: String,
    },
}
