//! The page of metrics, in the format that the reader asks for.

use std::fmt;

use http::header::{self, HeaderMap};
use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;

use super::plain::plain;

const OPEN_METRICS: &str = "application/openmetrics-text";

/// The page of metrics, with its media type.
#[derive(Debug)]
pub(crate) struct MetricsPage {
    pub(crate) content_type: &'static str,
    pub(crate) text: String,
}

/// Writes a registry in the text format of OpenMetrics if the reader asks for it (header `accept`), as Prometheus does,
/// or else in the older one, which every tool reads.
///
/// # Errors
/// A metric cannot be written.
pub(crate) fn render(registry: &Registry, headers: &HeaderMap) -> Result<MetricsPage, fmt::Error> {
    let mut text = String::new();
    text::encode(&mut text, registry)?;
    Ok(if accepts_open_metrics(headers) {
        MetricsPage {
            content_type: "application/openmetrics-text; version=1.0.0; charset=utf-8",
            text,
        }
    } else {
        MetricsPage {
            content_type: "text/plain; version=0.0.4; charset=utf-8",
            text: plain(&text),
        }
    })
}

/// Whether a reader names the format, and does not exclude it by `q=0`.
fn accepts_open_metrics(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::ACCEPT).into_iter();
    let values = values.filter_map(|value| value.to_str().ok());
    let mut ranges = values.flat_map(|value| value.split(','));
    ranges.any(|range| {
        let mut parts = range.split(';').map(str::trim);
        let is_named = parts
            .next()
            .is_some_and(|media| media.eq_ignore_ascii_case(OPEN_METRICS));
        let quality = parts.find_map(|part| part.strip_prefix("q="));
        let is_excluded = quality.is_some_and(|q| q.parse::<f32>().is_ok_and(|q| q <= 0.0));
        is_named && !is_excluded
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_metrics_is_for_those_who_ask() {
        let accepts = |accept: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, accept.parse().unwrap());
            accepts_open_metrics(&headers)
        };
        assert!(!accepts_open_metrics(&HeaderMap::new()));
        // Prometheus 3.
        assert!(accepts(
            "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
        ));
        assert!(accepts("text/plain, Application/OpenMetrics-Text"));
        for other in [
            "*/*",
            "text/plain;version=0.0.4",
            "application/openmetrics-text;q=0",
            "",
        ] {
            assert!(!accepts(other), "{other}");
        }
    }
}
