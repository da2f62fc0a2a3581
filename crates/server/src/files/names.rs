//! Names of the written files.

use std::path::{Path, PathBuf};

use oxds_types::{ResourceType, Version};

/// The longest file name, without the ending, in bytes. Linux and most file systems allow 255; a temporary name has ten
/// more characters, and other programs add endings of their own.
const MAX_NAME: usize = 200;
/// The part of a longer name that stays readable.
const READABLE: usize = 160;

/// Returns the path of the file of all resources of a type, below the folder.
pub(super) fn whole(folder: &Path, resource_type: &ResourceType) -> PathBuf {
    folder.join(format!("{}.json", short(resource_type)))
}

/// Returns the folder of the files of single resources of a type.
pub(super) fn folder_of(folder: &Path, resource_type: &ResourceType) -> PathBuf {
    folder.join(short(resource_type))
}

/// Returns the path of the file of one resource.
pub(super) fn single(folder: &Path, resource_type: &ResourceType, name: &str) -> PathBuf {
    folder_of(folder, resource_type).join(format!("{}.json", file_name(name)))
}

/// Whether a name is too long for a file, so that its file has a shorter one.
pub(super) fn is_long(name: &str) -> bool {
    // A byte becomes at most three characters.
    name.len() * 3 > MAX_NAME && escaped(name).len() > MAX_NAME
}

fn short(resource_type: &ResourceType) -> &str {
    resource_type
        .short_name()
        .unwrap_or(resource_type.message())
}

/// Returns the file name for a resource name: the escaped name; if it is too long, its beginning, `~` and a hash of the
/// name. No escaped name has a `~`, so different names never share a file.
fn file_name(name: &str) -> String {
    let mut file = escaped(name);
    if file.len() > MAX_NAME {
        file.truncate(READABLE);
        // Not within an escape, so that the beginning can still be read.
        if let Some(at) = file.rfind('%').filter(|at| at + 3 > file.len()) {
            file.truncate(at);
        }
        file = format!("{file}~{}", Version::of(name.as_bytes()));
    }
    file
}

/// Returns a name with letters, digits, `-`, `_` and inner dots; other bytes become `%XX`.
fn escaped(name: &str) -> String {
    let mut file = String::with_capacity(name.len());
    for (at, byte) in name.bytes().enumerate() {
        match byte {
            b'.' if at == 0 => file.push_str("%2E"),
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => {
                file.push(char::from(byte));
            }
            _ => file.push_str(&format!("%{byte:02X}")),
        }
    }
    file
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s57_long_names_have_a_hash_and_stay_apart() {
        assert_eq!(file_name("shop/a"), "shop%2Fa");
        let exact = "x".repeat(MAX_NAME);
        assert_eq!((file_name(&exact), is_long(&exact)), (exact.clone(), false));
        let (a, b) = (exact.clone() + "a", exact + "b");
        assert!(is_long(&a));
        assert_ne!(file_name(&a), file_name(&b));
        for name in [
            a,
            "/".repeat(300),
            format!("{}ü{}", "x".repeat(158), "y".repeat(90)),
        ] {
            let file = file_name(&name);
            assert!(file.len() <= MAX_NAME && file.contains('~'), "{file}");
            let (readable, _) = file.split_once('~').unwrap();
            assert!(escaped(&name).starts_with(readable), "{file}");
            assert!(!readable[readable.len() - 2..].contains('%'), "{file}");
        }
    }
}
