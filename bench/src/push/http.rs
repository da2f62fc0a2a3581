//! Requests to the HTTP port of our server.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Response to a request.
#[derive(Debug)]
pub(super) struct Fetched {
    /// From the request to the first byte.
    pub(super) first_byte: Duration,
    /// Head and body.
    pub(super) text: String,
}

impl Fetched {
    /// Returns the response if its status is 200.
    pub(super) fn ok(self) -> Result<Self, String> {
        if self.text.starts_with("HTTP/1.1 200 ") {
            Ok(self)
        } else {
            Err(self.text.lines().next().unwrap_or_default().to_owned())
        }
    }
}

/// Requests a page over a connection of its own.
pub(super) fn get(address: &str, path: &str) -> Result<Fetched, String> {
    fetch(address, path).map_err(|error| format!("http://{address}{path}: {error}"))
}

fn fetch(address: &str, path: &str) -> std::io::Result<Fetched> {
    let mut stream = TcpStream::connect(address)?;
    let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    let start = Instant::now();
    stream.write_all(request.as_bytes())?;
    let mut bytes = vec![0; 1];
    stream.read_exact(&mut bytes)?;
    let first_byte = start.elapsed();
    stream.read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    Ok(Fetched { first_byte, text })
}
