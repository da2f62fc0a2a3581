//! One answer to one question, for clients without a stream: `Fetch*` and REST (S-56).
//!
//! ```text
//!  question ──▶ other version? ──yes──▶ response
//!                    │ no      ▲
//!                    ▼         │ a resource that was asked for changed
//!                  wait ───────┘
//!                    └─ patience is over ──▶ not modified
//! ```

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use oxds_core::session::{Config, Interest};
use oxds_core::snapshot::{Resource, Snapshot};
use oxds_types::discovery::{Any, ControlPlane, DiscoveryRequest, DiscoveryResponse};
use oxds_types::{ApiVersion, Fingerprint, Kind};

use crate::ads::Context;

/// What is asked for, checked.
#[derive(Debug)]
pub(crate) struct Question {
    kind: Kind,
    api: ApiVersion,
    interests: Vec<Interest>,
    /// The version that the client has; empty if none.
    pub(crate) held_version: String,
}

/// A question that is not answered, and why. The client is to blame.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refused {
    #[error("type_url `{asked}`: this is the service for `{served}`")]
    WrongKind { asked: String, served: &'static str },
    #[error("more than {0} resource_names")]
    TooManyNames(usize),
    #[error("a name of more than {0} bytes in resource_names")]
    NameTooLong(usize),
}

/// What came of it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Fetched {
    Response(DiscoveryResponse),
    /// The client has it all, and nothing changed while it waited.
    NotModified,
    /// There was nothing to say, not even that there is nothing (S-26).
    NotLoaded,
}

impl Question {
    /// A request to the service of `kind`. The limits are those of streams (S-60).
    pub(crate) fn new(
        kind: &Kind,
        api: ApiVersion,
        request: DiscoveryRequest,
        config: &Config,
    ) -> Result<Self, Refused> {
        let asked = Kind::from_type_url(&request.type_url);
        if !request.type_url.is_empty() && asked.as_ref().is_none_or(|(asked, _)| asked != kind) {
            return Err(Refused::WrongKind {
                asked: request.type_url.chars().take(128).collect(),
                served: kind.short_name().unwrap_or_default(),
            });
        }
        let names = request.resource_names;
        if names.len() > config.max_names {
            return Err(Refused::TooManyNames(config.max_names));
        }
        if names.iter().any(|name| name.len() > config.max_name_len) {
            return Err(Refused::NameTooLong(config.max_name_len));
        }
        let all = names.is_empty() && kind.is_full_state() || names.iter().any(|name| name == "*");
        let interests = if all {
            vec![Interest::All]
        } else {
            let named = |name: String| Interest::Name(name.into());
            let mut interests: Vec<_> = names.into_iter().map(named).collect();
            interests.sort();
            interests.dedup();
            interests
        };
        Ok(Self {
            kind: kind.clone(),
            api: asked.map_or(api, |(_, api)| api),
            interests,
            held_version: request.version_info,
        })
    }

    /// The answer from this snapshot; `None` if the client has it already.
    fn answer(&self, snapshot: &Snapshot, identifier: Option<&str>) -> Option<DiscoveryResponse> {
        let collection = snapshot.kind(&self.kind).collection();
        let (version, resources): (_, Vec<&Arc<Resource>>) = match &*self.interests {
            [Interest::All] => (collection.version(), collection.iter().collect()),
            names => {
                let mut fingerprint = Fingerprint::default();
                let named = names.iter().filter_map(|interest| match interest {
                    Interest::Name(name) => collection.get(name),
                    Interest::All => None,
                });
                let found = named.inspect(|r| fingerprint.add(r.name(), &r.version()));
                let found = found.collect();
                (fingerprint.version(), found)
            }
        };
        if version.as_str() == self.held_version {
            return None;
        }
        let type_url = self.kind.type_url_in(self.api)?;
        let any = |resource: &&Arc<Resource>| Any {
            type_url: type_url.to_owned(),
            value: resource.value(),
        };
        Some(DiscoveryResponse {
            version_info: version.to_string(),
            resources: resources.iter().map(any).collect(),
            type_url: type_url.to_owned(),
            nonce: version.to_string(),
            control_plane: identifier.map(|identifier| ControlPlane {
                identifier: identifier.to_owned(),
            }),
            ..DiscoveryResponse::default()
        })
    }
}

/// Answers at once if there is something the client does not have, or else as soon as there is, within `hold`.
pub(crate) async fn fetch(context: &Context, question: &Question, hold: Duration) -> Fetched {
    let mut watcher = context.cache.enrol();
    for interest in &question.interests {
        watcher.watch(question.kind.clone(), interest.clone());
    }
    let identifier = context.config.identifier.as_deref();
    let changed = std::future::poll_fn(|cx| {
        // First of all: whatever is published from here on wakes this task again.
        watcher.register(cx.waker());
        let snapshot = context.cache.load();
        let answer = snapshot
            .is_loaded()
            .then(|| question.answer(&snapshot, identifier));
        answer.flatten().map_or(Poll::Pending, Poll::Ready)
    });
    tokio::select! {
        biased;
        response = changed => Fetched::Response(response),
        () = tokio::time::sleep(hold) => unchanged(context),
        () = context.closing.cancelled() => unchanged(context),
    }
}

fn unchanged(context: &Context) -> Fetched {
    if context.cache.load().is_loaded() {
        Fetched::NotModified
    } else {
        Fetched::NotLoaded
    }
}
