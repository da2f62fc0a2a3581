//! What watchers have yet to be told.

use std::collections::VecDeque;
use std::sync::Arc;

use oxds_types::ResourceType;

use crate::ads::{ClientEvent, WatchError};
use crate::resource::ParsedResource;

/// Room for so many events stays; a response of 100,000 resources is not to leave its own behind.
const ROOM: usize = 64;

#[derive(Debug, Default)]
pub(super) struct Outbox {
    events: VecDeque<ClientEvent>,
    /// How many there were.
    told: u64,
}

impl Outbox {
    pub(super) fn tell(&mut self, event: ClientEvent) {
        self.told += 1;
        self.events.push_back(event);
    }

    pub(super) fn tell_all(&mut self, events: impl IntoIterator<Item = ClientEvent>) {
        events.into_iter().for_each(|event| self.tell(event));
    }

    /// How many events there were.
    pub(super) fn told(&self) -> u64 {
        self.told
    }

    pub(super) fn poll(&mut self) -> Option<ClientEvent> {
        let event = self.events.pop_front();
        if self.events.is_empty() {
            self.events.shrink_to(ROOM);
        }
        event
    }
}

pub(super) fn changed(
    resource_type: &ResourceType,
    name: &Arc<str>,
    resource: Result<ParsedResource, WatchError>,
) -> ClientEvent {
    ClientEvent::Changed {
        resource_type: resource_type.clone(),
        name: Arc::clone(name),
        resource,
    }
}

pub(super) fn ambient(
    resource_type: &ResourceType,
    name: &Arc<str>,
    error: Option<WatchError>,
) -> ClientEvent {
    ClientEvent::Ambient {
        resource_type: resource_type.clone(),
        name: Arc::clone(name),
        error,
    }
}
