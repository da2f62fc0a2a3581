//! Counters of our server, read from its `/metrics`.

use std::ops::Sub;

use super::http::get;

/// Counts of the expensive operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Counts {
    /// Sessions woken by changes.
    pub(super) wakeups: u64,
    /// Shared bodies encoded.
    pub(super) encodes: u64,
    /// Resources hashed.
    pub(super) hashes: u64,
}

impl Counts {
    /// Scrapes the HTTP port at this address.
    pub(super) fn read(address: &str) -> Result<Self, String> {
        let text = page(address, "/metrics")?;
        Ok(Self {
            wakeups: counter(&text, "oxds_wakeups_total")?,
            encodes: counter(&text, "oxds_encodes_total")?,
            hashes: counter(&text, "oxds_hashes_total")?,
        })
    }
}

impl Sub for Counts {
    type Output = Self;

    /// Difference of two readings.
    fn sub(self, earlier: Self) -> Self {
        Self {
            wakeups: self.wakeups - earlier.wakeups,
            encodes: self.encodes - earlier.encodes,
            hashes: self.hashes - earlier.hashes,
        }
    }
}

/// Returns the value of a metric without labels of the server with this HTTP port.
pub(super) fn value(address: &str, name: &str) -> Result<u64, String> {
    counter(&page(address, "/metrics")?, name)
}

fn counter(text: &str, name: &str) -> Result<u64, String> {
    let mut rows = text.lines().filter_map(|line| line.split_once(' '));
    let row = rows.rfind(|(found, _)| *found == name);
    row.and_then(|(_, value)| value.parse().ok())
        .ok_or_else(|| format!("/metrics has no {name}"))
}

/// Fetches a page of the HTTP port at this address, with its head.
pub(super) fn page(address: &str, path: &str) -> Result<String, String> {
    Ok(get(address, path)?.text)
}
