//! The repository's own rules, which no compiler knows.
//!
//! ```text
//! cargo xtask check            all rules
//! cargo xtask layers net core  one rule, here for two packages
//! ```
//!
//! A rule prints its findings, a line each, and the command ends with exit code 1 if there are any.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::expect_used,
    clippy::panic,
    reason = "a development command: it prints, and a broken checkout ends it"
)]

mod layers;
mod repository;
mod shape;

use std::process::ExitCode;

/// A rule: its name as a command, and the function that returns its findings for the packages named (all if none is).
type Rule = (&'static str, fn(&[String]) -> Vec<String>);

/// All rules, in the order in which `check` runs them.
const RULES: [Rule; 2] = [("layers", layers::check), ("shape", shape::check)];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (command, packages) = match arguments.split_first() {
        Some((command, packages)) => (command.as_str(), packages),
        None => ("", &[][..]),
    };
    let chosen: Vec<&Rule> = RULES
        .iter()
        .filter(|(name, _)| command == "check" || command == *name)
        .collect();
    if chosen.is_empty() {
        let names: Vec<_> = RULES.iter().map(|(name, _)| *name).collect();
        eprintln!(
            "usage: cargo xtask check | {} [PACKAGE…]",
            names.join(" | ")
        );
        return ExitCode::from(2);
    }
    let mut failed = false;
    for (name, rule) in chosen {
        let findings = rule(packages);
        println!("{name}: {} findings", findings.len());
        findings.iter().for_each(|finding| println!("{finding}"));
        failed |= !findings.is_empty();
    }
    ExitCode::from(u8::from(failed))
}
