//! Text output for people.

use std::fmt::Write as _;

use annotate_snippets::renderer::DecorStyle;
use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};

use super::findings::{Report, place, sentence, severity_word};
use super::plain::{plain, plain_source};
use crate::finding::{Finding, Location};
use crate::model::Span;

/// Style of text output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Style {
    /// Whether to use colours and Unicode line drawing.
    pub terminal: bool,
    /// Whether to show the old and the new text.
    pub snippets: bool,
}

/// Renders the report. Exempt findings only appear in the summary.
pub(super) fn render(report: &Report, style: Style) -> String {
    let mut out = String::new();
    for finding in report.counted() {
        let _ = writeln!(out, "{}", plain(&first_line(finding)));
        if style.snippets {
            snippets(report, finding, style, &mut out);
        }
        if let Some(fix) = &finding.fix {
            let _ = writeln!(out, "  fix: {}", plain(fix));
        }
    }
    let _ = writeln!(out, "{}", plain(&report.summary()));
    out
}

/// Formats the first line: `path:line:column: error[RULE] element: message`.
fn first_line(finding: &Finding) -> String {
    let place = place(finding).map_or_else(|| finding.element.clone(), ToString::to_string);
    format!(
        "{place}: {}[{}] {}: {}",
        severity_word(finding.severity),
        finding.rule.id,
        finding.element,
        sentence(finding)
    )
}

fn snippets(report: &Report, finding: &Finding, style: Style, out: &mut String) {
    let sides = [
        (&finding.old, &report.old_texts, "was"),
        (&finding.new, &report.new_texts, "is"),
    ];
    let both = finding.old.is_some() && finding.new.is_some();
    for (location, texts, word) in sides {
        let Some(location) = location else { continue };
        let Some(text) = texts.get(&location.path) else {
            continue;
        };
        let word = if both { word } else { "here" };
        if let Some(snippet) = snippet(text, location, word, style) {
            out.push_str(&snippet);
        }
    }
}

fn snippet(text: &str, location: &Location, word: &str, style: Style) -> Option<String> {
    let text = &*plain_source(text);
    let path = &*plain(&location.path);
    let span = first_line_of(location.span?, text);
    let (start, end) = (offset(text, span.0), offset(text, span.1));
    let renderer = if style.terminal {
        Renderer::styled().decor_style(DecorStyle::Unicode)
    } else {
        Renderer::plain()
    };
    let annotation = AnnotationKind::Primary.span(start..end).label(word);
    let snippet = Snippet::source(text).path(path).annotation(annotation);
    // A group with a title would repeat our first line.
    let group = Group::with_level(Level::ERROR).element(snippet);
    Some(renderer.render(&[group]) + "\n")
}

/// Restricts a declaration of several lines to its first line.
fn first_line_of(span: Span, text: &str) -> ((u32, u32), (u32, u32)) {
    let start = (span.line, span.column);
    if span.line == span.end_line {
        return (start, (span.end_line, span.end_column));
    }
    let line = text.lines().nth(span.line as usize - 1).unwrap_or_default();
    (start, (span.line, line.chars().count() as u32 + 1))
}

/// Returns the byte offset of a line and column.
fn offset(text: &str, (line, column): (u32, u32)) -> usize {
    let before: usize = text
        .split_inclusive('\n')
        .take(line.saturating_sub(1) as usize)
        .map(str::len)
        .sum();
    let rest = text.get(before..).unwrap_or_default();
    let character = rest.char_indices().nth(column.saturating_sub(1) as usize);
    before + character.map_or(rest.len(), |(index, _)| index)
}
