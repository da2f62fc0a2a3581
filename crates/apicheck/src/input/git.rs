//! Commits of a repository, through the `git` command.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use jiff::civil::Date;
use prost::bytes::Bytes;

use super::failure::Unusable;
use super::listing::{Listing, is_wanted};
use super::{Input, Revision};

/// The files of a commit.
pub(super) fn listing(repository: &Path, revision: &Revision) -> Result<Listing, Unusable> {
    let folder = folder_of(repository);
    let commit = resolve(&folder, revision)?;
    let tree = run(
        &folder,
        &["ls-tree", "-r", "-z", "--name-only", "--full-tree", &commit],
    )?;
    let mut paths: Vec<String> = tree
        .split('\0')
        .filter(|path| is_wanted(path))
        .map(str::to_owned)
        .collect();
    paths.sort_unstable();
    let place = match revision {
        Revision::Branch(name) | Revision::Tag(name) | Revision::Ref(name) => name.clone(),
    };
    Ok(Listing::git(folder, commit, place, paths))
}

/// One file of a commit; none when it is not there.
pub(super) fn file(
    repository: &Path,
    revision: &Revision,
    path: &str,
) -> Result<Option<Vec<u8>>, Unusable> {
    let folder = folder_of(repository);
    let commit = resolve(&folder, revision)?;
    let object = format!("{commit}:{path}");
    let text = run(&folder, &["cat-file", "blob", &object]);
    Ok(text.ok().map(String::into_bytes))
}

/// Where to run git for `api/.git` or `api`.
fn folder_of(repository: &Path) -> PathBuf {
    let folder = match repository.file_name() {
        Some(name) if name == ".git" => repository.parent().unwrap_or(repository),
        _ => repository,
    };
    match folder.as_os_str().is_empty() {
        true => PathBuf::from("."),
        false => folder.to_owned(),
    }
}

fn resolve(folder: &Path, revision: &Revision) -> Result<String, Unusable> {
    let candidates = match revision {
        Revision::Branch(name) => vec![
            format!("refs/heads/{name}"),
            format!("refs/remotes/origin/{name}"),
        ],
        Revision::Tag(name) => vec![format!("refs/tags/{name}")],
        Revision::Ref(name) => vec![name.clone()],
    };
    // A folder outside any repository is another mistake than an unknown commit.
    run(folder, &["rev-parse", "--git-dir"])?;
    let known = |name: &String| {
        let commit = format!("{name}^{{commit}}");
        run(
            folder,
            &[
                "rev-parse",
                "--verify",
                "--quiet",
                "--end-of-options",
                &commit,
            ],
        )
        .ok()
    };
    let commit = candidates.iter().find_map(known);
    commit
        .map(|commit| commit.trim().to_owned())
        .ok_or_else(|| Unusable::UnknownRevision {
            repository: folder.display().to_string(),
            revision: revision.to_string(),
            hint: shallow_hint(folder).to_owned(),
        })
}

fn shallow_hint(folder: &Path) -> &'static str {
    let shallow = run(folder, &["rev-parse", "--is-shallow-repository"]);
    match shallow.is_ok_and(|answer| answer.trim() == "true") {
        true => "; the clone is shallow: `git fetch --unshallow` fetches the rest",
        false => "",
    }
}

/// What a change is compared with when nobody says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Base {
    /// Where the default branch and HEAD part.
    pub input: Input,
    /// In words: `merge base 1a2b3c4 of HEAD and origin/main`.
    pub words: String,
}

/// The merge base of HEAD and the default branch of the repository that holds `folder`; on the
/// default branch itself that is its last commit. The same folder of it is judged.
///
/// # Errors
/// When `folder` is in no repository, no default branch is known, or the clone is too shallow.
pub fn merge_base(folder: &Path) -> Result<Base, Unusable> {
    let folder = folder_of(folder);
    let prefix = run(&folder, &["rev-parse", "--show-prefix"])?;
    let branch = default_branch(&folder)?;
    let base =
        run(&folder, &["merge-base", "HEAD", &branch]).map_err(|_| Unusable::UnknownRevision {
            repository: folder.display().to_string(),
            revision: format!("merge base of HEAD and {branch}"),
            hint: shallow_hint(&folder).to_owned(),
        })?;
    let commit = base.trim().to_owned();
    let short = commit.get(..7).unwrap_or(&commit).to_owned();
    let subdir = prefix.trim().trim_end_matches('/').to_owned();
    Ok(Base {
        words: format!("merge base {short} of HEAD and {branch}"),
        input: Input::Git {
            repository: folder,
            revision: Revision::Ref(short),
            subdir: (!subdir.is_empty()).then_some(subdir),
        },
    })
}

/// The last commit of a git input's history on a day or before it (UTC, by the date of the commit);
/// none when history does not reach back that far, and for inputs that have no history.
///
/// # Errors
/// When the commit of `input` is unknown.
pub fn as_of(input: &Input, date: Date) -> Result<Option<Input>, Unusable> {
    let Input::Git {
        repository,
        revision,
        subdir,
    } = input
    else {
        return Ok(None);
    };
    let folder = folder_of(repository);
    let commit = resolve(&folder, revision)?;
    let until = format!("--until={date}T23:59:59Z");
    let found = run(&folder, &["rev-list", "-1", &until, &commit])?;
    Ok((!found.is_empty()).then(|| Input::Git {
        repository: repository.clone(),
        revision: Revision::Ref(found.trim().to_owned()),
        subdir: subdir.clone(),
    }))
}

fn default_branch(folder: &Path) -> Result<String, Unusable> {
    let known = |name: &str| {
        run(folder, &["rev-parse", "--verify", "--quiet", name])
            .is_ok()
            .then(|| name.to_owned())
    };
    let head = run(
        folder,
        &["symbolic-ref", "--short", "refs/remotes/origin/HEAD"],
    );
    let head = head.ok().map(|name| name.trim().to_owned());
    let usual = ["origin/main", "origin/master", "main", "master"];
    head.or_else(|| usual.into_iter().find_map(known))
        .ok_or_else(|| Unusable::UnknownRevision {
            repository: folder.display().to_string(),
            revision: "default branch (origin/HEAD, main, master)".to_owned(),
            hint: "; say what to compare with: --against .git#ref=…".to_owned(),
        })
}

/// The contents of files of a commit, all by one process.
pub(super) fn read(folder: &Path, commit: &str, paths: &[String]) -> Result<Vec<Bytes>, Unusable> {
    let command = "cat-file --batch";
    let failed = |why: String| Unusable::Git {
        command: command.to_owned(),
        why,
    };
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
        return Err(failed("has no pipes".to_owned()));
    };
    let asked: String = paths
        .iter()
        .map(|path| format!("{commit}:{path}\n"))
        .collect();
    // Beside the reading: pipes are short, and git answers while it is asked.
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
        contents.push(content.ok_or_else(|| failed(format!("did not give {path}")))?);
    }
    Ok(contents)
}

/// `HASH blob SIZE\n`, that many bytes, a newline.
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

/// What git prints, or what it says is wrong.
fn run(folder: &Path, arguments: &[&str]) -> Result<String, Unusable> {
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
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(failed(
            String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        )),
    }
}
