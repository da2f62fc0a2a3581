//! A baseline: the findings of an earlier report, which a tree lives with for now.
//!
//! ```text
//! oxds api lint --format json > baseline.json       # once
//! oxds api lint --baseline baseline.json            # from then on: only what is new counts
//! ```
//!
//! What is in it is exempt and counted, never silent. It knows findings by fingerprint, so that lines
//! may move. An exception (`oxds-api.yaml`) is the better tool for a change that somebody decided;
//! a baseline is for the day on which a tree with a past adopts the rules.

use std::collections::HashSet;
use std::path::Path;

use serde::Deserialize;

use crate::exception::ConfigError;
use crate::finding::Finding;

/// The fingerprints of what an earlier report had.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Baseline {
    known: HashSet<String>,
}

#[derive(Deserialize)]
struct Document {
    findings: Vec<Line>,
}

#[derive(Deserialize)]
struct Line {
    fingerprint: String,
}

impl Baseline {
    /// Reads a report in form `json` or `jsonl`. `path` is for errors.
    ///
    /// # Errors
    /// With the line, when the text is neither.
    pub fn parse(path: &Path, text: &str) -> Result<Baseline, ConfigError> {
        let first = text.lines().next().unwrap_or_default();
        let known = match serde_json::from_str::<Line>(first) {
            Ok(_) => lines(path, text)?,
            Err(_) => {
                let document: Document = serde_json::from_str(text).map_err(|error| {
                    let line = error.line() as u64;
                    not_a_report(path, line, &error)
                })?;
                document.findings
            }
        };
        Ok(Baseline {
            known: known.into_iter().map(|line| line.fingerprint).collect(),
        })
    }

    /// Takes the findings that the earlier report had out of account.
    pub fn except(&self, findings: &mut [Finding]) {
        let counted = findings
            .iter_mut()
            .filter(|finding| finding.exempt.is_none());
        for finding in counted {
            if self.known.contains(&finding.fingerprint()) {
                finding.exempt = Some("in the baseline".to_owned());
            }
        }
    }
}

fn lines(path: &Path, text: &str) -> Result<Vec<Line>, ConfigError> {
    let lines = text
        .lines()
        .zip(1..)
        .filter(|(line, _)| !line.trim().is_empty());
    lines
        .map(|(line, number)| {
            serde_json::from_str(line).map_err(|error| not_a_report(path, number, &error))
        })
        .collect()
}

fn not_a_report(path: &Path, line: u64, error: &serde_json::Error) -> ConfigError {
    ConfigError {
        place: format!("{}:{line}", path.display()),
        why: format!("no report of `oxds api … --format json`: {error}"),
    }
}
