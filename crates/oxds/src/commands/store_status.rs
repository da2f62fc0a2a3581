//! State of a control plane's store, from its status page.

use std::fmt::{self, Write as _};

use oxds_types::text::Escaping;
use serde::{Deserialize, Serialize};

use super::control_plane::StatusPage;

/// Findings in the files that a control plane serves.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct StoreStatus {
    #[serde(default)]
    pub(crate) findings: Vec<StoreFinding>,
    /// The state of an earlier process, while that is served because the store is away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) stale: Option<StaleState>,
}

/// The last good state of an earlier process.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct StaleState {
    /// Time since its latest change was saved.
    pub(crate) age_seconds: f64,
}

/// One finding, with its place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct StoreFinding {
    pub(crate) severity: String,
    pub(crate) file: String,
    pub(crate) line: Option<u32>,
    pub(crate) column: Option<u32>,
    /// Name of the resource, if it is known.
    pub(crate) resource: Option<String>,
    pub(crate) path: String,
    /// Identifier of the rule; empty if the control plane does not report it.
    #[serde(default)]
    pub(crate) rule: String,
    pub(crate) message: String,
}

impl StoreStatus {
    /// Reads the store from a status page. Returns no findings if the page has none.
    pub(crate) fn of(page: &StatusPage) -> Self {
        #[derive(Deserialize)]
        struct Page {
            store: StoreStatus,
        }
        serde_json::from_slice::<Page>(&page.body)
            .map_or_else(|_| Self::default(), |page| page.store)
    }

    /// Returns the findings that keep a file from being served.
    pub(crate) fn errors(&self) -> impl Iterator<Item = &StoreFinding> {
        let findings = self.findings.iter();
        findings.filter(|finding| finding.severity == "error")
    }

    /// Returns the findings about content that is not served: errors, and files that are still being written.
    pub(crate) fn not_served(&self) -> impl Iterator<Item = &StoreFinding> {
        let findings = self.findings.iter();
        findings.filter(|finding| finding.severity == "error" || finding.rule == "waiting")
    }
}

/// Prints one line in the format that editors parse: `file:line:column: error: path: message`.
impl fmt::Display for StoreFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut f = Escaping::line(f);
        write!(f, "{}:", self.file)?;
        for number in [self.line, self.column].into_iter().flatten() {
            write!(f, "{number}:")?;
        }
        write!(f, " {}: ", self.severity)?;
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finding_is_one_line_with_its_place() {
        let mut finding = StoreFinding {
            severity: "error".into(),
            file: "a.yaml".into(),
            line: Some(4),
            column: Some(1),
            resource: None,
            path: "lb_polizy".into(),
            rule: "unknown-field".into(),
            message: "unknown field".into(),
        };
        assert_eq!(
            finding.to_string(),
            "a.yaml:4:1: error: lb_polizy: unknown field"
        );
        (finding.line, finding.column) = (None, None);
        finding.path.clear();
        assert_eq!(finding.to_string(), "a.yaml: error: unknown field");
    }
}
