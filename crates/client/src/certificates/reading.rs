//! Reads the files of a provider: contents, their digest, and the value that they make.

use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use oxds_types::file::{self, FileError, ReadError};

use super::material::{Identity, TrustedRoots};
use super::revocation::RevocationLists;
use crate::credentials::{CertificateFiles, IdentityFiles, RevocationFiles, Trust};

/// Largest file. The lists of large public authorities have some ten megabytes.
const MAX_BYTES: usize = 64 << 20;

/// Most files in a folder of revocation lists.
const MAX_LISTS: usize = 1_000;

/// Most files that one error about a folder names.
const MAX_NAMED: usize = 5;

/// Values that were read before: digests of their contents.
#[derive(Debug)]
pub(super) struct LastRead {
    pub(super) identity: Option<u64>,
    pub(super) roots: Option<u64>,
    pub(super) lists: Option<(u64, Arc<RevocationLists>)>,
}

/// Result of reading all files of a provider.
#[derive(Debug, Default)]
pub(super) struct ReadFiles {
    pub(super) identity: ReadResult<Identity>,
    pub(super) roots: ReadResult<TrustedRoots>,
    pub(super) lists: ReadResult<RevocationLists>,
}

/// Result of reading some of the files.
#[derive(Debug)]
pub(super) struct ReadResult<T> {
    /// New value, with the digest of its contents; `None` if they did not change, or are invalid.
    pub(super) new: Option<(u64, Arc<T>)>,
    pub(super) error: Option<FileError>,
}

impl<T> Default for ReadResult<T> {
    fn default() -> Self {
        Self {
            new: None,
            error: None,
        }
    }
}

impl<T> From<Result<Option<(u64, T)>, FileError>> for ReadResult<T> {
    fn from(read: Result<Option<(u64, T)>, FileError>) -> Self {
        match read {
            Ok(new) => Self {
                new: new.map(|(digest, value)| (digest, Arc::new(value))),
                error: None,
            },
            Err(error) => Self {
                new: None,
                error: Some(error),
            },
        }
    }
}

/// Reads all files. Blocks while it does.
pub(super) fn read_files(files: &CertificateFiles, before: &LastRead) -> ReadFiles {
    let identity = files.identity.as_ref();
    let identity = identity.map(|files| identity_of(files, before.identity).into());
    let roots = roots_of(&files.trust, before.roots).into();
    let lists = files.revocation.as_ref();
    let lists = lists.map(|files| lists_of(files, before.lists.as_ref()));
    ReadFiles {
        identity: identity.unwrap_or_default(),
        roots,
        lists: lists.unwrap_or_default(),
    }
}

fn identity_of(
    files: &IdentityFiles,
    before: Option<u64>,
) -> Result<Option<(u64, Identity)>, FileError> {
    let (chain, key) = (read(&files.certificate)?, read(&files.key)?);
    let digest = digest(&(&chain, &key));
    if before == Some(digest) {
        return Ok(None);
    }
    let identity = Identity::from_pem((&files.certificate, &chain), (&files.key, &key))?;
    Ok(Some((digest, identity)))
}

fn roots_of(trust: &Trust, before: Option<u64>) -> Result<Option<(u64, TrustedRoots)>, FileError> {
    let (Trust::Authorities(path) | Trust::Spiffe(path)) = trust else {
        return Ok(None);
    };
    let contents = read(path)?;
    let digest = digest(&contents);
    if before == Some(digest) {
        return Ok(None);
    }
    let roots = match trust {
        Trust::Spiffe(_) => TrustedRoots::from_bundle_map(path, &contents)?,
        _ => TrustedRoots::from_pem(path, &contents)?,
    };
    Ok(Some((digest, roots)))
}

/// Reads a folder of revocation lists. gRFC A69: if a file is invalid, the others are used, and nothing is removed,
/// because no one knows whose list it is.
fn lists_of(
    files: &RevocationFiles,
    before: Option<&(u64, Arc<RevocationLists>)>,
) -> ReadResult<RevocationLists> {
    let folder = &files.directory;
    let mut lists = RevocationLists::new(files.deny_undetermined);
    let (contents, mut faults) = match list_files(folder) {
        Ok(paths) => read_all(paths),
        Err(error) if before.is_none() => (Vec::new(), vec![error]),
        Err(error) => {
            return ReadResult {
                new: None,
                error: Some(error),
            };
        }
    };
    let digest = digest(&(&contents, faults.is_empty()));
    if before.is_none_or(|(known, _)| *known != digest) || !faults.is_empty() {
        for (path, contents) in &contents {
            faults.extend(lists.add(path, contents).err());
        }
    }
    let error = (!faults.is_empty()).then(|| several(folder, &faults));
    if before.is_some_and(|(known, _)| *known == digest) {
        return ReadResult { new: None, error };
    }
    if let Some((_, before)) = before.filter(|_| error.is_some()) {
        lists.keep(before);
    }
    ReadResult {
        new: Some((digest, Arc::new(lists))),
        error,
    }
}

/// Returns the files of a folder, in the order of their names.
fn list_files(folder: &Path) -> Result<Vec<PathBuf>, FileError> {
    let failed = |error| FileError::new(folder, error);
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        // Kubernetes keeps the files of a mounted secret in hidden folders, and links to them.
        let is_hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
        if is_hidden || entry.path().is_dir() {
            continue;
        }
        if paths.len() == MAX_LISTS {
            let reason = format!("has more than {MAX_LISTS} files");
            return Err(FileError::new(folder, reason));
        }
        paths.push(entry.path());
    }
    paths.sort_unstable();
    Ok(paths)
}

type Contents = Vec<(PathBuf, Vec<u8>)>;

fn read_all(paths: Vec<PathBuf>) -> (Contents, Vec<FileError>) {
    let mut contents = Vec::with_capacity(paths.len());
    let mut faults = Vec::new();
    for path in paths {
        match read(&path) {
            Ok(read) => contents.push((path, read)),
            Err(error) => faults.push(error),
        }
    }
    (contents, faults)
}

/// Returns one error about several files of a folder.
fn several(folder: &Path, faults: &[FileError]) -> FileError {
    if let [fault] = faults {
        return fault.clone();
    }
    let named = faults.iter().take(MAX_NAMED).map(ToString::to_string);
    let mut reason = named.collect::<Vec<_>>().join("; ");
    if faults.len() > MAX_NAMED {
        reason += &format!("; and {} more", faults.len() - MAX_NAMED);
    }
    FileError::new(folder, reason)
}

fn read(path: &Path) -> Result<Vec<u8>, FileError> {
    file::read(path, MAX_BYTES).map_err(|error| match error {
        ReadError::Folder => FileError::new(path, "is a folder: expected a file"),
        error => FileError::new(path, error),
    })
}

/// Identifies contents without a second copy of private keys in memory.
fn digest(contents: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    contents.hash(&mut hasher);
    hasher.finish()
}
