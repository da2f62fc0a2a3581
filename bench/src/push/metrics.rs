//! Counters of our server, read from its `/metrics`.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::ops::Sub;

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
        let text = get(address).map_err(|error| format!("{address}: {error}"))?;
        let counter = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|value| value.trim().parse().ok())
                .ok_or_else(|| format!("/metrics has no {name}"))
        };
        Ok(Self {
            wakeups: counter("oxds_wakeups_total ")?,
            encodes: counter("oxds_encodes_total ")?,
            hashes: counter("oxds_hashes_total ")?,
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

fn get(address: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    let request = format!("GET /metrics HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}
