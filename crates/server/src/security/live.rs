//! What is made of files, and made anew when they change.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;

use super::SecurityError;

/// The contents of files, in the order in which the files were named.
pub(super) type Contents = [Vec<u8>];

type Make<T> = fn(&[PathBuf], &Contents) -> Result<T, SecurityError>;

/// A `T` that follows its files.
#[derive(Debug)]
pub(super) struct Live<T> {
    paths: Vec<PathBuf>,
    make: Make<T>,
    current: ArcSwap<T>,
    /// Of the contents that were last looked at, good or bad, so that each is tried and complained of once.
    seen: Mutex<Result<u64, SecurityError>>,
}

impl<T> Live<T> {
    /// Reads the files for the first time.
    pub(super) fn open(paths: Vec<PathBuf>, make: Make<T>) -> Result<Self, SecurityError> {
        let contents = read(&paths)?;
        Ok(Self {
            current: ArcSwap::from_pointee(make(&paths, &contents)?),
            seen: Mutex::new(Ok(digest(&contents))),
            paths,
            make,
        })
    }

    pub(super) fn load(&self) -> Arc<T> {
        self.current.load_full()
    }

    /// Reads the files again; whether there is something new. Files that are not as they should be change nothing, and
    /// are an error once. Of a certificate and a key that are replaced one after the other, the first alone is such.
    pub(super) fn refresh(&self) -> Result<bool, SecurityError> {
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

fn read(paths: &[PathBuf]) -> Result<Vec<Vec<u8>>, SecurityError> {
    let read = |path: &PathBuf| {
        std::fs::read(path).map_err(|error| SecurityError::Unreadable {
            path: path.clone(),
            reason: error.to_string(),
        })
    };
    paths.iter().map(read).collect()
}

/// Tells contents apart without keeping keys in memory twice.
fn digest(contents: &[Vec<u8>]) -> u64 {
    let mut hasher = DefaultHasher::new();
    contents.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s78_a_bad_file_is_told_once_and_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("number");
        std::fs::write(&path, "1").unwrap();
        let live = Live::open(vec![path.clone()], |paths, contents| {
            let text = String::from_utf8_lossy(&contents[0]);
            text.parse::<u32>().map_err(|error| SecurityError::Unfit {
                path: paths[0].clone(),
                reason: error.to_string(),
            })
        })
        .unwrap();
        assert_eq!(live.refresh(), Ok(false), "nothing changed");

        std::fs::write(&path, "one").unwrap();
        assert!(live.refresh().is_err());
        assert_eq!(live.refresh(), Ok(false), "told already");
        assert_eq!(*live.load(), 1);

        std::fs::remove_file(&path).unwrap();
        assert!(live.refresh().is_err());
        assert_eq!((live.refresh(), *live.load()), (Ok(false), 1));

        std::fs::write(&path, "2").unwrap();
        assert_eq!((live.refresh(), *live.load()), (Ok(true), 2));
    }
}
