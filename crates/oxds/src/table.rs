//! Tables of text, for people.

use std::fmt::Write as _;

use terminal_size::{Width, terminal_size};

/// What others said, as a part of one line: line breaks become spaces, and what a terminal would obey is only shown.
pub(crate) fn one_line(text: &str) -> String {
    let words: Vec<_> = text.split_whitespace().collect();
    let shown = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    words.join(" ").chars().map(shown).collect()
}

/// Rows under a head, in columns as wide as their widest cell. The last column is as long as it is.
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

    /// Adds a row, of cells in [`one_line`]; an empty one becomes a dash.
    pub(crate) fn row(&mut self, cells: [String; N]) {
        self.rows.push(cells.map(|cell| match one_line(&cell) {
            cell if cell.is_empty() => "-".to_owned(),
            cell => cell,
        }));
    }

    /// The rows, each cut at the terminal's width where stdout is one.
    pub(crate) fn text(&self) -> String {
        self.in_width(terminal_size().map(|(Width(columns), _)| usize::from(columns)))
    }

    fn in_width(&self, columns: Option<usize>) -> String {
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
    fn columns_are_as_wide_as_they_must_be() {
        let mut table = Table::new(["NODE", "REASON"]);
        table.row(["edge-1".into(), "no such\n policy".into()]);
        table.row(["e".into(), String::new()]);
        assert_eq!(
            table.in_width(None),
            "NODE    REASON\nedge-1  no such policy\ne       -\n"
        );
        assert_eq!(
            table.in_width(Some(10)),
            "NODE    RE\nedge-1  no\ne       -\n"
        );
    }
}
