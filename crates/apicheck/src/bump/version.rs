//! Versions of files, and the size of a change.

use std::collections::BTreeMap;

use semver::Version;

use super::lock::Lock;
use crate::model::{File, Tree};

/// Size of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Only options changed: looser validation, deprecation, status.
    Patch,
    /// Something was added, or changed in an unstable package.
    Minor,
    /// A stable element broke.
    Major,
}

impl Class {
    /// Returns the lowest version above `from` that covers such a change.
    #[must_use]
    pub fn next(self, from: &Version) -> Version {
        match self {
            Class::Patch => Version::new(from.major, from.minor, from.patch + 1),
            Class::Minor => Version::new(from.major, from.minor + 1, 0),
            Class::Major => Version::new(from.major + 1, 0, 0),
        }
    }

    /// Returns whether the step between two versions covers such a change.
    #[must_use]
    pub fn is_covered_by(self, from: &Version, to: &Version) -> bool {
        *to >= self.next(from)
    }
}

/// Version of each file that has one, by import path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Versions(BTreeMap<String, Result<Version, String>>);

impl Versions {
    /// Reads the versions from the file option `option` (a full name), or from the lock for files
    /// without it.
    #[must_use]
    pub fn of(tree: &Tree, option: &str, lock: Option<&Lock>) -> Versions {
        let locked = lock.iter().flat_map(|lock| &lock.files);
        let mut versions: BTreeMap<_, _> = locked
            .filter(|(path, _)| tree.file(path).is_some())
            .map(|(path, locked)| (path.clone(), Ok(locked.version.clone())))
            .collect();
        for file in &tree.files {
            if let Some(text) = option_version(file, option) {
                let version = text.parse().map_err(|_| text.to_owned());
                versions.insert(file.path.to_string(), version);
            }
        }
        Versions(versions)
    }

    /// Returns the version of a file. `Err` contains a malformed version.
    #[must_use]
    pub fn get(&self, path: &str) -> Option<Result<&Version, &str>> {
        Some(self.0.get(path)?.as_ref().map_err(String::as_str))
    }

    /// Returns whether no file has a version, so that the tree does not use versions.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Returns the version in the option of a file.
pub(super) fn option_version<'a>(file: &'a File, option: &str) -> Option<&'a str> {
    file.options.extension(option)?.as_str()
}

#[cfg(test)]
mod tests {
    use semver::Version;

    use super::Class;

    #[test]
    fn v22_class_determines_the_version_part() {
        let from = Version::new(1, 2, 3);
        assert!(Class::Patch.is_covered_by(&from, &Version::new(1, 2, 4)));
        assert!(!Class::Minor.is_covered_by(&from, &Version::new(1, 2, 4)));
        assert!(Class::Minor.is_covered_by(&from, &Version::new(1, 3, 0)));
        assert!(!Class::Major.is_covered_by(&from, &Version::new(1, 9, 0)));
    }
}
