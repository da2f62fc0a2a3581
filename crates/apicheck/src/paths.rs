//! Paths inside a tree, as texts with slashes.

/// Normalises a path: `./a/b/` becomes `a/b`, `.` becomes the empty path.
pub(crate) fn clean(path: &str) -> String {
    let parts = path.split('/').filter(|part| !matches!(*part, "" | "."));
    parts.collect::<Vec<_>>().join("/")
}

/// Joins a folder and a path relative to it.
pub(crate) fn join(folder: &str, path: &str) -> String {
    match (folder, path) {
        ("", path) => path.to_owned(),
        (folder, "") => folder.to_owned(),
        _ => format!("{folder}/{path}"),
    }
}

/// Returns whether `path` equals `folder` or lies below it.
pub(crate) fn is_below(path: &str, folder: &str) -> bool {
    folder.is_empty()
        || path
            .strip_prefix(folder)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
