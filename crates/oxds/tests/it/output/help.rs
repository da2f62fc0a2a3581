//! The help of every command at 80 columns, and the check that every command has a snapshot of its output.

use std::collections::BTreeSet;
use std::fs;

use super::{Work, assert_snapshot};
use crate::support::{Ran, command};
use crate::terminal::commands;

/// Name of a command in the names of snapshots.
fn name(words: &[String]) -> String {
    if words.is_empty() {
        "oxds".to_owned()
    } else {
        words.join("_")
    }
}

#[cfg(all(feature = "etcd", feature = "tls"))]
#[test]
fn help_of_every_command_is_as_reviewed() {
    for words in commands(&[]) {
        let mut command = command(words.iter().map(String::as_str).chain(["--help"]));
        let ran = command
            .env("COLUMNS", "80")
            .output()
            .expect("the binary runs");
        let ran = Ran::from(ran);
        ran.expect(0, &[]);
        let lines: Vec<_> = ran.stdout.lines().map(str::trim_end).collect();
        assert_snapshot(&format!("{}.help", name(&words)), &lines.join("\n"));
    }
}

/// Given the tree of commands, then each command that does something has a snapshot besides its help, and each snapshot
/// has a command.
#[test]
fn every_command_has_a_snapshot() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/snapshots");
    let files = fs::read_dir(folder).expect("the folder of snapshots");
    let files = files.map(|file| {
        file.expect("a file")
            .file_name()
            .to_string_lossy()
            .into_owned()
    });
    let (help, output): (Vec<_>, Vec<_>) = files.partition(|file| file.ends_with(".help.snap"));
    let of = |file: &String| file.split('.').next().unwrap_or_default().to_owned();
    let (help, output): (BTreeSet<_>, BTreeSet<_>) = (
        help.iter().map(of).collect(),
        output.iter().map(of).collect(),
    );
    let all = commands(&[]);
    let names: BTreeSet<_> = all.iter().map(|words| name(words)).collect();
    assert_eq!(help, names);
    let is_group = |words: &[String]| {
        all.iter()
            .any(|other| other.len() > words.len() && other.starts_with(words))
    };
    let acting = all
        .iter()
        .filter(|words| !is_group(words) || name(words) == "route");
    let missing: Vec<_> = acting
        .map(|words| name(words))
        .filter(|name| !output.contains(name))
        .collect();
    assert!(
        missing.is_empty(),
        "no snapshot of the output of {missing:?}"
    );
    let gone: Vec<_> = output.difference(&names).collect();
    assert!(gone.is_empty(), "snapshots of unknown commands: {gone:?}");
}

#[test]
fn usage_errors_are_as_reviewed() {
    let work = Work::new(&[]);
    work.snapshot("oxds.unknown-command", "bogus");
    work.snapshot("oxds.unknown-option", "validate config --format xml");
    work.snapshot("completions.unknown-shell", "completions cmd.exe");
    fs::create_dir(work.path().join("pages")).expect("a folder");
    work.snapshot("man", "man pages");
    work.snapshot("man.missing-folder", "man none");
}
