//! Connections that end after their handshake.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::HandshakeKind;
use tokio_rustls::rustls::client::Resumption;
use tokio_rustls::rustls::pki_types::ServerName;

/// Time until the server must serve, and the pause between attempts.
const TIMEOUT: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(20);

/// The preface of HTTP/2, and an empty SETTINGS frame (RFC 9113, section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// A client that connects again and again.
pub(super) struct Load<'a> {
    runtime: Runtime,
    connector: TlsConnector,
    address: &'a str,
}

impl<'a> Load<'a> {
    /// Waits until the server serves. `resumed`: whether the client keeps TLS sessions.
    pub(super) fn new(
        connector: &TlsConnector,
        address: &'a str,
        resumed: bool,
    ) -> Result<Self, String> {
        let mut config = connector.config().as_ref().clone();
        config.resumption = if resumed {
            Resumption::in_memory_sessions(8)
        } else {
            Resumption::disabled()
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| error.to_string())?;
        let load = Self {
            runtime,
            connector: TlsConnector::from(Arc::new(config)),
            address,
        };
        let end = Instant::now() + TIMEOUT;
        while let Err(error) = load.runtime.block_on(load.connect()) {
            if Instant::now() >= end {
                return Err(format!("{address}: {error}"));
            }
            std::thread::sleep(PAUSE);
        }
        Ok(load)
    }

    /// Connects this often, one connection after the other. Returns the share of resumed sessions.
    pub(super) fn run(&self, connections: usize) -> Result<f64, String> {
        let mut resumed = 0;
        self.runtime.block_on(async {
            for _ in 0..connections {
                let kind = self.connect().await;
                let kind = kind.map_err(|error| format!("{}: {error}", self.address))?;
                resumed += usize::from(kind == Some(HandshakeKind::Resumed));
            }
            Ok(resumed as f64 / connections as f64)
        })
    }

    /// Connects, and waits for the first bytes of the server, which come with its session tickets.
    async fn connect(&self) -> std::io::Result<Option<HandshakeKind>> {
        let socket = TcpStream::connect(self.address).await?;
        socket.set_nodelay(true)?;
        let server = ServerName::IpAddress(std::net::Ipv4Addr::LOCALHOST.into());
        let mut stream = self.connector.connect(server, socket).await?;
        stream.write_all(PREFACE).await?;
        stream.flush().await?;
        stream.read_exact(&mut [0; 9]).await?;
        Ok(stream.get_ref().1.handshake_kind())
    }
}
