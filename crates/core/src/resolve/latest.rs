//! Latest configuration of a resolver, announced once.

use std::sync::Arc;

use crate::ads::WatchError;

/// Latest configuration, or the error that prevents one.
#[derive(Debug)]
pub(super) struct Latest<C> {
    current: Option<Result<Arc<C>, WatchError>>,
    /// Whether `current` was polled.
    is_polled: bool,
}

impl<C> Default for Latest<C> {
    fn default() -> Self {
        Self {
            current: None,
            is_polled: true,
        }
    }
}

impl<C> Latest<C> {
    /// Returns the configuration, unless an error prevents one.
    pub(super) fn ok(&self) -> Option<&Arc<C>> {
        self.current.as_ref()?.as_ref().ok()
    }

    /// Replaces it. An error that is the same as before is not announced again.
    pub(super) fn set(&mut self, next: Result<Arc<C>, WatchError>) {
        if let (Some(Err(before)), Err(error)) = (&self.current, &next)
            && before == error
        {
            return;
        }
        self.current = Some(next);
        self.is_polled = false;
    }

    /// Returns it, once after each change.
    pub(super) fn poll(&mut self) -> Option<Result<Arc<C>, WatchError>> {
        if std::mem::replace(&mut self.is_polled, true) {
            None
        } else {
            self.current.clone()
        }
    }
}
