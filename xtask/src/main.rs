//! The repository's own rules, which no compiler knows.
//!
//! ```text
//! cargo xtask check                the rules that hold for every commit
//! cargo xtask layers net core      one rule, here for two packages
//! cargo xtask conformance --write  writes the pages that are made from code
//! ```
//!
//! A rule prints its findings, a line each, and the command ends with exit code 1 if there are any.
#![allow(
    clippy::print_stderr,
    clippy::expect_used,
    clippy::panic,
    reason = "a development command: it prints, and a broken checkout ends it"
)]

mod conformance;
mod dependencies;
mod faces;
mod layers;
mod lines;
mod links;
mod observability;
mod repository;
mod shape;
mod signatures;
mod words;

use std::io::Write as _;
use std::process::ExitCode;

/// A rule of the repository.
struct Rule {
    /// Name of the rule as a command.
    name: &'static str,
    /// Whether `check` runs it.
    is_checked: bool,
    /// Returns its findings.
    run: fn(&Arguments) -> Vec<String>,
}

/// Arguments of a rule.
#[derive(Debug)]
struct Arguments {
    /// Packages to look at, by the names of their folders; empty for all. Rules about the whole repository ignore it.
    packages: Vec<String>,
    /// Whether to write pages that are made from code, instead of comparing them.
    write: bool,
}

/// All rules, in the order in which `check` runs them.
const RULES: [Rule; 10] = [
    rule("layers", |a| layers::check(&a.packages)),
    rule("shape", |a| shape::check(&a.packages)),
    rule("words", |_| words::check()),
    rule("lines", |_| lines::check()),
    rule("faces", |_| faces::check()),
    rule("links", |_| links::check()),
    rule("conformance", |a| conformance::check(a.write)),
    rule("dependencies", |_| dependencies::check()),
    rule("observability", |_| observability::check()),
    Rule {
        // It compiles the crates; `.ci/run api` runs it.
        is_checked: false,
        ..rule("signatures", |_| signatures::check())
    },
];

const fn rule(name: &'static str, run: fn(&Arguments) -> Vec<String>) -> Rule {
    Rule {
        name,
        is_checked: true,
        run,
    }
}

fn main() -> ExitCode {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    let written = words.extract_if(.., |word| word == "--write").count();
    let command = if words.is_empty() {
        String::new()
    } else {
        words.remove(0)
    };
    let arguments = Arguments {
        packages: words,
        write: written > 0,
    };
    let chosen = RULES.iter().filter(|rule| match command.as_str() {
        "check" => rule.is_checked,
        name => rule.name == name,
    });
    let chosen: Vec<_> = chosen.collect();
    if chosen.is_empty() {
        let names: Vec<_> = RULES.iter().map(|rule| rule.name).collect();
        eprintln!(
            "usage: cargo xtask check | {} [--write] [PACKAGE…]",
            names.join(" | ")
        );
        return ExitCode::from(2);
    }
    let mut failed = false;
    for rule in chosen {
        let findings = (rule.run)(&arguments);
        let mut report = format!("{}: {} findings\n", rule.name, findings.len());
        report.extend(findings.iter().map(|finding| format!("{finding}\n")));
        // A reader such as `head` may have closed the output.
        let _ = std::io::stdout().write_all(report.as_bytes());
        failed |= !findings.is_empty();
    }
    ExitCode::from(u8::from(failed))
}
