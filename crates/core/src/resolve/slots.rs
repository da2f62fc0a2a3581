//! Watched resources of one type.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::command::WatchCommand;
use crate::ads::{WatchError, WatchErrorReason};
use crate::resource::{ParsedResource, Typed};

/// State of one watched resource.
#[derive(Debug)]
pub(super) enum Slot<T> {
    /// No answer yet, or not watched.
    Waiting,
    /// The resource.
    Got(Arc<T>),
    /// Error because of which no resource can be used.
    Failed(WatchError),
}

/// Meaning of an unreachable server for its resources.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unreachable {
    /// An error: the resources are not available.
    IsError,
    /// No answer yet: the resolver waits.
    IsPending,
}

impl<T> Slot<T> {
    /// Returns the resource, or the error that prevents its use; `None` without an answer.
    pub(super) fn answer(&self, unreachable: Unreachable) -> Option<Result<&Arc<T>, &WatchError>> {
        match self {
            Self::Waiting => None,
            // gRFC A57: a connectivity error says nothing about the resource itself.
            Self::Failed(error)
                if unreachable == Unreachable::IsPending
                    && error.reason == WatchErrorReason::Unreachable =>
            {
                None
            }
            Self::Failed(error) => Some(Err(error)),
            Self::Got(resource) => Some(Ok(resource)),
        }
    }
}

/// Watched resources of one type, by name.
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
    /// Watches exactly these names: adds commands for the differences.
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

    /// Sets the state of a watched resource. Returns `false` if it is not watched.
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

    /// Returns whether a name is watched.
    pub(super) fn has(&self, name: &str) -> bool {
        self.slots.contains_key(name)
    }

    /// Returns a resource, if it exists.
    pub(super) fn found(&self, name: &str) -> Option<&Arc<T>> {
        match self.slots.get(name)? {
            Slot::Got(value) => Some(value),
            Slot::Waiting | Slot::Failed(_) => None,
        }
    }

    /// Returns all resources that exist.
    pub(super) fn values(&self) -> impl Iterator<Item = &Arc<T>> {
        self.slots.values().filter_map(|slot| match slot {
            Slot::Got(value) => Some(value),
            _ => None,
        })
    }
}
