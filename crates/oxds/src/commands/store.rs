//! What a control plane's status page says of its store.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::control_plane::StatusPage;

/// What is wrong with what is served from.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Store {
    #[serde(default)]
    pub(crate) findings: Vec<Finding>,
}

/// One mistake, and where.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Finding {
    pub(crate) severity: String,
    pub(crate) file: String,
    pub(crate) line: Option<u32>,
    pub(crate) column: Option<u32>,
    /// The resource it is in, where that is known.
    pub(crate) resource: Option<String>,
    pub(crate) path: String,
    pub(crate) message: String,
}

impl Store {
    /// As a status page tells it; nothing, if it tells nothing of that.
    pub(crate) fn of(page: &StatusPage) -> Self {
        #[derive(Deserialize)]
        struct Page {
            store: Store,
        }
        serde_json::from_slice::<Page>(&page.body)
            .map_or_else(|_| Self::default(), |page| page.store)
    }

    /// What keeps files from being served.
    pub(crate) fn errors(&self) -> impl Iterator<Item = &Finding> {
        let findings = self.findings.iter();
        findings.filter(|finding| finding.severity == "error")
    }
}

/// One line that editors understand: `file:line:column: error: path: message`.
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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
    fn a_finding_is_one_line_with_its_place() {
        let mut finding = Finding {
            severity: "error".into(),
            file: "a.yaml".into(),
            line: Some(4),
            column: Some(1),
            resource: None,
            path: "lb_polizy".into(),
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
