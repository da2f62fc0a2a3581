//! Responses on their way to a client, and their faults.

use std::collections::VecDeque;
use std::sync::Arc;

use oxds_types::etcd::{Event, EventType, WatchResponse};
use prost::Message as _;
use tokio::sync::mpsc::UnboundedSender;
use tonic::Status;

use super::cluster::MAX_REQUEST;
use super::faults::WatchFault;
use super::member::Member;

/// The responses of one stream.
pub(super) struct Outbox {
    member: Arc<Member>,
    responses: UnboundedSender<Result<WatchResponse, Status>>,
    /// The last response with events that was sent.
    last: Option<WatchResponse>,
    /// A response that follows the next one.
    swapped: Option<WatchResponse>,
    delayed: VecDeque<WatchResponse>,
    delay: Delay,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Delay {
    No,
    /// Everything waits.
    All,
    /// Everything but progress waits.
    Events,
}

impl Outbox {
    pub(super) fn new(
        member: Arc<Member>,
        responses: UnboundedSender<Result<WatchResponse, Status>>,
    ) -> Self {
        Self {
            member,
            responses,
            last: None,
            swapped: None,
            delayed: VecDeque::new(),
            delay: Delay::No,
        }
    }

    /// Sends the beginning or the end of a watch.
    pub(super) fn control(&mut self, response: WatchResponse) {
        self.send(response);
    }

    /// Sends a report of progress.
    pub(super) fn progress(&mut self, response: WatchResponse) {
        match self.delay {
            Delay::Events => drop(self.responses.send(Ok(response))),
            Delay::No | Delay::All => self.send(response),
        }
    }

    /// Sends a response with events.
    pub(super) fn events(&mut self, mut response: WatchResponse, fragment: bool) {
        let fault = self.member.faults().watches.pop_front();
        match fault {
            Some(WatchFault::Drop) => return,
            Some(WatchFault::Swap) => {
                self.swapped = Some(response);
                return;
            }
            Some(WatchFault::Split) => return self.split(&response, 1, true),
            Some(WatchFault::SplitUnmarked) => return self.split(&response, 1, false),
            Some(WatchFault::Delay) => self.delay = Delay::All,
            Some(WatchFault::FalseProgress) => self.delay = Delay::Events,
            Some(WatchFault::OmitDeletes) => {
                let is_put = |event: &Event| event.r#type() == EventType::Put;
                response.events.retain(is_put);
                if response.events.is_empty() {
                    return;
                }
            }
            Some(WatchFault::Duplicate) => self.send(response.clone()),
            Some(WatchFault::BackInTime) => {
                let earlier = self.last.replace(response.clone());
                self.send(response);
                if let Some(earlier) = earlier {
                    self.send(earlier);
                }
                return;
            }
            None => {}
        }
        self.last = Some(response.clone());
        if fragment && response.encoded_len() >= MAX_REQUEST {
            self.split(&response, MAX_REQUEST, true);
        } else {
            self.send(response);
        }
        if let Some(swapped) = self.swapped.take() {
            self.send(swapped);
        }
    }

    /// Sends a response in parts of up to `size` bytes, but of at least one event.
    fn split(&mut self, response: &WatchResponse, size: usize, is_marked: bool) {
        let mut rest = response.events.as_slice();
        while !rest.is_empty() {
            let mut bytes = 0;
            let fits = rest.iter().take_while(|event| {
                bytes += event.encoded_len();
                bytes < size
            });
            let count = fits.count().max(1);
            let (part, after) = rest.split_at(count);
            rest = after;
            self.send(WatchResponse {
                events: part.to_vec(),
                fragment: is_marked && !rest.is_empty(),
                ..response.clone()
            });
        }
    }

    fn send(&mut self, response: WatchResponse) {
        match self.delay {
            // The client may have ended the stream.
            Delay::No => drop(self.responses.send(Ok(response))),
            Delay::All | Delay::Events => self.delayed.push_back(response),
        }
    }

    /// Sends all delayed responses.
    pub(super) fn release(&mut self) {
        self.delay = Delay::No;
        for response in std::mem::take(&mut self.delayed) {
            self.send(response);
        }
    }
}
