//! The table: a line per comparison, printed as soon as it is known.

#![allow(clippy::print_stdout, reason = "the table is this program's output")]

use std::time::Duration;

/// One comparison of a scenario.
#[derive(Debug)]
pub(crate) struct Row<'a> {
    /// The scenario's id in `docs/benchmarks.md`, such as `R-1`.
    pub(crate) id: &'a str,
    /// Measured quantity, with its unit.
    pub(crate) what: &'a str,
    /// Our figure.
    pub(crate) ours: f64,
    /// The peer's name and figure.
    pub(crate) peer: (&'a str, f64),
    /// Target ratio ours/peer.
    pub(crate) target: Target,
}

/// Target for a ratio.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Target {
    /// At most this ratio.
    AtMost(f64),
    /// Reported for comparison only.
    None,
}

/// Prints rows under one header.
#[derive(Debug, Default)]
pub(crate) struct Table {
    started: bool,
}

impl Table {
    /// Prints one comparison.
    pub(crate) fn row(&mut self, row: &Row<'_>) {
        self.header();
        let ratio = row.ours / row.peer.1;
        let verdict = match row.target {
            Target::AtMost(most) if ratio <= most => format!("<= {most} met"),
            Target::AtMost(most) => format!("<= {most} MISSED"),
            Target::None => "-".to_owned(),
        };
        println!(
            "{:<5} {:<44} {:>12.2} {:>12.2}  {:<14} {:>7.3}  {verdict}",
            row.id, row.what, row.ours, row.peer.1, row.peer.0, ratio
        );
    }

    fn header(&mut self) {
        if !std::mem::replace(&mut self.started, true) {
            println!(
                "{:<5} {:<44} {:>12} {:>12}  {:<14} {:>7}  target",
                "id", "what", "oxds", "peer", "peer name", "ratio"
            );
        }
    }

    /// Prints a figure of ours that has an absolute bound.
    pub(crate) fn limit(&mut self, id: &str, what: &str, ours: f64, at_most: f64) {
        self.header();
        let verdict = if ours <= at_most { "met" } else { "MISSED" };
        println!(
            "{id:<5} {what:<44} {ours:>12.2} {:>12}  {:<14} {:>7}  <= {at_most} {verdict}",
            "", "", ""
        );
    }

    /// Prints a note below the last row.
    pub(crate) fn note(&mut self, text: &str) {
        println!("      {text}");
    }
}

/// The duration below which this part of the sorted durations lies, in microseconds.
pub(crate) fn percentile_micros(sorted: &[Duration], part: f64) -> f64 {
    let index = (sorted.len() as f64 * part) as usize;
    let last = sorted.len().saturating_sub(1);
    sorted
        .get(index.min(last))
        .map_or(f64::NAN, |duration| duration.as_secs_f64() * 1e6)
}

/// The median of some figures; they are few, and none is NaN.
pub(crate) fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(f64::NAN)
}
