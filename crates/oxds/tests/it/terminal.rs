//! Tests of behaviour that all commands share: help, completions, pipes, colours, log filter.

use std::process::{Command, Stdio};

use crate::support::{Ran, command, oxds, shop};

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
    let full = std::fs::File::options().write(true).open("/dev/full");
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
