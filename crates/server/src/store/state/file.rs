//! The state file: a checkpoint of everything, and after it a log of changes.
//!
//! ```text
//!  ┌──────────┬───────┬──────┬──────┬─────┬──────────┬──────────┬───
//!  │ preamble │ begin │ part │ part │ end │ change 1 │ change 2 │ …       appended and synced, one record per save
//!  └──────────┴───────┴──────┴──────┴─────┴──────────┴──────────┴───
//!   written beside, synced, renamed ─────┘
//! ```
//!
//! A change costs its own size and one sync. When the log is as large as the checkpoint, the next save writes a new
//! checkpoint: so checkpoints cost at most twice the bytes of the log. The folder is synced after the rename, and
//! nothing is appended before.
//!
//! A crash leaves a part of the last record, which was never durable: it is ignored. Everything else that is wrong
//! makes the whole file invalid, since a part of a state would remove resources from clients.

use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use bytes::Bytes;
use prost::Message;

use super::changes::{Changes, key};
use super::last_good::LastGood;
use super::record::{Begin, End, FORMAT, Facts, Record};
use crate::durable::{Broken, Disk, DiskFile, Frame, FrameWriter, Frames, Unreadable};

/// Name of the file.
pub(super) const NAME: &str = "last-good";
/// Name of a checkpoint that is being written.
const BESIDE: &str = "last-good.new";
/// Size of the log from which on a small state gets a new checkpoint.
const MIN_LOG: u64 = 64 << 10;
/// Content of one record of a checkpoint, in bytes: large enough that its head does not matter, small enough for a
/// buffer.
const PART: usize = 256 << 10;

const BEGIN: u8 = 1;
const PART_OF_CHECKPOINT: u8 = 2;
const END: u8 = 3;
const CHANGE: u8 = 4;

/// Source of a state: it must be the same after a restart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Source {
    /// Name of the store, and of the place that it reads.
    pub(super) identity: String,
    /// Root of the documents.
    pub(super) root: PathBuf,
}

/// Why a state file is not used.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub(super) enum Invalid {
    #[error("{0}")]
    Unreadable(#[from] Unreadable),
    #[error("damaged: {0}")]
    Broken(#[from] Broken),
    #[error("damaged: record {number}: {reason}")]
    Record { number: usize, reason: String },
    #[error("it is the state of {found}, expected {expected}")]
    OtherSource { found: String, expected: String },
}

/// The state file, open for writing.
#[derive(Debug)]
pub(super) struct StateFile<D> {
    disk: D,
    source: Source,
    /// The file to append to. `None`: the next save writes a checkpoint.
    log: Option<Log>,
}

/// A file that ends with a complete record.
#[derive(Debug)]
pub(super) struct Log {
    /// Opened by the first save.
    file: Option<Box<dyn DiskFile>>,
    frames: FrameWriter,
    len: u64,
    /// Length with which a new checkpoint is due.
    limit: u64,
}

/// The result of reading a state file.
#[derive(Debug)]
pub(super) struct ReadState {
    pub(super) last_good: LastGood,
    /// Bytes of a record that was being written when the process or the machine stopped.
    pub(super) unfinished: usize,
    /// The end of the file, to append to. `None` after an unfinished record: nothing can be appended.
    pub(super) log: Option<Log>,
}

/// Reads a state. It is complete, or there is an error.
pub(super) fn read(file: &Bytes, source: &Source) -> Result<ReadState, Invalid> {
    let len = file.len();
    let mut frames = Frames::read(file, FORMAT)?;
    let mut reading = Reading::new(source);
    let unfinished = loop {
        let at = frames.position();
        match frames.next() {
            Ok(Some(frame)) => reading.add(&frame, frames.position())?,
            Ok(None) => break 0,
            // The checkpoint was synced before it got its name, so it is never unfinished.
            Err(broken) if broken.is_tail && reading.checkpoint.is_some() => break len - at,
            Err(broken) => return Err(broken.into()),
        }
    };
    let Some(checkpoint) = reading.checkpoint else {
        let reason = "the checkpoint has no end".to_owned();
        let number = reading.records;
        return Err(Invalid::Record { number, reason });
    };
    let log = Log {
        file: None,
        frames: frames.writer(),
        len: frames.position() as u64,
        limit: limit(0, checkpoint as u64),
    };
    Ok(ReadState {
        last_good: reading.last_good,
        unfinished,
        log: (unfinished == 0).then_some(log),
    })
}

/// A state file that is being read.
struct Reading<'a> {
    source: &'a Source,
    last_good: LastGood,
    records: usize,
    /// Length of the checkpoint, once its end was read.
    checkpoint: Option<usize>,
}

impl<'a> Reading<'a> {
    fn new(source: &'a Source) -> Self {
        Self {
            source,
            last_good: LastGood::default(),
            records: 0,
            checkpoint: None,
        }
    }

    /// Adds a record, which ends at `position`.
    fn add(&mut self, frame: &Frame, position: usize) -> Result<(), Invalid> {
        let number = self.records;
        self.records += 1;
        let invalid = |reason: String| Invalid::Record { number, reason };
        let malformed = |error: prost::DecodeError| invalid(error.to_string());
        let content = frame.content.clone();
        match (frame.kind, self.checkpoint) {
            (BEGIN, None) if number == 0 => {
                let found = Begin::decode(content).map_err(malformed)?.identity;
                let expected = self.source.identity.clone();
                if found == expected {
                    Ok(())
                } else {
                    Err(Invalid::OtherSource { found, expected })
                }
            }
            (PART_OF_CHECKPOINT, None) | (CHANGE, Some(_)) if number > 0 => {
                let record = Record::decode(content).map_err(malformed)?;
                let (changes, facts) = record.into_changes(&self.source.root).map_err(invalid)?;
                self.last_good.load(changes);
                self.last_good.saved_at = Some(facts.saved_at);
                self.last_good.lacks_secrets = facts.lacks_secrets;
                Ok(())
            }
            (END, None) if number > 0 => {
                let found = End::decode(content).map_err(malformed)?;
                if found != end(&self.last_good) {
                    return Err(invalid("the checkpoint is incomplete".into()));
                }
                self.checkpoint = Some(position);
                Ok(())
            }
            (kind, _) => Err(invalid(format!("unexpected kind {kind}"))),
        }
    }
}

fn end(last_good: &LastGood) -> End {
    End {
        resources: last_good.len() as u64,
        groups: last_good.groups().count() as u64,
    }
}

impl<D: Disk> StateFile<D> {
    /// Continues the file that was read; without one, the first save writes everything.
    pub(super) fn new(disk: D, source: Source, log: Option<Log>) -> Self {
        Self { disk, source, log }
    }

    /// Saves changes, which are part of `now` already. When it returns `Ok`, they are durable. Returns the bytes
    /// written.
    ///
    /// After an error the file has a state that was durable before, and the changes must be saved again, with later
    /// ones.
    pub(super) fn save(&mut self, now: &LastGood, changes: &Changes) -> io::Result<u64> {
        let at = now.saved_at.unwrap_or(SystemTime::UNIX_EPOCH);
        let Some(log) = &mut self.log else {
            return self.checkpoint(now, at);
        };
        let facts = facts(now, at);
        let record = Record::of(changes, facts, &self.source.root).encode_to_vec();
        if log.len + record.len() as u64 > log.limit {
            log.limit = limit(log.limit, log.len);
            match self.checkpoint(now, at) {
                // Without room for a second file, the log grows.
                Err(_) if self.log.is_some() => {}
                written => return written,
            }
        }
        self.append(&record)
    }

    fn append(&mut self, record: &[u8]) -> io::Result<u64> {
        let log = self.log.as_mut().ok_or(io::ErrorKind::NotFound)?;
        let (mut frame, mut frames) = (Vec::new(), log.frames.clone());
        if !frames.add(CHANGE, record, &mut frame) {
            self.log = None;
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let file = match &mut log.file {
            Some(file) => file,
            none => none.insert(self.disk.append(NAME)?),
        };
        if let Err(error) = file.write(&frame).and_then(|()| file.sync()) {
            // A part of the record may be there: the next one must not follow it.
            if file.cut(log.len).is_err() {
                self.log = None;
            }
            return Err(error);
        }
        log.frames = frames;
        log.len += frame.len() as u64;
        Ok(frame.len() as u64)
    }

    fn checkpoint(&mut self, now: &LastGood, at: SystemTime) -> io::Result<u64> {
        let log = self.write_checkpoint(now, at);
        let log = log.and_then(|log| self.disk.rename(BESIDE, NAME).map(|()| log));
        let log = match log {
            Ok(log) => log,
            Err(error) => {
                // The first error is the one to report.
                let _ = self.disk.remove(BESIDE);
                return Err(error);
            }
        };
        // The old file is gone by name: until the new name is durable, nothing may be appended to either.
        self.log = None;
        self.disk.sync()?;
        let written = log.len;
        self.log = Some(log);
        Ok(written)
    }

    fn write_checkpoint(&self, now: &LastGood, at: SystemTime) -> io::Result<Log> {
        let mut file = self.disk.create(BESIDE)?;
        let (mut out, mut len) = (Vec::new(), 0);
        let mut frames = FrameWriter::begin(FORMAT, salt(at), &mut out);
        let begin = Begin {
            identity: self.source.identity.clone(),
            build: env!("CARGO_PKG_VERSION").into(),
        };
        let mut add = |kind: u8, content: &[u8], out: &mut Vec<u8>| {
            if frames.add(kind, content, out) {
                Ok(())
            } else {
                Err(io::Error::from(io::ErrorKind::FileTooLarge))
            }
        };
        add(BEGIN, &begin.encode_to_vec(), &mut out)?;
        for part in parts(now) {
            let record = Record::of(&part, facts(now, at), &self.source.root);
            add(PART_OF_CHECKPOINT, &record.encode_to_vec(), &mut out)?;
            file.write(&out)?;
            len += out.len() as u64;
            out.clear();
        }
        add(END, &end(now).encode_to_vec(), &mut out)?;
        file.write(&out)?;
        len += out.len() as u64;
        file.sync()?;
        Ok(Log {
            file: Some(file),
            frames,
            len,
            limit: limit(0, len),
        })
    }
}

/// Returns the length with which a checkpoint is due after one of this length, which ended at `from`.
fn limit(from: u64, checkpoint: u64) -> u64 {
    from.max(checkpoint) + checkpoint.max(MIN_LOG)
}

fn facts(now: &LastGood, saved_at: SystemTime) -> Facts {
    Facts {
        saved_at,
        lacks_secrets: now.lacks_secrets(),
    }
}

/// Returns a number that differs between the files of a folder.
fn salt(at: SystemTime) -> u64 {
    let now = SystemTime::now().max(at);
    let since_1970 = now.duration_since(SystemTime::UNIX_EPOCH);
    // Nanoseconds of 584 years; later ones begin again.
    since_1970.unwrap_or_default().as_nanos() as u64
}

/// Returns the whole state as changes of limited size, the first of which has the groups and the position.
fn parts(now: &LastGood) -> impl Iterator<Item = Changes> {
    let mut first = Some(Changes {
        matchers: now
            .groups()
            .map(|(name, matcher)| (name.clone(), Some(matcher.clone())))
            .collect(),
        position: now.position.clone(),
        ..Changes::default()
    });
    let mut resources = now.resources().peekable();
    std::iter::from_fn(move || {
        if first.is_none() && resources.peek().is_none() {
            return None;
        }
        let mut part = first.take().unwrap_or_default();
        let mut size = 0;
        while let Some((group, resource)) = resources.next_if(|_| size < PART) {
            size += resource.value().len() + resource.name().len();
            let place = (group.cloned(), key(resource));
            part.resources.insert(place, Some(resource.clone()));
        }
        Some(part)
    })
}

/// Returns a free name to keep an invalid file under.
pub(super) fn aside(exists: impl Fn(&Path) -> bool, folder: &Path) -> String {
    let names = (1_u32..).map(|number| format!("{NAME}.invalid-{number}"));
    let mut free = names.filter(|name| !exists(&folder.join(name)));
    free.next().unwrap_or_else(|| format!("{NAME}.invalid"))
}
