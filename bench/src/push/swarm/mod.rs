//! The load generator: as many discovery streams as a scenario has clients, on one thread.
//!
//! ```text
//!   Swarm ── connections ── h2 streams ── Scanner ──▶ Tally: messages, resources, when each came
//!                               ◀── ACK or NACK, at once or after the round trip ──┘
//! ```
//!
//! Its process has its own processor, apart from the server's ([`crate::roles`]). It counts responses and answers them;
//! only a [`probe`](super::probe) reads their contents.

mod connection;
mod manner;
mod roaming;
mod scanner;
mod stream;
mod tally;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use h2::client::SendRequest;
use oxds_types::ApiVersion;
use tokio::sync::watch;
use tokio::task::JoinSet;

use connection::connect;
pub(super) use manner::{Commands, Manner, Nack, text};
pub(super) use roaming::{Choice, Roamers};
use stream::Stream;
pub(super) use stream::framed;
pub(super) use tally::{Counted, Tally};

/// A scenario without progress for this long has failed.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Open streams.
pub(super) struct Swarm {
    manner: Manner,
    address: SocketAddr,
    tally: Arc<Tally>,
    commands: watch::Sender<Commands>,
    /// The connection that takes more streams, and its number of streams.
    connection: Option<(SendRequest<Bytes>, usize)>,
    streams: usize,
    /// Connections and streams; they end with the swarm.
    tasks: JoinSet<()>,
}

impl Swarm {
    pub(super) fn new(address: &str, manner: Manner) -> Result<Self, String> {
        Ok(Self {
            manner,
            address: address
                .parse()
                .map_err(|_| format!("not an address: {address}"))?,
            tally: Arc::default(),
            commands: watch::Sender::default(),
            connection: None,
            streams: 0,
            tasks: JoinSet::new(),
        })
    }

    /// Number of streams.
    pub(super) fn streams(&self) -> usize {
        self.streams
    }

    /// Sets the version of the type URLs of streams that are opened from now on.
    pub(super) fn speak(&mut self, api: ApiVersion) {
        self.manner.api = api;
    }

    /// Opens one more stream with this first request, framed for gRPC.
    pub(super) async fn open(&mut self, first: Bytes) -> Result<(), String> {
        let mut connection = self.connection().await?;
        let stream = Stream::open(
            &mut connection,
            self.address,
            &self.manner,
            self.commands.subscribe(),
            Arc::clone(&self.tally),
        )?;
        self.tasks.spawn(stream.run(first));
        self.streams += 1;
        Ok(())
    }

    /// Opens this many streams. Each must get this many resources before the next one opens, so no server has more than
    /// one first response at a time.
    pub(super) async fn fill(
        &mut self,
        streams: usize,
        first: &Bytes,
        resources: usize,
    ) -> Result<(), String> {
        for _ in 0..streams {
            let mark = self.mark();
            self.open(first.clone()).await?;
            self.until(mark.resources + resources as u64, |counted| {
                counted.resources
            })
            .await?;
        }
        Ok(())
    }

    async fn connection(&mut self) -> Result<SendRequest<Bytes>, String> {
        let (sender, streams) = match self.connection.take() {
            Some((sender, streams)) if streams < self.manner.per_connection => (sender, streams),
            _ => {
                let tasks = &mut self.tasks;
                (connect(self.address, &self.manner, tasks).await?, 0)
            }
        };
        self.connection = Some((sender.clone(), streams + 1));
        sender.ready().await.map_err(text)
    }

    /// Sends a command to every stream.
    pub(super) fn set(&self, commands: Commands) {
        self.commands.send_replace(commands);
    }

    /// Counts so far.
    pub(super) fn mark(&self) -> Counted {
        self.tally.read()
    }

    /// Arrival times of the responses since the last call.
    pub(super) fn arrivals(&self) -> Vec<Instant> {
        self.tally.take_arrivals()
    }

    /// Time of the last ACK or NACK; `None` before the first one.
    pub(super) fn last_answer(&self) -> Option<Instant> {
        self.tally.last_answer()
    }

    /// Waits until a count has reached `goal`, and returns the time.
    pub(super) async fn until(
        &self,
        goal: u64,
        count: fn(&Counted) -> u64,
    ) -> Result<Instant, String> {
        self.tally
            .until(TIMEOUT, |counted| count(counted) >= goal)
            .await
    }

    /// The same, but for no longer than `limit`; returns whether the count was reached.
    pub(super) async fn reaches(
        &self,
        limit: Duration,
        goal: u64,
        count: fn(&Counted) -> u64,
    ) -> bool {
        let reached = self.tally.until(limit, |counted| count(counted) >= goal);
        reached.await.is_ok()
    }
}
