//! Connects to an endpoint, and makes the handshakes of security and HTTP/2.

use std::net::SocketAddr;
use std::sync::Arc;

use h2::client::Builder;
use oxds_client::channelz::CallCounter;
use oxds_net::transport::{self, DialError, Keepalive, Opened, ServerUri};

use crate::security::Security;
use crate::stream::{Connection, ConnectionDriver};

/// Bytes of one response that the endpoint may send before the application reads: 2 MiB, as in hyper, which allows 100
/// MB/s over a round trip of 20 ms. With 4 MiB, an echo of 4 MiB on one machine cost 1.5 % more CPU: what is read is
/// not in the cache any more.
const STREAM_WINDOW: u32 = 2 << 20;

/// The same for all responses of a connection: 16 MiB, the largest window that grpc-go's and hyper's estimates of the
/// bandwidth-delay product reach. It bounds the memory of a connection whose responses are not read.
const CONNECTION_WINDOW: u32 = 16 << 20;

/// Largest size of the headers and of the trailers of a response: 16 KiB, above which gRPC rejects metadata (gRFC A6,
/// `GRPC_ARG_ABSOLUTE_MAX_METADATA_SIZE`).
const MAX_HEADER_LIST: u32 = 16 << 10;

/// Streams that the endpoint may break by protocol errors before the connection is closed.
const MAX_BROKEN_STREAMS: usize = 1024;

/// Connects and waits for the server's preface.
///
/// Cancel-safe: dropping the future closes the socket.
pub(super) async fn dial(
    address: SocketAddr,
    security: &Security,
    keepalive: Keepalive,
    calls: &Arc<CallCounter>,
) -> Result<(Arc<Connection>, ConnectionDriver), DialError> {
    let uri = ServerUri::at(address);
    let is_private = security.is_private();
    let shake = |opened| handshake(opened, keepalive, calls, is_private);
    match security.credentials() {
        None => transport::dial(&uri, shake).await,
        Some(credentials) => transport::dial_secured(&uri, credentials, shake).await,
    }
}

async fn handshake(
    opened: Opened,
    keepalive: Keepalive,
    calls: &Arc<CallCounter>,
    is_private: bool,
) -> Result<(Arc<Connection>, ConnectionDriver), DialError> {
    let (sender, h2) = Builder::new()
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_header_list_size(MAX_HEADER_LIST)
        .max_local_error_reset_streams(Some(MAX_BROKEN_STREAMS))
        .enable_push(false)
        .handshake(opened.socket)
        .await
        .map_err(|error| DialError::Handshake(Arc::new(error)))?;
    let going_away = opened.going_away;
    let mut driver = ConnectionDriver::new(h2, going_away.clone(), opened.activity, keepalive);
    let settings = opened.preface.received(&mut driver).await?;
    let mut connection = Connection::new(sender, settings, opened.addresses, going_away, calls);
    connection.is_private = is_private;
    let connection = Arc::new(connection);
    driver.attach(&connection);
    Ok((connection, driver))
}
