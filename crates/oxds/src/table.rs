//! Text tables for people.

use std::fmt::Write as _;

use oxds_types::text;
use terminal_size::{Width, terminal_size};

/// Makes untrusted text safe for one line of a terminal: white space and line breaks become single spaces, and
/// characters that are not shown as themselves are escaped.
pub(crate) fn one_line(text: &str) -> String {
    let words: Vec<_> = text.split_whitespace().collect();
    text::line(&words.join(" ")).into_owned()
}

/// Formats a duration with about two digits: `0.4s`, `12s`, `3m`, `5h`, `9d`.
pub(crate) fn ago(seconds: f64) -> String {
    match seconds {
        ..10.0 => format!("{seconds:.1}s"),
        ..120.0 => format!("{seconds:.0}s"),
        ..7200.0 => format!("{:.0}m", seconds / 60.0),
        ..172_800.0 => format!("{:.0}h", seconds / 3600.0),
        _ => format!("{:.0}d", seconds / 86_400.0),
    }
}

/// Rows below a head, in columns as wide as their widest cell. The last column is not padded.
#[derive(Debug)]
pub(crate) struct Table<const N: usize> {
    rows: Vec<[String; N]>,
}

impl<const N: usize> Table<N> {
    pub(crate) fn new(head: [&str; N]) -> Self {
        Self {
            rows: vec![head.map(str::to_owned)],
        }
    }

    /// Adds a row. Cells pass through [`one_line`]; an empty cell becomes a dash.
    pub(crate) fn row(&mut self, cells: [String; N]) {
        self.rows.push(cells.map(|cell| match one_line(&cell) {
            cell if cell.is_empty() => "-".to_owned(),
            cell => cell,
        }));
    }

    /// Returns the rows. If stdout is a terminal, each row is cut at its width.
    pub(crate) fn text(&self) -> String {
        self.text_in(terminal_size().map(|(Width(columns), _)| usize::from(columns)))
    }

    fn text_in(&self, columns: Option<usize>) -> String {
        let mut widths = [0; N];
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        let mut text = String::new();
        for row in &self.rows {
            let cells = row.iter().zip(widths);
            let padded: Vec<_> = cells
                .map(|(cell, width)| format!("{cell:width$}"))
                .collect();
            let line: String = padded
                .join("  ")
                .trim_end()
                .chars()
                .take(columns.unwrap_or(usize::MAX))
                .collect();
            // Writing to a string does not fail.
            let _ = writeln!(text, "{line}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_fit_their_widest_cell() {
        let mut table = Table::new(["NODE", "REASON"]);
        table.row(["edge-1".into(), "no such\n policy".into()]);
        table.row(["e".into(), String::new()]);
        assert_eq!(
            table.text_in(None),
            "NODE    REASON\nedge-1  no such policy\ne       -\n"
        );
        assert_eq!(
            table.text_in(Some(10)),
            "NODE    RE\nedge-1  no\ne       -\n"
        );
    }
}
