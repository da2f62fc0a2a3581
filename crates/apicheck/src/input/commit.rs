//! Commits of a repository: their files, and the base of a comparison.

use std::collections::HashMap;
use std::path::Path;

use jiff::civil::Date;
use prost::bytes::Bytes;

use super::failure::Unusable;
use super::git::{folder_of, read, run};
use super::listing::{Listing, is_copy};
use super::source::{Input, Revision};
use crate::paths::{is_below, join};

/// Lists the files of a commit that `wanted` selects. Links to folders are followed as in a folder `subdir`: if their
/// target lies in the repository, but outside of it.
pub(super) fn listing(
    repository: &Path,
    revision: &Revision,
    subdir: &str,
    wanted: &dyn Fn(&str) -> bool,
) -> Result<Listing, Unusable> {
    let folder = folder_of(repository);
    let commit = resolve(&folder, revision)?;
    let tree = run(&folder, &["ls-tree", "-r", "-z", "--full-tree", &commit])?;
    // `MODE TYPE HASH\tPATH`; links have the mode 120000.
    let entries = tree.split('\0').filter_map(|entry| entry.split_once('\t'));
    let (links, files): (Vec<_>, Vec<_>) =
        entries.partition(|(attributes, _)| attributes.starts_with("120000"));
    let files = files.into_iter().map(|(_, path)| path);
    let paths: Vec<String> = files
        .filter(|path| wanted(path))
        .map(str::to_owned)
        .collect();
    let links: Vec<String> = links
        .into_iter()
        .map(|(_, path)| path.to_owned())
        .filter(|path| is_below(path, subdir))
        .collect();
    let links = linked(&folder, &commit, (subdir, wanted), &links, &paths)?;
    let place = match revision {
        Revision::Branch(name) | Revision::Tag(name) | Revision::Ref(name) => name.clone(),
    };
    Ok(Listing::git(folder, commit, place, paths, links))
}

/// Reads the files of a commit below `subdir` that `wanted` selects by their paths, with the paths below it.
pub(super) fn files(
    repository: &Path,
    revision: &Revision,
    subdir: &str,
    wanted: &dyn Fn(&str) -> bool,
) -> Result<Vec<(String, Bytes)>, Unusable> {
    let listing = listing(repository, revision, subdir, wanted)?;
    let paths = listing.paths.iter().filter(|path| is_below(path, subdir));
    let paths: Vec<String> = paths.cloned().collect();
    if paths.is_empty() && !subdir.is_empty() {
        let folder = folder_of(repository);
        let tree = format!("{}:{subdir}", resolve(&folder, revision)?);
        run(&folder, &["cat-file", "-e", &tree]).map_err(|_| Unusable::NotInCommit {
            revision: revision.to_string(),
            path: subdir.to_owned(),
        })?;
    }
    let contents = listing.read(&paths)?;
    let below = |path: String| match path.get(subdir.len()..) {
        Some(rest) => rest.trim_start_matches('/').to_owned(),
        None => path,
    };
    Ok(paths.into_iter().map(below).zip(contents).collect())
}

/// Returns the paths that are reached through `links`, each with its target in the repository.
fn linked(
    folder: &Path,
    commit: &str,
    (subdir, wanted): (&str, &dyn Fn(&str) -> bool),
    links: &[String],
    paths: &[String],
) -> Result<HashMap<String, String>, Unusable> {
    if links.is_empty() {
        return Ok(HashMap::new());
    }
    let targets = read(folder, commit, links)?;
    let mut linked = HashMap::new();
    let mut followed: Vec<String> = Vec::new();
    for (link, target) in links.iter().zip(targets) {
        let Ok(target) = std::str::from_utf8(&target) else {
            continue;
        };
        let Some(target) = resolved(link, target) else {
            continue;
        };
        if wanted(link) {
            linked.insert(link.clone(), target);
        } else if !is_below(&target, subdir)
            && !is_copy(link.rsplit('/').next().unwrap_or(link))
            && !followed.iter().any(|known| is_below(&target, known))
        {
            let below = paths.iter().filter(|path| is_below(path, &target));
            linked.extend(below.map(|path| {
                let inside = path[target.len()..].trim_start_matches('/');
                (join(link, inside), path.clone())
            }));
            followed.push(target);
        }
    }
    Ok(linked)
}

/// Returns the path of the target of a link, or `None` if it lies outside of the repository.
fn resolved(link: &str, target: &str) -> Option<String> {
    if target.starts_with('/') {
        return None;
    }
    let mut parts: Vec<&str> = link.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            _ => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// Reads one file of a commit. Returns `None` if the commit does not contain it.
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

fn resolve(folder: &Path, revision: &Revision) -> Result<String, Unusable> {
    let candidates = match revision {
        Revision::Branch(name) => vec![
            format!("refs/heads/{name}"),
            format!("refs/remotes/origin/{name}"),
        ],
        Revision::Tag(name) => vec![format!("refs/tags/{name}")],
        Revision::Ref(name) => vec![name.clone()],
    };
    // A folder outside any repository is another error than an unknown commit.
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
    if shallow.is_ok_and(|answer| answer.trim() == "true") {
        "; the clone is shallow: `git fetch --unshallow` fetches the rest \
             (actions/checkout: `fetch-depth: 0`)"
    } else {
        ""
    }
}

/// Default base of a comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Base {
    /// Merge base of HEAD and the default branch.
    pub input: Input,
    /// Description for people: `merge base 1a2b3c4 of HEAD and origin/main`.
    pub description: String,
}

/// Returns the merge base of HEAD and the default branch of the repository that contains `folder`.
/// On the default branch that is its last commit. The input has the same subfolder.
///
/// # Errors
/// Fails if `folder` is in no repository, no default branch is known, or the clone is too shallow.
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
        description: format!("merge base {short} of HEAD and {branch}"),
        input: Input::Git {
            repository: folder,
            revision: Revision::Ref(short),
            subdir: (!subdir.is_empty()).then_some(subdir),
        },
    })
}

/// Returns the last commit in the history of a git input on or before a day (UTC, by commit date).
/// Returns `None` if the history is too short, and for inputs without history.
///
/// # Errors
/// Fails if the commit of `input` is unknown.
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
        .ok_or_else(|| Unusable::NoDefaultBranch {
            repository: folder.display().to_string(),
            hint: shallow_hint(folder).to_owned(),
        })
}
