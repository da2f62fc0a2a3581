//! V-1: Envoy's API of 2026 in a folder, against that of 2022 in a commit of the same repository.
//!
//! Whole processes of both command lines are timed, from their start to their end, with nothing cached: `oxds api` and
//! the native program of `buf`. Their peak memory is from a further run, because reading it disturbs them. The hashes
//! and the next major have no counterpart; they are timed in roles, after parsing.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use oxds_apicheck::generate::next_major;
use oxds_apicheck::hash::{Hashes, VERSION_OPTION};
use oxds_apicheck::input::{Input, LoadOptions, load};
use serde::{Deserialize, Serialize};

use crate::command_line::CommandLine;
use crate::plan::{Plan, Size};
use crate::program::program;
use crate::report::{Row, Table, Target, median};
use crate::roles::{ApiWork, Part, Role};

const OLD: &str = "crate:data-plane-api@0.1.1#subdir=data-plane-api";
/// The old tree as both command lines write it.
const OLD_TREE: &str = ".git#ref=HEAD";
const NEW: &str = "crate:envoy-types@0.7.7#subdir=proto/data-plane-api";
const BUF_YAML: &str =
    "version: v2\nmodules:\n  - path: .\nbreaking:\n  use: [FILE, PACKAGE, WIRE_JSON, WIRE]\n";

/// Result of one process.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Done {
    /// Duration of the work alone, without parsing.
    millis: f64,
    files: usize,
    /// Number of hashes or files.
    results: usize,
}

pub(crate) fn run(_: &Plan, size: Size, table: &mut Table) -> Result<(), String> {
    let (oxds, buf) = (program("OXDS_BENCH_OXDS")?, program("OXDS_BENCH_BUF")?);
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let folder = folder.path();
    repository(folder)?;
    let rounds = size.rounds;
    let commands = [
        // Exit code 1: there are findings. Any other code is a failure.
        CommandLine::new(&oxds, &["api", "breaking", ".", "--against", OLD_TREE], 1),
        CommandLine::new(&oxds, &["api", "check", ".", "--against", OLD_TREE], 1),
        CommandLine::new(&buf, &["breaking", ".", "--against", OLD_TREE], 100),
    ];
    let mut times = [const { Vec::new() }; 3];
    let (mut hashes, mut majors) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        for (command, times) in commands.iter().zip(&mut times) {
            times.push(command.time(folder)?);
        }
        hashes.push(ours(folder, ApiWork::Hash)?.millis);
        majors.push(ours(folder, ApiWork::NextMajor)?.millis);
    }
    let [breaking, check, theirs] = times.map(median);
    let mut row = |what, ours, theirs, target| {
        table.row(&Row {
            id: "V-1",
            what,
            ours,
            peer: ("buf breaking", theirs),
            target,
        });
    };
    let half = Target::AtMost(0.5);
    row("breaking, against a commit (ms)", breaking, theirs, half);
    row(
        "check (everything), against a commit (ms)",
        check,
        theirs,
        half,
    );
    let peak = |command: &CommandLine| command.peak_mib(folder);
    let (ours_breaking, ours_check) = (peak(&commands[0])?, peak(&commands[1])?);
    let theirs = peak(&commands[2])?;
    row(
        "breaking, peak memory (MiB)",
        ours_breaking,
        theirs,
        Target::None,
    );
    row("check, peak memory (MiB)", ours_check, theirs, Target::None);
    table.limit("V-1", "check, cold (ms)", check, 600.0);
    table.limit("V-1", "check, peak memory (MiB)", ours_check, 114.0);
    table.limit(
        "V-1",
        "hashes of all files, after parsing (ms)",
        median(hashes),
        50.0,
    );
    table.limit(
        "V-1",
        "next major, after parsing (ms)",
        median(majors),
        200.0,
    );
    Ok(())
}

/// The role: reads the folder, then does its work.
pub(crate) fn work(folder: &Path, work: ApiWork) -> Result<Done, String> {
    let input = Input::Folder(folder.to_owned());
    let tree = load(&input, &LoadOptions::default()).map_err(|error| error.to_string())?;
    let start = Instant::now();
    let results = match work {
        ApiWork::Hash => Hashes::of(&tree, VERSION_OPTION).files().len(),
        ApiWork::NextMajor => next_major(&tree).files.len(),
    };
    Ok(Done {
        millis: start.elapsed().as_secs_f64() * 1e3,
        files: tree.files.len(),
        results,
    })
}

fn ours(folder: &Path, work: ApiWork) -> Result<Done, String> {
    let role = Role::Api {
        folder: folder.to_owned(),
        work,
    };
    let done: Done = Part::start_measuring(&role)?.finish()?;
    if done.files > 400 && done.results > 0 {
        Ok(done)
    } else {
        Err(format!("{work:?} on the tree of 2026: {done:?}"))
    }
}

/// Commits the old tree and puts the new one in its place.
fn repository(folder: &Path) -> Result<(), String> {
    let git = |arguments: &[&str]| {
        let status = Command::new("git")
            .arg("-C")
            .arg(folder)
            .args(["-c", "user.name=bench", "-c", "user.email=bench@localhost"])
            .args(arguments)
            .stdout(Stdio::null())
            .status();
        match status {
            Ok(status) if status.success() => Ok(()),
            other => Err(format!("git {arguments:?}: {other:?}")),
        }
    };
    git(&["init", "-q"])?;
    write(OLD, folder)?;
    git(&["add", "."])?;
    git(&["commit", "-qm", "2022"])?;
    git(&["rm", "-rq", "--cached", "."])?;
    for entry in std::fs::read_dir(folder).map_err(|error| error.to_string())? {
        let path = entry.map_err(|error| error.to_string())?.path();
        if path.is_dir() && path.file_name().is_some_and(|name| name != ".git") {
            std::fs::remove_dir_all(&path).map_err(|error| error.to_string())?;
        }
    }
    write(NEW, folder)
}

/// Writes a tree by import path.
fn write(input: &str, folder: &Path) -> Result<(), String> {
    let input: Input = input.parse().map_err(|error| format!("{error}"))?;
    let tree = load(&input, &LoadOptions::default()).map_err(|error| error.to_string())?;
    for file in &tree.files {
        let Some(text) = &file.text else { continue };
        let path = folder.join(&*file.path);
        std::fs::create_dir_all(path.parent().unwrap_or(folder))
            .and_then(|()| std::fs::write(&path, text.as_bytes()))
            .map_err(|error| format!("{}: {error}", path.display()))?;
    }
    std::fs::write(folder.join("buf.yaml"), BUF_YAML).map_err(|error| error.to_string())
}
