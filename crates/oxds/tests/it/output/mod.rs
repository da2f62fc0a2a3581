//! Snapshots of the help and of typical outputs of every command, so that a change of words is a diff.
//!
//! `INSTA_UPDATE=always cargo test -p oxds --test it output` writes `tests/it/snapshots/`; the diff is what to review.
//! A snapshot is named after its command, such as `route_test.json`: the words of the command, then what is special.

mod api;
#[cfg(feature = "etcd")]
mod etcd;
mod files;
mod help;
mod served;

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use regex::{Captures, Regex};

use crate::support::{Ran, command, folder};

/// A folder in which commands run, and the texts that differ from run to run.
struct Work {
    dir: tempfile::TempDir,
    /// Texts, such as addresses, and what the snapshot has in their place.
    replaced: Vec<(String, &'static str)>,
}

impl Work {
    fn new(files: &[(&str, &str)]) -> Self {
        let dir = folder(files);
        let path = dir.path().display().to_string();
        Self {
            dir,
            replaced: vec![(path, "[DIR]")],
        }
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path().join(name);
        fs::create_dir_all(path.parent().expect("below the folder")).expect("a folder");
        fs::write(path, text).expect("a file");
    }

    /// Has snapshots show `shown` in place of a text.
    fn replace(&mut self, text: &impl ToString, shown: &'static str) {
        self.replaced.push((text.to_string(), shown));
    }

    /// Runs a command line without quotes in the folder.
    fn run(&self, line: &str) -> Ran {
        let mut command = command(line.split(' '));
        let command = command.current_dir(self.path()).env("TZ", "UTC");
        command.output().expect("the binary runs").into()
    }

    /// Runs a command line, and compares its output with a snapshot.
    #[track_caller]
    fn snapshot(&self, name: &str, line: &str) {
        let ran = self.run(line);
        self.compare(name, line, &ran);
    }

    /// Compares the outcome of a command line with a snapshot.
    #[track_caller]
    fn compare(&self, name: &str, line: &str, ran: &Ran) {
        let code = ran.code.map_or("none".to_owned(), |code| code.to_string());
        let mut text = format!("$ oxds {line}\n{}", ran.stdout);
        if !ran.stderr.is_empty() {
            text += &format!("\n--- stderr\n{}", ran.stderr);
        }
        text += &format!("\n--- exit code {code}\n");
        for (found, shown) in &self.replaced {
            text = text.replace(found, shown);
        }
        assert_snapshot(name, &redacted(&text));
    }
}

/// Compares a text with the snapshot of this name.
#[track_caller]
fn assert_snapshot(name: &str, text: &str) {
    let mut settings = insta::Settings::new();
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.set_snapshot_path(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/snapshots"));
    settings.bind(|| insta::assert_snapshot!(name, text));
}

/// Replaces ports that the system chose, times and durations.
fn redacted(text: &str) -> String {
    static PATTERNS: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
        let pattern = |text, shown| (Regex::new(text).expect("a pattern"), shown);
        vec![
            pattern(r"\d{4}-\d\d-\d\dT[0-9:.]+(Z|\+00:00)", "[TIME]"),
            pattern(r"\b\d+(\.\d+)?(ms|µs|us|s|m|h|d) ago", "[DURATION] ago"),
            pattern(r"\bin \d+(\.\d+)?(ms|µs|us|s)\b", "in [DURATION]"),
            pattern(
                r#"("?\w*seconds(_ago)?"?:) \d+(\.\d+)?(e-?\d+)?"#,
                "$1 [DURATION]",
            ),
            pattern(r"  \d+(\.\d+)?(ms|s|m)  +", "  [DURATION]  "),
            pattern(r"\btook=[0-9.]+(ns|µs|ms|s)", "took=[DURATION]"),
            pattern(r"\b\d+\.\d\d ms", "[DURATION]"),
            pattern(
                r"\bin [0-9.]+ m?s, \d+ per second",
                "in [DURATION], [RATE] per second",
            ),
            pattern(r"(?m)^\d\d:\d\d:\d\d\.\d+", "[TIME]"),
            // Ids of publishes, and who made them.
            pattern(r"\b[0-9a-f]{32}\b", "[ID]"),
            pattern(r"\bby [a-z0-9_.-]+@[A-Za-z0-9_.-]+", "by [USER]"),
        ]
    });
    // Linux chooses ports from 32768 on.
    static PORT: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"127\.0\.0\.1:(\d{5})").expect("a pattern"));
    let ports = PORT.replace_all(text, |found: &Captures<'_>| match found[1].parse::<u32>() {
        Ok(port) if port >= 32_768 => "127.0.0.1:[PORT]".to_owned(),
        _ => found[0].to_owned(),
    });
    let shown = PATTERNS
        .iter()
        .fold(ports.into_owned(), |text, (pattern, shown)| {
            pattern.replace_all(&text, *shown).into_owned()
        });
    let lines: Vec<_> = shown.lines().map(str::trim_end).collect();
    lines.join("\n")
}
