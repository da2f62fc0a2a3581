//! A folder of files on a disk.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// Operations on the files of one folder. They block.
pub(crate) trait Disk: fmt::Debug + Send {
    /// Returns the content of a file, or `None` if it does not exist.
    fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>>;
    /// Makes an empty file, which only its owner may read. An older file of this name is deleted.
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;
    /// Opens a file, to write after its end.
    fn append(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;
    /// Renames a file; a file with the new name is replaced. It is durable after [`sync`](Self::sync).
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Deletes a file, if it exists.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Makes the names of the folder durable.
    fn sync(&self) -> io::Result<()>;
}

/// A file that is open for writing after its end.
pub(crate) trait DiskFile: fmt::Debug + Send {
    /// Writes all bytes after the end.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Makes the content durable.
    fn sync(&mut self) -> io::Result<()>;
    /// Shortens the file to this length.
    fn cut(&mut self, len: u64) -> io::Result<()>;
}

/// A folder of the file system.
#[derive(Debug, Clone)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// Makes the folder if it does not exist. Then only its owner may enter it.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(path)?;
        Ok(Self(path.to_owned()))
    }

    /// Returns the folder at a path, which exists.
    pub(crate) fn at(path: &Path) -> Self {
        Self(path.to_owned())
    }

    /// Returns the path of a file.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Disk for Folder {
    fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        match fs::read(self.path(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            read => read.map(Some),
        }
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        // An old file could have other permissions.
        self.remove(name)?;
        let mut options = OpenOptions::new();
        options.append(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        Ok(Box::new(options.open(self.path(name))?))
    }

    fn append(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let file = OpenOptions::new().append(true).open(self.path(name))?;
        Ok(Box::new(file))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path(from), self.path(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        match fs::remove_file(self.path(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn sync(&self) -> io::Result<()> {
        // Other systems cannot open a folder as a file.
        #[cfg(unix)]
        File::open(&self.0)?.sync_all()?;
        Ok(())
    }
}

impl DiskFile for File {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }

    fn cut(&mut self, len: u64) -> io::Result<()> {
        self.set_len(len)
    }
}
