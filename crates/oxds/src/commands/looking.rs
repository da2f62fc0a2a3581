//! A source without a stream, a server that is polled or a file, and the machine that looks on at it.

use std::collections::BTreeSet;
use std::sync::Arc;

use oxds_client::source::{Feed, Io};
use oxds_client::{Bootstrap, Options, Source};
use oxds_core::ads::Transmit;
use oxds_core::observe::{Change, Observer, Request};
use oxds_core::snapshot::Protocol;
use oxds_types::Kind;

use crate::exit::Failure;

/// Follows resources of one kind.
#[derive(Debug)]
pub(crate) struct Looking {
    machine: Observer,
    feed: Feed,
    /// None: all.
    names: BTreeSet<Arc<str>>,
}

impl Looking {
    /// No names: all resources of the kind.
    pub(crate) fn start(
        source: &Source,
        bootstrap: &Bootstrap,
        kind: &Kind,
        names: BTreeSet<Arc<str>>,
    ) -> Result<Self, Failure> {
        let options = Options::default();
        let mut feed = Feed::new(source, kind, bootstrap, &options).map_err(Failure::usage)?;
        feed.transmit(Transmit::Open);
        let (asked, node) = (names.iter().cloned(), bootstrap.node().clone());
        Ok(Self {
            machine: Observer::new(kind.clone(), asked, Protocol::Sotw, node),
            feed,
            names,
        })
    }

    /// What changed with the next answer or state of the file; or why nothing can be made of it: what is held stays, and
    /// there will be another.
    pub(crate) async fn next(&mut self) -> Result<Vec<Change>, String> {
        loop {
            match self.feed.next().await {
                Io::Opened(_) => {
                    let first = self.machine.handle_opened();
                    self.write(first)?;
                }
                Io::Response(response) => {
                    let (request, mut changes) = self.machine.handle_response(response);
                    self.write(request)?;
                    // A file holds what it holds, whatever is asked for.
                    let is_asked = |change: &Change| self.names.contains(&change.name);
                    changes.retain(|change| self.names.is_empty() || is_asked(change));
                    return Ok(changes);
                }
                Io::Unanswered(reason) | Io::Unreadable(reason) | Io::Closed(reason) => {
                    return Err(format!("{}: {reason}", self.feed.uri()));
                }
                // It speaks of full states.
                Io::Unchanged | Io::Difference(_) => {}
            }
        }
    }

    /// An error is what the machine refuses the last answer for.
    fn write(&mut self, request: Request) -> Result<(), String> {
        let Request::Sotw(request) = request else {
            return Ok(());
        };
        let refused = request.error_detail.as_ref();
        let refused = refused.map(|detail| format!("{}: {}", self.feed.uri(), detail.message));
        self.feed.transmit(Transmit::Request(request));
        refused.map_or(Ok(()), Err)
    }
}
