//! One watched resource.

use std::time::Duration;

use super::held::{CacheState, CacheStatus, CachedResource, FailedUpdate};
use crate::ads::WatchError;
use crate::ads::config::{AuthorityId, ServerId};
use crate::time::Instant;

/// There is one of every resource, so that its size counts: what most have not is [`Aside`].
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) authority: AuthorityId,
    pub(super) watchers: u32,
    held: Option<CachedResource>,
    aside: Option<Box<Aside>>,
}

/// What is unlike most entries, or unlike it for a short time only.
#[derive(Debug, Default, PartialEq)]
struct Aside {
    /// What watchers were told last, if that was nothing good.
    error: Option<WatchError>,
    /// The last answer was no resource that could be used.
    fault: Option<Fault>,
    /// When whose silence is an answer. Runs while a live stream has asked (gRFC A57).
    silence: Option<(ServerId, Instant)>,
    /// When what is held ends, unless it comes again.
    expiry: Option<Expiry>,
    /// Those that have sent what is held before its last sender did.
    earlier: Vec<ServerId>,
    /// The deletion was ignored (gRFC A53).
    kept: bool,
}

/// What was wrong with the last answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::ads) enum Fault {
    /// We rejected the resource.
    Rejected(FailedUpdate),
    /// The server sent an error instead of it.
    Reported(FailedUpdate),
    /// There is none: so the server said, or so its silence was taken.
    Absent,
    /// There was none, and that may change.
    Late,
}

/// End of a resource's time to live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::ads) struct Expiry {
    /// When the resource ends, unless the server sends it or a heartbeat before.
    pub(super) at: Instant,
    /// Time to live that the server gave last.
    pub(super) ttl: Duration,
}

impl Expiry {
    /// Expiry of a resource that was sent or refreshed `now`.
    pub(in crate::ads) fn new(now: Instant, ttl: Duration) -> Self {
        Self { at: now + ttl, ttl }
    }
}

impl Entry {
    pub(super) fn of(authority: AuthorityId) -> Self {
        Self {
            authority,
            watchers: 0,
            held: None,
            aside: None,
        }
    }

    /// Changes what is aside. It is given up when there is nothing left in it.
    fn change<T>(&mut self, change: impl FnOnce(&mut Aside) -> T) -> T {
        let aside = self.aside.take();
        let mut aside = aside.map_or_else(Aside::default, |aside| *aside);
        let result = change(&mut aside);
        self.aside = (aside != Aside::default()).then(|| Box::new(aside));
        result
    }

    pub(super) fn held(&self) -> Option<&CachedResource> {
        self.held.as_ref()
    }

    pub(super) fn held_mut(&mut self) -> Option<&mut CachedResource> {
        self.held.as_mut()
    }

    /// What watchers were told last, if that was nothing good.
    pub(super) fn error(&self) -> Option<&WatchError> {
        self.aside.as_ref()?.error.as_ref()
    }

    /// What was wrong with the last answer.
    pub(super) fn fault(&self) -> Option<&Fault> {
        self.aside.as_ref()?.fault.as_ref()
    }

    /// When whose silence is an answer.
    pub(super) fn silence(&self) -> Option<(ServerId, Instant)> {
        self.aside.as_ref()?.silence
    }

    /// When what is held ends, unless it comes again.
    pub(super) fn expiry(&self) -> Option<Expiry> {
        self.aside.as_ref()?.expiry
    }

    /// No server has answered for it yet.
    pub(super) fn is_open(&self) -> bool {
        self.held.is_none() && self.fault().is_none()
    }

    /// Whether this server has sent what is held, even if another did so last: an absence says something there, and
    /// nowhere else (DEC-7).
    pub(super) fn is_of(&self, server: ServerId) -> bool {
        let before = || {
            let aside = self.aside.as_ref();
            aside.is_some_and(|aside| aside.earlier.contains(&server))
        };
        let held = self.held.as_ref();
        held.is_some_and(|held| held.server == server || before())
    }

    /// Takes this in the place of what is held, and remembers who sent that. An answer came: nothing is wrong any more.
    pub(super) fn accept(&mut self, held: CachedResource) {
        let sender = self.held.replace(held).map(|before| before.server);
        self.remember(sender);
        self.settle();
    }

    /// What is held came again, as `again` makes it. Nothing is wrong any more: `true` if something was.
    pub(super) fn confirm(&mut self, again: impl FnOnce(&mut CachedResource)) -> bool {
        let sender = self.held.as_ref().map(|held| held.server);
        if let Some(held) = &mut self.held {
            again(held);
        }
        self.remember(sender);
        self.settle()
    }

    fn remember(&mut self, sender: Option<ServerId>) {
        if let Some(sender) = sender.filter(|sender| !self.is_of(*sender)) {
            self.change(|aside| aside.earlier.push(sender));
        }
    }

    fn settle(&mut self) -> bool {
        self.aside.is_some()
            && self.change(|aside| {
                aside.fault = None;
                aside.kept = false;
                aside.error.take().is_some()
            })
    }

    /// The last answer was no resource that could be used.
    pub(super) fn fail(&mut self, fault: Fault) {
        self.change(|aside| aside.fault = Some(fault));
    }

    /// Drops what is held; `false` if nothing is. What is said to who loses it is news, whatever they were told before.
    pub(super) fn lose(&mut self) -> bool {
        let is_lost = self.held.take().is_some();
        if is_lost {
            self.change(|aside| {
                aside.earlier.clear();
                aside.kept = false;
                aside.error = None;
            });
        }
        is_lost
    }

    /// Remembers what watchers are told. `false` if they were told it last.
    pub(super) fn tell(&mut self, error: &WatchError) -> bool {
        let is_new = self.error() != Some(error);
        if is_new {
            self.change(|aside| aside.error = Some(error.clone()));
        }
        is_new
    }

    /// What watchers were told is over; `false` if they were told nothing.
    pub(super) fn clear_error(&mut self) -> bool {
        self.error().is_some() && self.change(|aside| aside.error.take().is_some())
    }

    /// The deletion of what is held is ignored; `false` if it was already, or nothing is.
    pub(super) fn keep(&mut self) -> bool {
        self.held.is_some() && self.change(|aside| !std::mem::replace(&mut aside.kept, true))
    }

    /// For [`Deadlines`](super::deadlines::Deadlines), which must know the same.
    pub(super) fn set_silence(&mut self, silence: Option<(ServerId, Instant)>) {
        self.change(|aside| aside.silence = silence);
    }

    /// As [`set_silence`](Self::set_silence).
    pub(super) fn set_expiry(&mut self, expiry: Option<Expiry>) {
        self.change(|aside| aside.expiry = expiry);
    }

    pub(super) fn state(&self) -> CacheState {
        match (self.fault(), &self.held) {
            (Some(Fault::Rejected(_)), _) => CacheState::Nacked,
            (Some(Fault::Reported(_)), _) => CacheState::ReceivedError,
            (Some(Fault::Absent), _) => CacheState::DoesNotExist,
            (Some(Fault::Late), _) => CacheState::Timeout,
            (None, Some(_)) => CacheState::Acked,
            (None, None) => CacheState::Requested,
        }
    }

    pub(super) fn cached(&self) -> CacheStatus<'_> {
        CacheStatus {
            state: self.state(),
            held: self.held.as_ref(),
            ttl: self.expiry().map(|expiry| expiry.ttl),
            error: self.error(),
            attempt: match self.fault() {
                Some(Fault::Rejected(attempt) | Fault::Reported(attempt)) => Some(attempt),
                _ => None,
            },
        }
    }
}
