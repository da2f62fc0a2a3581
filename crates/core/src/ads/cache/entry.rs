//! One watched resource.

use std::sync::Arc;

use oxds_types::ApiVersion;
use smallvec::SmallVec;

use crate::ads::WatchError;
use crate::ads::config::{AuthorityId, ServerId};
use crate::resource::Resource;
use crate::time::Instant;

/// The state of a watched resource: `envoy.admin.v3.ClientResourceStatus` (gRFC A40, A88).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CacheState {
    /// Asked for; no answer yet.
    Requested,
    /// There is none. What was held before may be kept all the same.
    DoesNotExist,
    /// Held, and up to date.
    Acked,
    /// The last update was rejected; what came before it, if anything, is held.
    Nacked,
    /// The server answered with an error of its own; what came before it, if anything, is held.
    ReceivedError,
    /// The server, whose silence means that it is slow, has been silent for too long.
    Timeout,
}

/// A watched resource, for who wants to look (CSDS).
#[derive(Debug, Clone)]
pub struct Cached<'a> {
    /// Its state.
    pub state: CacheState,
    /// What is held.
    pub held: Option<&'a Held>,
    /// What was wrong with the last update.
    pub error: Option<&'a WatchError>,
    /// The last update, if nothing came of it.
    pub attempt: Option<&'a Attempt>,
}

/// An update that was rejected, or that was an error of the server's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// The version of its response.
    pub version: String,
    /// When it came.
    pub at: Instant,
}

/// A resource that was accepted.
#[derive(Debug, Clone)]
pub struct Held {
    /// The resource. Its bytes are its own: it does not keep alive the response that it came in.
    pub resource: Resource,
    /// Its version: its own where differences are asked for, else that of the response that brought it.
    pub version: Arc<str>,
    /// The version of the API whose type URL it came with (C-55).
    pub api: ApiVersion,
    /// The server that sent it last.
    pub server_uri: Arc<str>,
    /// The same, among the client's servers.
    pub server: ServerId,
    /// When it came.
    pub updated: Instant,
}

#[derive(Debug, Default)]
pub(super) struct Entry {
    pub(super) authority: AuthorityId,
    pub(super) watchers: usize,
    pub(super) held: Option<Held>,
    /// The servers that have sent it: an absence says something there, and nowhere else (DEC-7).
    pub(super) senders: SmallVec<[ServerId; 2]>,
    /// What watchers were told last, if that was nothing good.
    pub(super) error: Option<WatchError>,
    /// The last answer was no resource that could be used.
    pub(super) fault: Option<Fault>,
    /// When whose silence is an answer. Runs while a live stream has asked (gRFC A57).
    pub(super) silence: Option<(ServerId, Instant)>,
    /// When what is held ends, unless it comes again.
    pub(super) expiry: Option<Instant>,
    /// The deletion was ignored (gRFC A53).
    pub(super) kept: bool,
}

/// What was wrong with the last answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::ads) enum Fault {
    /// We rejected the resource.
    Rejected(Attempt),
    /// The server sent an error instead of it.
    Reported(Attempt),
    /// There is none: so the server said, or so its silence was taken.
    Absent,
    /// There was none, and that may change.
    Late,
}

impl Entry {
    /// No server has answered for it yet.
    pub(super) fn is_open(&self) -> bool {
        self.held.is_none() && self.fault.is_none()
    }

    pub(super) fn add_sender(&mut self, server: ServerId) {
        if !self.senders.contains(&server) {
            self.senders.push(server);
        }
    }

    /// An answer came: nothing is wrong any more. `true` if something was.
    pub(super) fn settle(&mut self) -> bool {
        self.fault = None;
        self.kept = false;
        self.error.take().is_some()
    }

    pub(super) fn state(&self) -> CacheState {
        match (&self.fault, &self.held) {
            (Some(Fault::Rejected(_)), _) => CacheState::Nacked,
            (Some(Fault::Reported(_)), _) => CacheState::ReceivedError,
            (Some(Fault::Absent), _) => CacheState::DoesNotExist,
            (Some(Fault::Late), _) => CacheState::Timeout,
            (None, Some(_)) => CacheState::Acked,
            (None, None) => CacheState::Requested,
        }
    }

    pub(super) fn cached(&self) -> Cached<'_> {
        Cached {
            state: self.state(),
            held: self.held.as_ref(),
            error: self.error.as_ref(),
            attempt: match &self.fault {
                Some(Fault::Rejected(attempt) | Fault::Reported(attempt)) => Some(attempt),
                _ => None,
            },
        }
    }
}
