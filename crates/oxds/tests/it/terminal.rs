//! Tests of behaviour that all commands share: help, completions, pipes, colours, log filter.

use std::fs;
use std::process::{Command, Stdio};

use crate::support::{Ran, command, folder, oxds, shop};

#[test]
fn no_command_prints_help_with_all_commands() {
    oxds([] as [&str; 0]).expect(2, &["serve", "validate", "bootstrap", "call", "demo"]);
    oxds(["--help"]).expect(0, &["Start here:", "Exit codes:", "RUST_LOG", "NO_COLOR"]);
    oxds(["--version"]).expect(0, &["oxds 0."]);
}

#[test]
fn completions_are_printed_for_each_shell() {
    for shell in ["bash", "zsh", "fish"] {
        oxds(["completions", shell]).expect(0, &["validate", "bootstrap", "oxds"]);
    }
    oxds(["completions", "cmd.exe"]).expect(2, &["possible values"]);
}

/// Returns the words of each command: of `words`, and of all commands that its help lists.
pub(crate) fn commands(words: &[String]) -> Vec<Vec<String>> {
    let help = oxds(words.iter().map(String::as_str).chain(["--help"])).stdout;
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    // A command begins in the third column; further lines of its text are indented more.
    let lines = listed.take_while(|line| !line.is_empty());
    let names = lines.filter(|line| !line.starts_with("   "));
    let mut all = vec![words.to_vec()];
    for name in names.filter_map(|line| line.split_whitespace().next()) {
        all.extend(commands(&[words, &[name.to_owned()]].concat()));
    }
    all
}

/// Given an existing folder, then `oxds man` writes a page for each command and each command below it, and no other
/// file; the script of bash completes them.
#[test]
fn man_pages_and_completions_cover_all_commands() {
    let folder = folder(&[]);
    let printed = oxds(["man".as_ref(), folder.path().as_os_str()]);
    let printed = printed.expect(0, &[]).stdout.lines().count();
    let script = oxds(["completions", "bash"]).stdout;
    let all = commands(&[]);
    assert!(
        all.contains(&vec!["api".to_owned(), "lint".to_owned()]),
        "{all:?}"
    );
    for words in &all {
        let name = [&["oxds".to_owned()], &words[..]].concat().join("-");
        let page = folder.path().join(format!("{name}.1"));
        let text = fs::read_to_string(&page).unwrap_or_else(|_| panic!("no page {name}"));
        assert!(text.contains(".SH SYNOPSIS"), "{name}: {text}");
        if let Some(last) = words.last() {
            assert!(script.contains(&format!(",{last})")), "{name}");
        }
    }
    let written = fs::read_dir(folder.path()).expect("a folder").count();
    assert_eq!((printed, written), (all.len(), all.len()));
    oxds(["man", "/nowhere/at/all"]).expect(2, &["cannot write /nowhere/at/all/oxds.1"]);
}

/// `oxds … | head -0`: no panic, no message, and the same exit code as without the pipe.
#[test]
fn closed_pipe_is_not_an_error() {
    let oxds = env!("CARGO_BIN_EXE_oxds");
    let shop = shop();
    for arguments in ["completions bash", "bootstrap envoy --server a:1", "--help"] {
        let script = format!("set -o pipefail; '{oxds}' {arguments} | true");
        let ran: Ran = Command::new("bash")
            .args(["-c", &script])
            .output()
            .expect("ran")
            .into();
        ran.expect(0, &[]);
        assert_eq!(ran.stderr, "");
    }
    let validate = format!(
        "set -o pipefail; '{oxds}' validate '{}' | true",
        shop.display()
    );
    let ran: Ran = Command::new("bash")
        .args(["-c", &validate])
        .output()
        .expect("ran")
        .into();
    ran.expect(0, &[]);
}

#[test]
fn full_disk_is_an_error() {
    let full = fs::File::options().write(true).open("/dev/full");
    let Ok(full) = full else { return };
    let ran: Ran = command(["completions", "bash"])
        .stdout(Stdio::from(full))
        .output()
        .expect("ran")
        .into();
    ran.expect(1, &["stdout: ", "No space left"]);
}

#[test]
fn output_without_terminal_has_no_colours() {
    for arguments in [&["--help"][..], &["validate", "/no/such"]] {
        let ran = oxds(arguments);
        assert!(
            !ran.stdout.contains('\u{1b}') && !ran.stderr.contains('\u{1b}'),
            "{ran:?}"
        );
    }
}

#[test]
fn malformed_rust_log_directive_is_reported() {
    let ran: Ran = command(["validate"])
        .arg(shop())
        .env("RUST_LOG", "warn,a=b=c")
        .output()
        .expect("ran")
        .into();
    ran.expect(0, &["a=b=c", "0 errors"]);
}
