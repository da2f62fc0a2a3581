//! Values that are made from files, and made again when the files change: certificates, keys, rules.

use std::fmt;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;

use crate::file::FileError;

/// The contents of files, in the order of their paths.
pub type Contents = [Vec<u8>];

type Make<T, E> = Box<dyn Fn(&[PathBuf], &Contents) -> Result<T, E> + Send + Sync>;

/// A `T` that is made from files, and made again by [`refresh`](Self::refresh).
pub struct Reloadable<T, E> {
    paths: Vec<PathBuf>,
    make: Make<T, E>,
    current: ArcSwap<T>,
    /// Digest of the contents that were read last, valid or not, or the error. Each state of the files is tried, and
    /// reported, once.
    seen: Mutex<Result<u64, FileError>>,
}

impl<T, E: From<FileError>> Reloadable<T, E> {
    /// Reads the files for the first time. `make` gets the paths and the contents of the files, in the same order.
    ///
    /// # Errors
    /// A file cannot be read, or `make` fails.
    pub fn open(
        paths: Vec<PathBuf>,
        make: impl Fn(&[PathBuf], &Contents) -> Result<T, E> + Send + Sync + 'static,
    ) -> Result<Self, E> {
        let contents = read(&paths)?;
        Ok(Self {
            current: ArcSwap::from_pointee(make(&paths, &contents)?),
            seen: Mutex::new(Ok(digest(&contents))),
            paths,
            make: Box::new(make),
        })
    }

    /// Returns the last value that was made.
    pub fn load(&self) -> Arc<T> {
        self.current.load_full()
    }

    /// Reads the files again, and returns whether there is a new value. On an error the last value stays. Each invalid
    /// state of the files is an error once: for example, a new certificate with the old key, until the key is replaced
    /// too.
    ///
    /// # Errors
    /// The same as of [`open`](Self::open).
    pub fn refresh(&self) -> Result<bool, E> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let contents = read(&self.paths);
        let now = contents.as_deref().map(digest).map_err(Clone::clone);
        if *seen == now {
            return Ok(false);
        }
        *seen = now;
        self.current
            .store(Arc::new((self.make)(&self.paths, &contents?)?));
        Ok(true)
    }
}

impl<T: fmt::Debug, E> fmt::Debug for Reloadable<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reloadable")
            .field("paths", &self.paths)
            .field("current", &self.current)
            .finish_non_exhaustive()
    }
}

fn read(paths: &[PathBuf]) -> Result<Vec<Vec<u8>>, FileError> {
    let read = |path: &PathBuf| std::fs::read(path).map_err(|error| FileError::new(path, error));
    paths.iter().map(read).collect()
}

/// Identifies contents without a second copy of private keys in memory.
fn digest(contents: &[Vec<u8>]) -> u64 {
    let mut hasher = DefaultHasher::new();
    contents.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s78_invalid_file_is_an_error_once_and_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("number");
        std::fs::write(&path, "1").unwrap();
        let value = Reloadable::<_, FileError>::open(vec![path.clone()], |paths, contents| {
            let text = String::from_utf8_lossy(&contents[0]);
            text.parse::<u32>()
                .map_err(|error| FileError::new(&paths[0], error))
        })
        .unwrap();
        assert_eq!(value.refresh(), Ok(false), "nothing changed");

        std::fs::write(&path, "one").unwrap();
        assert!(value.refresh().is_err());
        assert_eq!(value.refresh(), Ok(false), "already reported");
        assert_eq!(*value.load(), 1);

        std::fs::remove_file(&path).unwrap();
        assert!(value.refresh().is_err());
        assert_eq!((value.refresh(), *value.load()), (Ok(false), 1));

        std::fs::write(&path, "2").unwrap();
        assert_eq!((value.refresh(), *value.load()), (Ok(true), 2));
    }
}
