//! The states that one client saw, in order: each is of the chain, and none is before an earlier one.

use super::content::LANES;
use super::record::Record;
use crate::Fallible;
use crate::subscriber::{Clusters, Received};
use crate::wire::Protocol;

/// Added to the number of a replica's process if it starts without its state, instead of 1.
pub(super) const WIPED: u64 = 1 << 32;

/// A client, and how far it was in the chain of each lane.
#[derive(Debug)]
pub(super) struct Sight {
    name: String,
    protocol: Protocol,
    /// Whether the client stays at one replica. A client that moves may come to a replica that is behind the previous
    /// one.
    is_bound: bool,
    has: Clusters,
    /// Delta: clusters of the stream before of which this one has said nothing. Their removal is held until the client
    /// could subscribe to routes that need them (S-52), so the client may have them beside those of a later publish.
    leftover: Clusters,
    latest: [Option<usize>; LANES.len()],
    /// Before it, no state may be seen any more: all replicas had saved later ones when they were healed.
    floor: [Option<usize>; LANES.len()],
    stream: u64,
    process: u64,
}

impl Sight {
    pub(super) fn new(name: String, protocol: Protocol, is_bound: bool) -> Self {
        Self {
            name,
            protocol,
            is_bound,
            has: Clusters::new(),
            leftover: Clusters::new(),
            latest: Default::default(),
            floor: Default::default(),
            stream: 0,
            process: 0,
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Checks the state after a response. Fails if it is not in the chain, if it mixes two publishes, or if it is older
    /// than the state before.
    pub(super) fn see(&mut self, record: &Record, response: &Received) -> Fallible {
        match self.protocol {
            Protocol::Sotw => self.has.clone_from(&response.changed),
            Protocol::Delta => self.take(response),
        }
        let goes_on = if !self.is_bound {
            self.stream == response.stream
        } else if response.process == self.process + WIPED {
            // A replica without a state begins with what etcd has. After a restore it cannot always know that this is
            // not the latest.
            !record.is_restored()
        } else {
            self.process == response.process
        };
        (self.stream, self.process) = (response.stream, response.process);
        for (lane, name) in LANES.iter().enumerate() {
            let located = record.locate(lane, &self.has, &self.leftover);
            let at = located.map_err(|error| format!("{}: {name}: {error}", self.name))?;
            // A replica that starts again serves its saved state. That may be older than the last served state, but
            // never older than the state that it served a second before.
            let floor = if goes_on {
                self.latest[lane].max(self.floor[lane])
            } else {
                self.floor[lane]
            };
            if floor.is_some_and(|floor| at < floor) {
                let kind = if goes_on { "went back" } else { "began" };
                return Err(format!(
                    "{}: {name}: {kind} at position {at} of the chain, before {floor:?}",
                    self.name
                )
                .into());
            }
            self.latest[lane] = Some(at);
        }
        Ok(())
    }

    fn take(&mut self, response: &Received) {
        if self.stream != response.stream {
            self.leftover.clone_from(&self.has);
        }
        for name in response.changed.keys().chain(&response.removed) {
            self.leftover.remove(name);
            self.has.remove(name);
        }
        self.has.extend(response.changed.clone());
    }

    /// Notes that all replicas serve this, and have had the time to save it.
    pub(super) fn heal(&mut self, tips: [Option<usize>; LANES.len()]) {
        self.floor = tips;
    }
}
