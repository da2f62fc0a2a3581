//! The file that keeps rollbacks over a restart.
//!
//! It holds the versions that are served in place of rejected ones, secrets among them, so only its owner can read it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use oxds_core::rollback::{RollbackKey, SavedPart, SavedRollback};
use oxds_core::snapshot::Resource;
use oxds_core::time::Instant;
use oxds_types::ResourceType;
use oxds_types::discovery::{Any, Resource as Wrapper};
use prost::Message;

use crate::durable::sealed::{self, SealedError};
use crate::durable::{Disk as _, Folder};

/// Format of the file. Another one is not read.
const FORMAT: u32 = 1;

/// Why the rollbacks of an earlier process are unknown.
#[derive(Debug, thiserror::Error)]
pub(super) enum StateError {
    #[error("{path}: {source}")]
    Io { path: PathBuf, source: io::Error },
    #[error("{path}: no state of rollbacks: {reason}")]
    Malformed { path: PathBuf, reason: String },
}

/// The file, by its path.
#[derive(Debug, Clone)]
pub(super) struct StateFile(PathBuf);

#[derive(Clone, PartialEq, Message)]
struct SavedRollbacks {
    #[prost(message, repeated, tag = "2")]
    rollbacks: Vec<RollbackProto>,
}

#[derive(Clone, PartialEq, Message)]
struct RollbackProto {
    #[prost(message, repeated, tag = "1")]
    parts: Vec<PartProto>,
    #[prost(string, tag = "2")]
    nacked_type: String,
    #[prost(string, tag = "3")]
    nacked_name: String,
    #[prost(string, repeated, tag = "4")]
    nacked_by: Vec<String>,
    #[prost(string, tag = "5")]
    reason: String,
    /// Milliseconds since 1970.
    #[prost(uint64, tag = "6")]
    at: u64,
}

#[derive(Clone, PartialEq, Message)]
struct PartProto {
    #[prost(string, tag = "1")]
    type_url: String,
    #[prost(string, tag = "2")]
    name: String,
    #[prost(string, optional, tag = "3")]
    group: Option<String>,
    #[prost(string, optional, tag = "4")]
    stored: Option<String>,
    #[prost(message, optional, tag = "5")]
    last_good: Option<Wrapper>,
}

impl StateFile {
    pub(super) fn new(path: PathBuf) -> Self {
        Self(path)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Reads the rollbacks. `None` if the file does not exist. `now` is the present time of the clock that counts from
    /// the start.
    pub(super) fn read(&self, now: Instant) -> Result<Vec<SavedRollback>, StateError> {
        let malformed = |reason: String| StateError::Malformed {
            path: self.0.clone(),
            reason,
        };
        let (folder, name) = self.parts();
        let record = if folder.exists() {
            sealed::read(&Folder::at(folder), &name, FORMAT)
        } else {
            Ok(None)
        };
        let record = record.map_err(|error| match error {
            SealedError::Io(source) => self.failed(source),
            error => malformed(error.to_string()),
        })?;
        let Some(record) = record else {
            return Ok(Vec::new());
        };
        let state = SavedRollbacks::decode(record).map_err(|error| malformed(error.to_string()))?;
        let rollbacks = state.rollbacks.into_iter();
        rollbacks
            .map(|rollback| saved(rollback, now).map_err(malformed))
            .collect()
    }

    /// Replaces the file. Without rollbacks it is removed.
    pub(super) fn write(&self, saved: &[SavedRollback], now: Instant) -> Result<(), StateError> {
        self.replace(saved, now)
            .map_err(|source| self.failed(source))
    }

    fn replace(&self, saved: &[SavedRollback], now: Instant) -> io::Result<()> {
        let (folder, name) = self.parts();
        if saved.is_empty() {
            return if folder.exists() {
                Folder::at(folder).remove(&name)
            } else {
                Ok(())
            };
        }
        let state = SavedRollbacks {
            rollbacks: saved.iter().map(|saved| proto(saved, now)).collect(),
        };
        let folder = Folder::open(folder)?;
        sealed::replace(&folder, &name, FORMAT, &state.encode_to_vec())
    }

    /// Returns the folder of the file, and its name there.
    fn parts(&self) -> (&Path, String) {
        let name = self.0.file_name().unwrap_or_default();
        let folder = self.0.parent().unwrap_or(Path::new(""));
        (folder, name.to_string_lossy().into_owned())
    }

    fn failed(&self, source: io::Error) -> StateError {
        let path = self.0.clone();
        StateError::Io { path, source }
    }
}

fn proto(saved: &SavedRollback, now: Instant) -> RollbackProto {
    let (resource_type, name) = &saved.nacked;
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let at = since_1970
        .unwrap_or_default()
        .saturating_sub(now.saturating_since(saved.at));
    let parts = saved.parts.iter().map(|part| PartProto {
        type_url: part.key.resource_type.type_url().to_owned(),
        name: part.key.name.to_string(),
        group: part.key.group.as_ref().map(ToString::to_string),
        stored: part.stored.as_ref().map(ToString::to_string),
        last_good: part.last_good.as_deref().map(wrapper),
    });
    RollbackProto {
        parts: parts.collect(),
        nacked_type: resource_type.type_url().to_owned(),
        nacked_name: name.to_string(),
        nacked_by: saved.nacked_by.iter().map(ToString::to_string).collect(),
        reason: saved.reason.to_string(),
        at: u64::try_from(at.as_millis()).unwrap_or(u64::MAX),
    }
}

fn wrapper(resource: &Resource) -> Wrapper {
    Wrapper {
        name: resource.name().to_string(),
        resource: Some(Any {
            type_url: resource.resource_type().type_url().to_owned(),
            value: resource.value(),
        }),
        ttl: resource.ttl().map(|ttl| oxds_types::discovery::Duration {
            seconds: i64::try_from(ttl.as_secs()).unwrap_or(i64::MAX),
            // Below 1,000,000,000, so the cast does not truncate.
            nanos: ttl.subsec_nanos() as i32,
        }),
        ..Wrapper::default()
    }
}

fn saved(proto: RollbackProto, now: Instant) -> Result<SavedRollback, String> {
    let resource_type = |type_url: &str| {
        let known = ResourceType::from_type_url(type_url).map(|(known, _)| known);
        known.ok_or_else(|| format!("malformed type_url {type_url:?}"))
    };
    let mut parts = Vec::new();
    for part in proto.parts {
        let last_good = part.last_good.map(Resource::from_wire).transpose();
        let last_good = last_good.map_err(|error| format!("{}: {error}", part.name))?;
        parts.push(SavedPart {
            key: RollbackKey {
                resource_type: resource_type(&part.type_url)?,
                name: part.name.into(),
                group: part.group.map(Into::into),
            },
            stored: part.stored.map(Into::into),
            last_good: last_good.map(Arc::new),
        });
    }
    let at = SystemTime::UNIX_EPOCH + Duration::from_millis(proto.at);
    let age = at.elapsed().unwrap_or_default();
    let since_epoch = now.since_epoch().saturating_sub(age);
    Ok(SavedRollback {
        parts,
        nacked: (resource_type(&proto.nacked_type)?, proto.nacked_name.into()),
        nacked_by: proto.nacked_by.into_iter().map(Into::into).collect(),
        reason: proto.reason.into(),
        at: Instant::from_epoch(since_epoch),
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn rollback() -> SavedRollback {
        let key = |name: &str, group: Option<&str>| RollbackKey {
            resource_type: ResourceType::SECRET,
            name: name.into(),
            group: group.map(Into::into),
        };
        let secret = Resource::new(ResourceType::SECRET, "a", b"\x0a\x01a");
        SavedRollback {
            parts: vec![
                SavedPart {
                    key: key("a", None),
                    stored: Some("version".into()),
                    last_good: Some(Arc::new(secret.with_ttl(Duration::from_millis(2_500)))),
                },
                SavedPart {
                    key: key("b", Some("edge")),
                    stored: None,
                    last_good: None,
                },
            ],
            nacked: (ResourceType::CLUSTER, "c".into()),
            nacked_by: vec!["edge-1".into()],
            reason: "no".into(),
            at: Instant::from_epoch(Duration::from_secs(100)),
        }
    }

    /// Given rollbacks, then they are read as they were written, with the time that has passed. Only the owner may read
    /// the file. Without rollbacks the file is removed.
    #[test]
    fn s80_state_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let file = StateFile::new(folder.path().join("new/rollback.state"));
        let at = |seconds| Instant::from_epoch(Duration::from_secs(seconds));
        assert_eq!(file.read(at(0)).unwrap(), []);
        file.write(&[rollback()], at(130)).unwrap();
        // A process whose clock started 50 seconds later.
        let mut read = file.read(at(80)).unwrap();
        let ago = at(80) - read[0].at;
        assert!((29..40).contains(&ago.as_secs()), "{ago:?}");
        read[0].at = rollback().at;
        assert_eq!(read, [rollback()]);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = fs::metadata(file.path()).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        file.write(&[], at(130)).unwrap();
        assert!(!file.path().exists());
        file.write(&[], at(130)).unwrap();
    }

    /// Given a file that is not a state, of another format, damaged, or unreadable, then the error has its path.
    #[test]
    fn s80_malformed_state_is_an_error_with_its_path() {
        let folder = tempfile::tempdir().unwrap();
        let file = StateFile::new(folder.path().join("rollback.state"));
        file.write(&[rollback()], Instant::EPOCH).unwrap();
        let mut damaged = fs::read(file.path()).unwrap();
        *damaged.last_mut().unwrap() ^= 1;
        let disk = Folder::at(folder.path());
        sealed::replace(&disk, "rollback.state", 2, b"").unwrap();
        let other = fs::read(file.path()).unwrap();
        for bytes in [b"nonsense".to_vec(), damaged, other] {
            fs::write(file.path(), bytes).unwrap();
            let error = file.read(Instant::EPOCH).unwrap_err().to_string();
            assert!(
                error.contains("rollback.state: no state of rollbacks"),
                "{error}"
            );
        }
        let folder = StateFile::new(folder.path().to_owned());
        assert!(folder.read(Instant::EPOCH).is_err());
    }
}
