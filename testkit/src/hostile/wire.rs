//! Bytes that an HTTP/2 library would not write.

use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::SOON;

/// The connection preface of HTTP/2 (RFC 9113, 3.4), and an empty SETTINGS frame.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// Type of SETTINGS frames. Only an acknowledgement has no payload, if the server has settings of its own.
const SETTINGS: u8 = 4;
/// Type of PING frames.
const PING: u8 = 6;
/// Type of GOAWAY frames.
const GOAWAY: u8 = 7;

/// A connection on which the test writes any bytes.
#[derive(Debug)]
pub struct Wire(TcpStream);

/// Returns an HTTP/2 frame with this header (RFC 9113, 4.1).
///
/// # Panics
/// If the payload has 4 GiB or more.
#[must_use]
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    let mut bytes = length[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

impl Wire {
    /// Connects without sending anything.
    ///
    /// # Errors
    /// When no process listens.
    pub async fn connect(server: SocketAddr) -> io::Result<Self> {
        TcpStream::connect(server).await.map(Self)
    }

    /// Sends the HTTP/2 preface.
    ///
    /// # Errors
    /// When the connection has ended.
    pub async fn greet(&mut self) -> io::Result<()> {
        self.send(PREFACE).await
    }

    /// Waits until the server has read the preface: it acknowledges the settings in it. A server that closes a
    /// connection with unread bytes resets it, and its last frames are lost.
    ///
    /// # Errors
    /// As [`goaway`](Self::goaway).
    pub async fn settled(&mut self) -> io::Result<()> {
        let acknowledged =
            |(kind, payload): &(u8, Vec<u8>)| *kind == SETTINGS && payload.is_empty();
        self.find(|frame| acknowledged(frame).then_some(())).await
    }

    /// Writes bytes to the socket.
    ///
    /// # Errors
    /// When the connection has ended.
    pub async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes).await
    }

    /// Waits until the server closes the connection. Returns the error code of its GOAWAY, if it sent one.
    ///
    /// # Errors
    /// When the server does not close it before the deadline.
    pub async fn closed(mut self) -> io::Result<Option<u32>> {
        let reading = async {
            let mut goaway = None;
            while let Ok(frame) = self.frame().await {
                goaway = error_code(&frame).or(goaway);
            }
            goaway
        };
        Ok(timeout(SOON, reading).await?)
    }

    /// Waits for GOAWAY and returns its error code.
    ///
    /// # Errors
    /// When the connection ends without one, or the deadline passes.
    pub async fn goaway(&mut self) -> io::Result<u32> {
        self.find(error_code).await
    }

    /// Waits for a PING, and does not answer it.
    ///
    /// # Errors
    /// As [`goaway`](Self::goaway).
    pub async fn pinged(&mut self) -> io::Result<()> {
        self.find(|(kind, _)| (*kind == PING).then_some(())).await
    }

    /// Reads frames until `what` returns a value for one.
    async fn find<T>(&mut self, what: impl Fn(&(u8, Vec<u8>)) -> Option<T>) -> io::Result<T> {
        let reading = async {
            loop {
                if let Some(found) = what(&self.frame().await?) {
                    return Ok(found);
                }
            }
        };
        timeout(SOON, reading).await?
    }

    async fn frame(&mut self) -> io::Result<(u8, Vec<u8>)> {
        let mut head = [0; 9];
        self.0.read_exact(&mut head).await?;
        let [a, b, c, kind, ..] = head;
        let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
        self.0.read_exact(&mut payload).await?;
        Ok((kind, payload))
    }
}

/// Error code of a GOAWAY frame.
fn error_code((kind, payload): &(u8, Vec<u8>)) -> Option<u32> {
    let code = payload.get(4..)?.first_chunk()?;
    (*kind == GOAWAY).then(|| u32::from_be_bytes(*code))
}
