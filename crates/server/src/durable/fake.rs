//! A disk in memory, for tests: every operation can fail, and the machine can stop between any two.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use super::disk::{Disk, DiskFile};

/// A folder in memory. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct FakeDisk(Arc<Mutex<FakeDiskState>>);

#[derive(Debug, Default)]
struct FakeDiskState {
    files: Vec<FakeContent>,
    names: Names,
    durable_names: Names,
    /// Changes of names since the last sync of the folder.
    renames: Vec<Names>,
    /// Operations that still succeed.
    left: Option<usize>,
    /// The error of all operations that write.
    error: Option<io::ErrorKind>,
    /// Whether only the creation of files fails.
    only_create: bool,
    work: Work,
}

/// Names, with the index of the file.
type Names = BTreeMap<String, usize>;

/// Work that a disk has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Work {
    pub(crate) bytes: usize,
    /// Syncs of files; those of the folder do not count.
    pub(crate) syncs: usize,
    /// Files made.
    pub(crate) created: usize,
}

#[derive(Debug, Clone, Default)]
struct FakeContent {
    now: Vec<u8>,
    durable: Vec<u8>,
}

#[derive(Debug)]
struct FakeFile {
    disk: FakeDisk,
    index: usize,
}

/// Deterministic random numbers (SplitMix64).
#[derive(Debug, Clone)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }
}

impl FakeDisk {
    /// Makes all operations fail after this number of them, as if the process had died.
    pub(crate) fn fail_from(&self, operations: usize) {
        self.lock().left = Some(operations);
    }

    /// Makes all writing operations fail from now on, or none.
    pub(crate) fn fail(&self, error: Option<io::ErrorKind>) {
        let mut state = self.lock();
        (state.error, state.only_create) = (error, false);
    }

    /// Makes the creation of files fail from now on.
    pub(crate) fn fail_to_create(&self) {
        let mut state = self.lock();
        (state.error, state.only_create) = (Some(io::ErrorKind::StorageFull), true);
    }

    pub(crate) fn work(&self) -> Work {
        self.lock().work
    }

    /// Returns the names of all files.
    pub(crate) fn names(&self) -> Vec<String> {
        self.lock().names.keys().cloned().collect()
    }

    /// Returns a possible state of the disk after the machine stopped: everything durable is there, and any part of the
    /// rest.
    pub(crate) fn crash(&self, seed: u64) -> Self {
        let state = self.lock();
        let mut random = Random(seed);
        let renames = random.below(state.renames.len() + 1);
        let names = match renames {
            0 => &state.durable_names,
            done => &state.renames[done - 1],
        };
        let mut files = Vec::new();
        for file in &state.files {
            let FakeContent { now, durable } = file;
            let mut content = if now.starts_with(durable) {
                let more = random.below(now.len() - durable.len() + 1);
                now[..durable.len() + more].to_vec()
            } else if random.below(2) == 0 {
                // It was cut since.
                now.clone()
            } else {
                durable.clone()
            };
            // A block whose length was written, and its content not.
            if content.len() > durable.len() && random.below(4) == 0 {
                let from = durable.len() + random.below(content.len() - durable.len());
                content[from..].fill(0);
            }
            let durable = content.clone();
            let now = content;
            files.push(FakeContent { now, durable });
        }
        Self(Arc::new(Mutex::new(FakeDiskState {
            files,
            names: names.clone(),
            durable_names: names.clone(),
            ..FakeDiskState::default()
        })))
    }

    fn lock(&self) -> MutexGuard<'_, FakeDiskState> {
        self.0.lock().unwrap()
    }

    /// Begins an operation that writes.
    fn write(&self, creates: bool) -> io::Result<MutexGuard<'_, FakeDiskState>> {
        let mut state = self.lock();
        match &mut state.left {
            None => {}
            Some(0) => return Err(io::ErrorKind::Other.into()),
            Some(left) => *left -= 1,
        }
        match state.error {
            Some(error) if creates || !state.only_create => Err(error.into()),
            _ => Ok(state),
        }
    }
}

impl FakeDiskState {
    fn rename(&mut self, change: impl FnOnce(&mut Names)) {
        change(&mut self.names);
        self.renames.push(self.names.clone());
    }

    fn index(&self, name: &str) -> io::Result<usize> {
        let index = self.names.get(name).copied();
        index.ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Disk for FakeDisk {
    fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        let state = self.lock();
        let index = state.names.get(name);
        Ok(index.map(|index| state.files[*index].now.clone()))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let mut state = self.write(true)?;
        let index = state.files.len();
        state.files.push(FakeContent::default());
        state.rename(|names| {
            names.insert(name.to_owned(), index);
        });
        state.work.created += 1;
        let disk = self.clone();
        Ok(Box::new(FakeFile { disk, index }))
    }

    fn append(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let index = self.write(false)?.index(name)?;
        let disk = self.clone();
        Ok(Box::new(FakeFile { disk, index }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.write(false)?;
        let index = state.index(from)?;
        state.rename(|names| {
            names.remove(from);
            names.insert(to.to_owned(), index);
        });
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.write(false)?.rename(|names| {
            names.remove(name);
        });
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.write(false)?;
        state.durable_names = state.names.clone();
        state.renames.clear();
        Ok(())
    }
}

impl DiskFile for FakeFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let state = self.disk.write(false);
        match state {
            Ok(mut state) => {
                state.files[self.index].now.extend_from_slice(bytes);
                state.work.bytes += bytes.len();
                Ok(())
            }
            // A failed write may have written a part.
            Err(error) => {
                let mut state = self.disk.lock();
                let part = &bytes[..bytes.len() / 2];
                state.files[self.index].now.extend_from_slice(part);
                Err(error)
            }
        }
    }

    fn sync(&mut self) -> io::Result<()> {
        let mut state = self.disk.write(false)?;
        let file = &mut state.files[self.index];
        file.durable.clone_from(&file.now);
        state.work.syncs += 1;
        Ok(())
    }

    fn cut(&mut self, len: u64) -> io::Result<()> {
        let mut state = self.disk.write(false)?;
        state.files[self.index].now.truncate(len as usize);
        Ok(())
    }
}
