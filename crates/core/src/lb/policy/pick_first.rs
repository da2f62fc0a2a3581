//! Pick first: connects to one of several addresses (gRFC A61, A62, "Happy Eyeballs", RFC 8305).
//!
//! ```text
//!            connect()                    an address is ready
//!  ┌──────┐ ──────────▶ ┌────────────┐ ──────────────────────────▶ ┌──────────────────┐
//!  │ Idle │             │ Connecting │                             │ Selected(address)│
//!  └──────┘ ◀────────── └────────────┘                             └──────────────────┘
//!      ▲    the list      │ every address has failed once               ▲         │
//!      │    changed       ▼                      an address is ready    │         │
//!      │               ┌────────┐ ──────────────────────────────────────┘         │
//!      │               │ Failed │ ◀─┐ all addresses connect, each with            │
//!      │               └────────┘ ──┘ its own backoff                             │
//!      └──────────────────────────────────────────────────────────────────────────┘
//!                              the address is not ready any more
//! ```
//!
//! While it connects, the next address is tried 250 ms after the one before, or as soon as that one fails. A failure is
//! sticky: it lasts until an address is ready. Every endpoint is connected by this machine, whatever its policy; most
//! have one address.

use std::net::SocketAddr;
use std::time::Duration;

use smallvec::SmallVec;

use crate::lb::priorities::Connectivity;
use crate::time::Instant;

/// Time after which the next address is tried while the one before still connects (gRFC A61: 250 ms by default).
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);

/// Connector of one child: which of its addresses connect, and which one is used.
#[derive(Debug, Clone)]
pub struct PickFirst {
    addresses: SmallVec<[AddressState; 1]>,
    phase: Phase,
}

#[derive(Debug, Clone, Copy)]
struct AddressState {
    state: Connectivity,
    /// Whether it failed in the current phase `Connecting`.
    has_failed: bool,
}

#[derive(Debug, Clone, Copy)]
enum Phase {
    Idle,
    Connecting {
        /// The address that was tried last.
        attempt: usize,
        /// Time at which the next one is tried.
        next_at: Option<Instant>,
    },
    Failed,
    Selected(usize),
}

impl PickFirst {
    /// Returns an idle child with this number of addresses, all of them idle.
    #[must_use]
    pub fn new(addresses: usize) -> Self {
        let idle = AddressState {
            state: Connectivity::Idle,
            has_failed: false,
        };
        Self {
            addresses: SmallVec::from_elem(idle, addresses),
            phase: Phase::Idle,
        }
    }

    /// Returns the connectivity of the child.
    #[must_use]
    pub fn state(&self) -> Connectivity {
        match self.phase {
            Phase::Idle => Connectivity::Idle,
            Phase::Connecting { .. } => Connectivity::Connecting,
            Phase::Failed => Connectivity::TransientFailure,
            Phase::Selected(_) => Connectivity::Ready,
        }
    }

    /// Returns the index of the address that is used, if the child is ready. The others can be released.
    #[must_use]
    pub fn selected(&self) -> Option<usize> {
        match self.phase {
            Phase::Selected(address) => Some(address),
            _ => None,
        }
    }

    /// Leaves idle. `states` has the current state of each address, which may be connected already. Has no effect in
    /// other phases.
    pub fn connect(&mut self, now: Instant, states: impl IntoIterator<Item = Connectivity>) {
        if !matches!(self.phase, Phase::Idle) {
            return;
        }
        for (address, state) in self.addresses.iter_mut().zip(states) {
            address.state = state;
            address.has_failed = state == Connectivity::TransientFailure;
        }
        let ready = |address: &AddressState| address.state == Connectivity::Ready;
        match self.addresses.iter().position(ready) {
            // gRFC A61: an address that is connected already is used, whatever its place in the list.
            Some(address) => self.phase = Phase::Selected(address),
            None => self.attempt_from(now, 0),
        }
    }

    /// Handles the state of an address.
    pub fn handle_state(&mut self, now: Instant, index: usize, state: Connectivity) {
        let Some(address) = self.addresses.get_mut(index) else {
            return;
        };
        address.state = state;
        match (self.phase, state) {
            (Phase::Idle, _) => {}
            // gRFC A62: the loss of the connection makes the child idle, not failed.
            (Phase::Selected(selected), state) => {
                if selected == index && state != Connectivity::Ready {
                    self.phase = Phase::Idle;
                }
            }
            (_, Connectivity::Ready) => self.phase = Phase::Selected(index),
            (Phase::Connecting { attempt, .. }, Connectivity::TransientFailure) => {
                address.has_failed = true;
                if attempt == index {
                    self.attempt_from(now, index + 1);
                } else {
                    self.check_failed();
                }
            }
            (Phase::Connecting { .. } | Phase::Failed, _) => {}
        }
    }

    /// Returns whether an address must connect now. Call it for idle addresses after every other call.
    #[must_use]
    pub fn wants(&self, index: usize) -> bool {
        let is_idle = |address: &AddressState| address.state == Connectivity::Idle;
        self.addresses.get(index).is_some_and(is_idle)
            && match self.phase {
                // An address that failed, and is idle after its backoff, waits for the others.
                Phase::Connecting { attempt, .. } => {
                    index <= attempt && !self.addresses[index].has_failed
                }
                // gRFC A61: after the first pass, all addresses connect at the same time.
                Phase::Failed => true,
                Phase::Idle | Phase::Selected(_) => false,
            }
    }

    /// Tries the next address if its time has come.
    pub fn handle_timeout(&mut self, now: Instant) {
        if let Phase::Connecting { attempt, next_at } = self.phase
            && next_at.is_some_and(|at| at <= now)
        {
            self.attempt_from(now, attempt + 1);
        }
    }

    /// Returns when to call [`handle_timeout`](Self::handle_timeout).
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        match self.phase {
            Phase::Connecting { next_at, .. } => next_at,
            _ => None,
        }
    }

    /// Tries the first address from `index` on that has not failed.
    fn attempt_from(&mut self, now: Instant, index: usize) {
        let last = self.addresses.len().saturating_sub(1);
        let mut rest = self.addresses.iter().enumerate().skip(index);
        let next = rest.find(|(_, address)| {
            !address.has_failed && address.state != Connectivity::TransientFailure
        });
        self.phase = match next {
            Some((attempt, _)) => Phase::Connecting {
                attempt,
                next_at: (attempt < last).then(|| now + ATTEMPT_DELAY),
            },
            None => Phase::Connecting {
                attempt: last,
                next_at: None,
            },
        };
        self.check_failed();
    }

    /// Ends the first pass if every address has failed.
    fn check_failed(&mut self) {
        if self.addresses.iter().all(|address| address.has_failed) {
            self.phase = Phase::Failed;
        }
    }
}

/// Orders addresses so that their families take turns, beginning with the family of the first (RFC 8305, section 4;
/// gRFC A61).
pub(super) fn interleave<T>(
    addresses: SmallVec<[T; 1]>,
    address: impl Fn(&T) -> SocketAddr,
) -> SmallVec<[T; 1]> {
    let first_is_v6 = addresses.first().map(|first| address(first).is_ipv6());
    let is_first = |item: &T| Some(address(item).is_ipv6()) == first_is_v6;
    // Most endpoints have addresses of one family.
    if addresses.iter().all(is_first) {
        return addresses;
    }
    let count = addresses.len();
    let (same, other): (Vec<_>, Vec<_>) = addresses.into_iter().partition(is_first);
    let (mut same, mut other) = (same.into_iter(), other.into_iter());
    let mut ordered = SmallVec::with_capacity(count);
    while ordered.len() < count {
        ordered.extend(same.next());
        ordered.extend(other.next());
    }
    ordered
}

/// Shuffles items by weight: the probability of an item to be the first is its share of the weights (gRFC A62, A113).
pub(super) fn shuffle<T>(
    items: &mut [T],
    weight: impl Fn(&T) -> u64,
    random: &mut impl FnMut() -> u64,
) {
    // Efraimidis and Spirakis: ascending order of exponentially distributed numbers with the weight as their rate.
    let mut draw = |item: &T| {
        let uniform = ((random() >> 11) as f64 + 1.0) / (1_u64 << 53) as f64;
        -uniform.ln() / weight(item).max(1) as f64
    };
    let mut keys: Vec<_> = items.iter().map(&mut draw).enumerate().collect();
    keys.sort_by(|(_, a), (_, b)| a.total_cmp(b));
    // `order[i]` is the place of item i.
    let mut order = vec![0; items.len()];
    for (place, (index, _)) in keys.into_iter().enumerate() {
        order[index] = place;
    }
    for index in 0..items.len() {
        while order[index] != index {
            let place = order[index];
            items.swap(index, place);
            order.swap(index, place);
        }
    }
}
