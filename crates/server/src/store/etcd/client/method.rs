//! Methods of etcd's API.

use std::marker::PhantomData;

use http::uri::PathAndQuery;

/// A method of etcd's API with the types of its messages.
pub(super) struct Method<Q, R> {
    path: &'static str,
    messages: PhantomData<fn(Q) -> R>,
}

impl<Q, R> Method<Q, R> {
    /// Names a method by its path.
    pub(super) const fn new(path: &'static str) -> Self {
        Self {
            path,
            messages: PhantomData,
        }
    }

    /// Returns the path of its requests.
    pub(super) fn path(self) -> PathAndQuery {
        PathAndQuery::from_static(self.path)
    }
}

impl<Q, R> Clone for Method<Q, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<Q, R> Copy for Method<Q, R> {}
