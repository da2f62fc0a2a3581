//! The watched resources of one kind.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::WatchCommand;
use crate::ads::{WatchError, WatchErrorReason};
use crate::resource::{ParsedResource, Typed};

/// What is known of a resource.
#[derive(Debug)]
pub(super) enum Slot<T> {
    /// Nothing yet, or it is not watched.
    Waiting,
    /// This.
    Got(Arc<T>),
    /// Why there is none.
    Failed(WatchError),
}

/// What to make of a server that cannot be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lost {
    /// Its resources cannot be had.
    IsAnAnswer,
    /// It has yet to answer.
    IsSilence,
}

impl<T> Slot<T> {
    /// The resource, or why there is none; `None` while there is no answer.
    pub(super) fn answer(&self, lost: Lost) -> Option<Result<&Arc<T>, &WatchError>> {
        match self {
            Self::Waiting => None,
            Self::Failed(error)
                if lost == Lost::IsSilence && error.reason == WatchErrorReason::Unreachable =>
            {
                None
            }
            Self::Failed(error) => Some(Err(error)),
            Self::Got(resource) => Some(Ok(resource)),
        }
    }
}

#[derive(Debug)]
pub(super) struct Slots<T> {
    slots: BTreeMap<Arc<str>, Slot<T>>,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self {
            slots: BTreeMap::new(),
        }
    }
}

impl<T: Typed> Slots<T> {
    /// Watches these, and no others.
    pub(super) fn want(
        &mut self,
        names: impl IntoIterator<Item = Arc<str>>,
        commands: &mut VecDeque<WatchCommand>,
    ) {
        let wanted: BTreeSet<Arc<str>> = names.into_iter().collect();
        self.slots.retain(|name, _| {
            let keep = wanted.contains(name);
            if !keep {
                commands.push_back(WatchCommand::Unwatch(T::resource_type(), Arc::clone(name)));
            }
            keep
        });
        for name in wanted {
            self.slots.entry(name).or_insert_with_key(|name| {
                commands.push_back(WatchCommand::Watch(T::resource_type(), Arc::clone(name)));
                Slot::Waiting
            });
        }
    }

    /// Takes over a resource; `false` if it is not watched.
    pub(super) fn set(
        &mut self,
        name: &str,
        resource: &Result<ParsedResource, WatchError>,
    ) -> bool {
        let Some(slot) = self.slots.get_mut(name) else {
            return false;
        };
        match resource.as_ref().map(ParsedResource::get) {
            Ok(Some(view)) => *slot = Slot::Got(view),
            Ok(None) => return false,
            Err(error) => *slot = Slot::Failed(error.clone()),
        }
        true
    }

    pub(super) fn get(&self, name: &str) -> &Slot<T> {
        self.slots.get(name).unwrap_or(&Slot::Waiting)
    }

    /// All that are there.
    pub(super) fn values(&self) -> impl Iterator<Item = &Arc<T>> {
        self.slots.values().filter_map(|slot| match slot {
            Slot::Got(value) => Some(value),
            _ => None,
        })
    }
}
