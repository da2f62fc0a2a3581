//! Baselines: the findings of an earlier report, which do not count.
//!
//! ```text
//! oxds api lint --format json > baseline.json       # once
//! oxds api lint --baseline baseline.json            # later: only new findings count
//! ```
//!
//! Findings in the baseline are exempt and still counted in the summary. They are matched by
//! fingerprint, so lines may move. Use an exception (`oxds-api.yaml`) for a single deliberate
//! change, and a baseline when an existing tree adopts the rules.

use std::collections::HashSet;
use std::path::Path;

use serde::Deserialize;

use crate::config_file::ConfigError;
use crate::finding::Finding;

/// Fingerprints of the findings of an earlier report.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Baseline {
    known: HashSet<String>,
}

#[derive(Deserialize)]
struct BaselineReport {
    findings: Vec<BaselineFinding>,
}

#[derive(Deserialize)]
struct BaselineFinding {
    fingerprint: String,
}

impl Baseline {
    /// Parses a report in the format `json` or `jsonl`. `path` is used in errors.
    ///
    /// # Errors
    /// Fails, with the line, if the text has neither format.
    pub fn parse(path: &Path, text: &str) -> Result<Baseline, ConfigError> {
        let first = text.lines().next().unwrap_or_default();
        let known = match serde_json::from_str::<BaselineFinding>(first) {
            Ok(_) => lines(path, text)?,
            Err(_) => {
                let document: BaselineReport = serde_json::from_str(text).map_err(|error| {
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

    /// Exempts the findings of the earlier report.
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

fn lines(path: &Path, text: &str) -> Result<Vec<BaselineFinding>, ConfigError> {
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
        why: format!(
            "malformed baseline: expected the output of `oxds api … --format json`: {error}"
        ),
    }
}
