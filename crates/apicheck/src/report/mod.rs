//! Findings in formats for people and programs.
//!
//! | format | purpose |
//! |---|---|
//! | text | people: one line for editors and `grep`, then the old and the new text |
//! | json, jsonl | programs; stable: fields are added, never renamed |
//! | sarif | code scanning (SARIF 2.1.0) |
//! | github | annotations of GitHub Actions |
//! | gitlab | GitLab code quality |
//! | junit | test reports |
//!
//! The order is stable: errors first, then by location.

mod findings;
mod github;
mod gitlab;
mod json;
mod junit;
mod plain;
mod sarif;
mod stats;
mod text;

pub use findings::Report;
pub use plain::plain;
pub use text::Style;

/// Format of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(missing_docs, reason = "the variants are the names of the formats")]
#[non_exhaustive]
pub enum Format {
    #[default]
    Text,
    Json,
    Jsonl,
    Sarif,
    Github,
    Gitlab,
    Junit,
}

impl Report {
    /// Renders the report. `style` only affects text.
    #[must_use]
    pub fn render(&self, format: Format, style: Style) -> String {
        match format {
            Format::Text => text::render(self, style),
            Format::Json => json::document(self),
            Format::Jsonl => json::lines(self),
            Format::Sarif => sarif::render(self),
            Format::Github => github::render(self),
            Format::Gitlab => gitlab::render(self),
            Format::Junit => junit::render(self),
        }
    }
}
