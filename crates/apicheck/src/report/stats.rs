//! Number of findings per rule, for teams that adopt the rules.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::findings::Report;
use crate::finding::Severity;

impl Report {
    /// Returns one line per rule with findings, the most frequent rule first. Exempt findings have
    /// their own column. The last line has the number of target files.
    #[must_use]
    pub fn stats(&self) -> String {
        let mut rules: BTreeMap<&str, [usize; 4]> = BTreeMap::new();
        for finding in self.findings() {
            let column = match (&finding.exempt, finding.severity) {
                (Some(_), _) => 3,
                (None, Severity::Error) => 0,
                (None, Severity::Warning) => 1,
                (None, Severity::Note) => 2,
            };
            rules.entry(finding.rule.id).or_default()[column] += 1;
        }
        let width = rules.keys().map(|id| id.len()).max().unwrap_or(0).max(4);
        let mut out = format!("{:width$}  error  warning  note  exempt\n", "rule");
        let mut rows: Vec<_> = rules.into_iter().collect();
        rows.sort_by_key(|(_, counts)| std::cmp::Reverse(*counts));
        for (rule, [error, warning, note, exempt]) in rows {
            let _ = writeln!(
                out,
                "{rule:width$}  {error:5}  {warning:7}  {note:4}  {exempt:6}"
            );
        }
        let _ = writeln!(out, "{} files checked", self.files);
        out
    }
}
