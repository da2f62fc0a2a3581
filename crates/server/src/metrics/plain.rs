//! The older text format of Prometheus (version 0.0.4), for readers that do not ask for OpenMetrics.
//!
//! It has the same samples. A counter is declared with the name of its samples, `…_total`; there are no units, and no
//! end mark.

use std::fmt::Write as _;

/// Rewrites a page of OpenMetrics that has counters, gauges and histograms.
pub(super) fn plain(page: &str) -> String {
    let mut plain = String::with_capacity(page.len());
    // The help comes before the type, which decides about the name of both.
    let mut help = None;
    for line in page.lines() {
        let words: Vec<_> = line.splitn(4, ' ').collect();
        // Writing to a string cannot fail.
        let _ = match words[..] {
            ["#", "HELP", name, text] => {
                help = Some((name, text));
                Ok(())
            }
            ["#", "TYPE", name, sort] => {
                let suffix = if sort == "counter" { "_total" } else { "" };
                if let Some((_, text)) = help.take_if(|(of, _)| *of == name) {
                    let _ = writeln!(plain, "# HELP {name}{suffix} {text}");
                }
                writeln!(plain, "# TYPE {name}{suffix} {sort}")
            }
            ["#", ..] => Ok(()),
            _ => writeln!(plain, "{line}"),
        };
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_declared_as_their_samples() {
        let page = "# HELP oxds_acks Responses accepted.\n# TYPE oxds_acks counter\noxds_acks_total{resource_type=\"cds\"} 1\n\
            # HELP oxds_time_seconds Time.\n# TYPE oxds_time_seconds gauge\n# UNIT oxds_time_seconds seconds\noxds_time_seconds 0.5\n# EOF\n";
        let expected = "# HELP oxds_acks_total Responses accepted.\n# TYPE oxds_acks_total counter\noxds_acks_total{resource_type=\"cds\"} 1\n\
            # HELP oxds_time_seconds Time.\n# TYPE oxds_time_seconds gauge\noxds_time_seconds 0.5\n";
        assert_eq!(plain(page), expected);
    }
}
