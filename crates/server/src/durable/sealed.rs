//! A file with one record, which is replaced as a whole: a crash leaves the old content or the new one.

use std::io;

use bytes::Bytes;

use super::disk::Disk;
use super::frame::{Broken, FrameWriter, Frames, Unreadable};

/// Why the record of a file cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SealedError {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("{0}")]
    Unreadable(#[from] Unreadable),
    #[error("{0}")]
    Broken(#[from] Broken),
    #[error("expected one record")]
    Content,
}

/// Kind of the only frame.
const RECORD: u8 = 1;

/// Returns the record of a file, or `None` if it does not exist.
pub(crate) fn read(
    disk: &impl Disk,
    name: &str,
    format: u32,
) -> Result<Option<Bytes>, SealedError> {
    let Some(bytes) = disk.read(name)? else {
        return Ok(None);
    };
    let mut frames = Frames::read(&bytes.into(), format)?;
    match (frames.next()?, frames.next()?) {
        (Some(frame), None) if frame.kind == RECORD => Ok(Some(frame.content)),
        _ => Err(SealedError::Content),
    }
}

/// Replaces the file. When it returns, the new content is durable.
pub(crate) fn replace(disk: &impl Disk, name: &str, format: u32, record: &[u8]) -> io::Result<()> {
    let mut bytes = Vec::new();
    // One record needs no salt, which tells old records from new ones.
    let mut writer = FrameWriter::begin(format, 0, &mut bytes);
    if !writer.add(RECORD, record, &mut bytes) {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let beside = format!("{name}.new");
    let written = disk.create(&beside).and_then(|mut file| {
        file.write(&bytes)?;
        file.sync()
    });
    if let Err(error) = written.and_then(|()| disk.rename(&beside, name)) {
        // The first error is the one to report.
        let _ = disk.remove(&beside);
        return Err(error);
    }
    disk.sync()
}

#[cfg(test)]
mod tests {
    use super::super::fake::FakeDisk;
    use super::*;

    /// Given a file that is replaced, when the machine stops at any operation, then the file has the old record or the
    /// new one, and the new one if the replacement had ended.
    #[test]
    fn state_replaced_file_is_old_or_new_after_a_crash() {
        for operation in 0.. {
            for seed in 0..8 {
                let disk = FakeDisk::default();
                replace(&disk, "a", 1, b"old").unwrap();
                disk.fail_from(operation);
                let replaced = replace(&disk, "a", 1, b"new");
                let disk = disk.crash(seed);
                let read = read(&disk, "a", 1).unwrap().unwrap();
                match replaced {
                    Ok(()) => assert_eq!(read, "new", "{operation}"),
                    Err(_) => assert!(read == "old" || read == "new", "{operation}"),
                }
                if replaced.is_ok() && seed == 7 {
                    assert!(operation > 4, "each operation failed once: {operation}");
                    return;
                }
            }
        }
    }
}
