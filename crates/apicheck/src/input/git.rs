//! Calls of the `git` command.

use std::collections::HashSet;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use prost::bytes::Bytes;

use super::failure::Unusable;
use crate::paths::clean;

/// Returns the folder in which git runs, for `api/.git` or `api`.
pub(super) fn folder_of(repository: &Path) -> PathBuf {
    let folder = match repository.file_name() {
        Some(name) if name == ".git" => repository.parent().unwrap_or(repository),
        _ => repository,
    };
    if folder.as_os_str().is_empty() {
        PathBuf::from(".")
    } else {
        folder.to_owned()
    }
}

/// Runs git and returns its standard output. The error has its standard error.
pub(super) fn run(folder: &Path, arguments: &[&str]) -> Result<String, Unusable> {
    let failed = |why: String| Unusable::Git {
        command: arguments.join(" "),
        why,
    };
    let output = Command::new("git")
        .arg("-C")
        .arg(folder)
        .args(arguments)
        .output()
        .map_err(|error| failed(error.to_string()))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(failed(
            String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        ))
    }
}

/// Returns the untracked files and folders below `folder` that git ignores (`.gitignore`), relative
/// to it; nothing outside a repository, or if the whole folder is ignored.
pub(super) fn ignored(folder: &Path) -> HashSet<String> {
    let list = [
        "ls-files",
        "-z",
        "--others",
        "--ignored",
        "--exclude-standard",
        "--directory",
    ];
    let list = run(folder, &list).unwrap_or_default();
    let paths = list.split('\0');
    let paths = paths.filter(|path| path.ends_with('/') || path.ends_with(".proto"));
    let paths: HashSet<_> = paths.map(clean).collect();
    if paths.contains("") {
        HashSet::new()
    } else {
        paths
    }
}

/// Reads the contents of files of a commit with one git process.
pub(super) fn read(folder: &Path, commit: &str, paths: &[String]) -> Result<Vec<Bytes>, Unusable> {
    let command = "cat-file --batch";
    let failed = |why: String| Unusable::Git {
        command: command.to_owned(),
        why,
    };
    // A line is a request: a path with a line break would be two.
    if let Some(path) = paths.iter().find(|path| path.contains('\n')) {
        return Err(failed(format!(
            "{path:?}: expected a path without line breaks"
        )));
    }
    let mut git = Command::new("git")
        .arg("-C")
        .arg(folder)
        .args(["cat-file", "--batch"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| failed(error.to_string()))?;
    let (input, output) = (git.stdin.take(), git.stdout.take());
    let (Some(mut input), Some(mut output)) = (input, output) else {
        return Err(failed("no pipes to the process".to_owned()));
    };
    let asked: String = paths
        .iter()
        .map(|path| format!("{commit}:{path}\n"))
        .collect();
    // Write on another thread: pipes are small, and git answers while it still reads requests.
    let mut all = Vec::new();
    let read = std::thread::scope(|scope| {
        scope.spawn(move || drop(input.write_all(asked.as_bytes())));
        output.read_to_end(&mut all)
    });
    read.and_then(|_| git.wait())
        .map_err(|error| failed(error.to_string()))?;
    let all = Bytes::from(all);
    let mut rest = 0;
    let mut contents = Vec::with_capacity(paths.len());
    for path in paths {
        let content = next_object(&all, &mut rest);
        contents.push(content.ok_or_else(|| failed(format!("no content for {path}")))?);
    }
    Ok(contents)
}

/// Parses one answer: `HASH blob SIZE\
/// `, the bytes, a newline.
fn next_object(all: &Bytes, rest: &mut usize) -> Option<Bytes> {
    let header = all.get(*rest..)?;
    let end = header.iter().position(|byte| *byte == b'\n')?;
    let size = std::str::from_utf8(&header[..end])
        .ok()?
        .rsplit(' ')
        .next()?;
    let (start, size) = (*rest + end + 1, size.parse::<usize>().ok()?);
    let end = start.checked_add(size)?;
    (end < all.len()).then(|| {
        *rest = end + 1;
        all.slice(start..end)
    })
}
