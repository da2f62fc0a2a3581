//! Options of the server that limit the cost of clients (S-77).

use std::num::{NonZeroU32, NonZeroUsize};
use std::time::Duration;

use oxds_server::{Config, Limits};

use crate::commands::duration;

/// Limits for clients. Without an option the library's default applies.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Limits")]
pub(crate) struct LimitArgs {
    /// Maximum size of a request, in bytes [default: 64 MiB]
    #[arg(long, value_name = "BYTES", allow_negative_numbers = true)]
    max_request_bytes: Option<NonZeroUsize>,
    /// Maximum size of the node in a request, in bytes [default: 256 KiB]
    #[arg(long, value_name = "BYTES", allow_negative_numbers = true)]
    max_node_bytes: Option<NonZeroUsize>,
    /// Maximum size of a node id, in bytes [default: 1 KiB]
    #[arg(long, value_name = "BYTES", allow_negative_numbers = true)]
    max_node_id_bytes: Option<NonZeroUsize>,
    /// Maximum number of names that a stream may subscribe to per resource type [default: 200000]
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true)]
    max_names: Option<NonZeroUsize>,
    /// Maximum size of a name or type URL, in bytes [default: 4 KiB]
    #[arg(long, value_name = "BYTES", allow_negative_numbers = true)]
    max_name_bytes: Option<NonZeroUsize>,
    /// Maximum number of resource types that a stream may subscribe to [default: 32]
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true)]
    max_types: Option<NonZeroUsize>,
    /// Memory that the calls of one connection may take, in bytes, as estimated [default: 256 MiB]
    #[arg(long, value_name = "BYTES", allow_negative_numbers = true)]
    max_connection_bytes: Option<NonZeroUsize>,
    /// Memory that the calls of all clients may take, in bytes, as estimated [default: 1 GiB]
    #[arg(long, value_name = "BYTES", allow_negative_numbers = true)]
    max_client_bytes: Option<NonZeroUsize>,
    /// Maximum number of open connections [default: 100000]
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true)]
    max_connections: Option<NonZeroUsize>,
    /// Maximum number of open streams [default: 100000]
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true)]
    max_streams: Option<NonZeroUsize>,
    /// Maximum number of open streams per client address [default: 20000]
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true)]
    max_streams_per_peer: Option<NonZeroUsize>,
    /// Maximum number of concurrent calls per connection [default: 20000]
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true)]
    max_streams_per_connection: Option<NonZeroU32>,
    /// Maximum number of requests per second that are read from one stream [default: 1000]
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true)]
    request_rate: Option<NonZeroU32>,
    /// Number of requests that a stream may send before that rate applies [default: 20000]
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true)]
    request_burst: Option<NonZeroU32>,
    /// Time for the first call of a connection and the first request of a stream [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    first_request: Option<Duration>,
    /// Time without data on a connection before the server sends a keepalive ping [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    keepalive: Option<Duration>,
    /// Time for the answer to a keepalive ping [default: 20s]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    keepalive_timeout: Option<Duration>,
    /// Age of a connection at which the client is asked to make another one, ± 10 %, so that clients spread over
    /// servers with one name [default: never]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    max_connection_age: Option<Duration>,
    /// Time that a Fetch or REST poll waits for a change [default: 800ms]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    poll_hold: Option<Duration>,
    /// Longest wait that a poll may request with `Prefer: wait` [default: 60s]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    poll_hold_max: Option<Duration>,
}

impl LimitArgs {
    /// Returns the library's defaults with the options applied.
    pub(crate) fn limits(&self) -> Limits {
        let mut limits = Limits::default();
        let size = |option: Option<NonZeroUsize>| option.map(NonZeroUsize::get);
        let count = |option: Option<NonZeroU32>| option.map(NonZeroU32::get);
        set(&mut limits.message_bytes, size(self.max_request_bytes));
        set(&mut limits.node_bytes, size(self.max_node_bytes));
        set(&mut limits.node_id_bytes, size(self.max_node_id_bytes));
        set(
            &mut limits.connection_bytes,
            size(self.max_connection_bytes),
        );
        set(&mut limits.client_bytes, size(self.max_client_bytes));
        set(&mut limits.connections, size(self.max_connections));
        set(&mut limits.streams, size(self.max_streams));
        set(
            &mut limits.streams_per_peer,
            size(self.max_streams_per_peer),
        );
        set(
            &mut limits.streams_per_connection,
            count(self.max_streams_per_connection),
        );
        set(&mut limits.request_rate, count(self.request_rate));
        set(&mut limits.request_burst, count(self.request_burst));
        set(&mut limits.timers.first_request, self.first_request);
        set(&mut limits.timers.keepalive, self.keepalive);
        set(&mut limits.timers.keepalive_timeout, self.keepalive_timeout);
        limits.timers.connection_age = self.max_connection_age;
        set(&mut limits.timers.poll_hold, self.poll_hold);
        set(&mut limits.timers.poll_hold_max, self.poll_hold_max);
        limits
    }
}

impl LimitArgs {
    /// Returns the library's configuration of sessions with the options applied.
    pub(crate) fn sessions(&self) -> Config {
        let mut config = Config::default();
        let size = |option: Option<NonZeroUsize>| option.map(NonZeroUsize::get);
        set(&mut config.max_names, size(self.max_names));
        set(&mut config.max_name_len, size(self.max_name_bytes));
        set(&mut config.max_types, size(self.max_types));
        config
    }
}

fn set<T: Copy>(limit: &mut T, option: Option<T>) {
    *limit = option.unwrap_or(*limit);
}
