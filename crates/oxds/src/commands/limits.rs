//! The options of a server that bound what clients may cost it (S-77).

use std::num::{NonZeroU32, NonZeroUsize};
use std::time::Duration;

use oxds_server::Limits;

use super::duration;

/// What clients may cost. What is not said is as the library has it.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Limits")]
pub(super) struct LimitArgs {
    /// Bytes of one request; 64 MiB unless told
    #[arg(long, value_name = "BYTES", allow_negative_numbers = true)]
    max_request_bytes: Option<NonZeroUsize>,
    /// Connections at once; 100000 unless told
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true)]
    max_connections: Option<NonZeroUsize>,
    /// Streams of discovery at once; 100000 unless told
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true)]
    max_streams: Option<NonZeroUsize>,
    /// Streams of discovery at once from one address; 20000 unless told
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true)]
    max_streams_per_peer: Option<NonZeroUsize>,
    /// Calls at once on one connection; 128 unless told
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true)]
    max_streams_per_connection: Option<NonZeroU32>,
    /// Requests per second that are read from one stream; 1000 unless told
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true)]
    request_rate: Option<NonZeroU32>,
    /// How many requests a stream may send before that holds; 20000 unless told
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true)]
    request_burst: Option<NonZeroU32>,
    /// How long a connection may take to its first call, and a stream to its first request; 30s unless told
    #[arg(long, value_name = "TIME", value_parser = duration)]
    first_request: Option<Duration>,
    /// After how much silence a connection is asked for a sign of life; 30s unless told
    #[arg(long, value_name = "TIME", value_parser = duration)]
    keepalive: Option<Duration>,
    /// How long that sign may take; 20s unless told
    #[arg(long, value_name = "TIME", value_parser = duration)]
    keepalive_timeout: Option<Duration>,
    /// How long a Fetch or REST poll waits for a change; 800ms unless told
    #[arg(long, value_name = "TIME", value_parser = duration)]
    poll_hold: Option<Duration>,
    /// How long at most, if it says itself how long; 60s unless told
    #[arg(long, value_name = "TIME", value_parser = duration)]
    poll_hold_max: Option<Duration>,
}

impl LimitArgs {
    pub(super) fn limits(&self) -> Limits {
        let mut limits = Limits::default();
        let size = |said: Option<NonZeroUsize>| said.map(NonZeroUsize::get);
        let count = |said: Option<NonZeroU32>| said.map(NonZeroU32::get);
        set(&mut limits.message_bytes, size(self.max_request_bytes));
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
        set(&mut limits.first_request, self.first_request);
        set(&mut limits.keepalive, self.keepalive);
        set(&mut limits.keepalive_timeout, self.keepalive_timeout);
        set(&mut limits.poll_hold, self.poll_hold);
        set(&mut limits.poll_hold_max, self.poll_hold_max);
        limits
    }
}

fn set<T: Copy>(limit: &mut T, said: Option<T>) {
    *limit = said.unwrap_or(*limit);
}
