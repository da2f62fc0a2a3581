//! V-1: Envoy's API of 2026 in a folder, against that of 2022 in a commit of the same repository.
//!
//! Whole processes are timed, from their start to their end, with nothing cached: ours is this program
//! in a role that does what `oxds api` does; the peer is `buf breaking` on the same repository.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use oxds_apicheck::check::{self, Settings};
use oxds_apicheck::generate::next_major;
use oxds_apicheck::hash::{Hashes, VERSION_OPTION};
use oxds_apicheck::input::{Input, LoadOptions, Revision, load};
use oxds_apicheck::model::Tree;
use serde::{Deserialize, Serialize};

use crate::Plan;
use crate::report::{Row, Table, Target, median};
use crate::roles::{ApiWork, Part, Role};

const OLD: &str = "crate:data-plane-api@0.1.1#subdir=data-plane-api";
const NEW: &str = "crate:envoy-types@0.7.7#subdir=proto/data-plane-api";
const BUF_YAML: &str =
    "version: v2\nmodules:\n  - path: .\nbreaking:\n  use: [FILE, PACKAGE, WIRE_JSON, WIRE]\n";

/// Result of one process.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Done {
    /// Duration of the work alone, without parsing.
    millis: f64,
    files: usize,
    /// Number of findings, hashes or files.
    results: usize,
    peak_mib: f64,
}

pub(crate) fn run(plan: &Plan, table: &mut Table) -> Result<(), String> {
    let buf = std::env::var_os("OXDS_BENCH_BUF").map(PathBuf::from);
    let buf = buf.ok_or("OXDS_BENCH_BUF does not name the peer's binary: use bench/run")?;
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    repository(folder.path())?;
    let rounds = if plan.smoke { 1 } else { 7 };
    let (mut checks, mut breaking, mut theirs) = (Vec::new(), Vec::new(), Vec::new());
    let (mut hashes, mut majors, mut peaks) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        let (wall, done) = ours(folder.path(), ApiWork::Check)?;
        checks.push(wall);
        peaks.push(done.peak_mib);
        breaking.push(ours(folder.path(), ApiWork::Breaking)?.0);
        theirs.push(peer(&buf, folder.path())?);
        hashes.push(ours(folder.path(), ApiWork::Hash)?.1.millis);
        majors.push(ours(folder.path(), ApiWork::NextMajor)?.1.millis);
    }
    table.row(&Row {
        id: "V-1",
        what: "breaking, against a commit (ms)",
        ours: median(breaking),
        peer: ("buf breaking", median(theirs.clone())),
        target: Target::AtMost(0.5),
    });
    let check = median(checks);
    table.row(&Row {
        id: "V-1",
        what: "check (everything), against a commit (ms)",
        ours: check,
        peer: ("buf breaking", median(theirs)),
        target: Target::AtMost(0.5),
    });
    table.limit("V-1", "check, cold (ms)", check, 600.0);
    table.limit("V-1", "check, peak memory (MiB)", median(peaks), 114.0);
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

/// The role: reads the folder and, for comparisons, its last commit.
pub(crate) fn work(folder: &Path, work: ApiWork) -> Result<Done, String> {
    let read =
        |input: Input| load(&input, &LoadOptions::default()).map_err(|error| error.to_string());
    let new = || read(Input::Folder(folder.to_owned()));
    let old = || {
        read(Input::Git {
            repository: folder.to_owned(),
            revision: Revision::Ref("HEAD".to_owned()),
            subdir: None,
        })
    };
    let done = |start: Instant, tree: &Tree, results: usize| Done {
        millis: start.elapsed().as_secs_f64() * 1e3,
        files: tree.files.len(),
        results,
        peak_mib: peak_mib(),
    };
    match work {
        ApiWork::Check | ApiWork::Breaking => {
            let start = Instant::now();
            let (old, new) = rayon::join(old, new);
            let (old, new) = (old?, new?);
            let settings = Settings::default();
            let findings = match work {
                ApiWork::Check => check::check(&old, &new, (None, None), &settings),
                _ => check::breaking(&old, &new, &settings),
            };
            Ok(done(start, &new, findings.len()))
        }
        ApiWork::Hash => {
            let tree = new()?;
            let start = Instant::now();
            let hashes = Hashes::of(&tree, VERSION_OPTION);
            Ok(done(start, &tree, hashes.files().len()))
        }
        ApiWork::NextMajor => {
            let tree = new()?;
            let start = Instant::now();
            let major = next_major(&tree);
            Ok(done(start, &tree, major.files.len()))
        }
    }
}

fn ours(folder: &Path, work: ApiWork) -> Result<(f64, Done), String> {
    let role = Role::Api {
        folder: folder.to_owned(),
        work,
    };
    let start = Instant::now();
    let done: Done = Part::start_measuring(&role)?.finish()?;
    let wall = start.elapsed().as_secs_f64() * 1e3;
    match done.files > 400 && done.results > 0 {
        true => Ok((wall, done)),
        false => Err(format!("{work:?} on the tree of 2026: {done:?}")),
    }
}

fn peer(buf: &Path, folder: &Path) -> Result<f64, String> {
    let start = Instant::now();
    let status = Command::new("taskset")
        .args(["-c", "0,1"])
        .arg(buf)
        .args(["breaking", ".", "--against", ".git#ref=HEAD"])
        .current_dir(folder)
        .stdout(Stdio::null())
        .status()
        .map_err(|error| error.to_string())?;
    let wall = start.elapsed().as_secs_f64() * 1e3;
    // It has findings: any other exit code means that it did not do the work.
    match status.code() {
        Some(100) => Ok(wall),
        _ => Err(format!("buf breaking: {status}")),
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

/// Peak memory of this process, as Linux counts it; 0 elsewhere.
fn peak_mib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok());
    kib.unwrap_or_default() / 1024.0
}
