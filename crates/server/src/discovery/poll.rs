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
use oxds_core::snapshot::{Resource, ResourceSet, Snapshot};
use oxds_types::discovery::{Any, ControlPlane, DiscoveryRequest, DiscoveryResponse, Node};
use oxds_types::name::{WILDCARD, canonical};
use oxds_types::{ApiVersion, Fingerprint, ResourceType, Version};

use super::clients::{Answered, Via};
use super::context::Context;
use crate::cache::View;
use crate::rollback::ReportedNack;

/// What is asked for, checked.
#[derive(Debug, Clone)]
pub(crate) struct Question {
    pub(crate) via: Via,
    pub(crate) node: Option<Node>,
    resource_type: ResourceType,
    api: ApiVersion,
    interests: Vec<Interest>,
    /// The version that the client has; empty if none.
    pub(crate) held_version: String,
    /// Why it refused the last answer.
    pub(crate) error: Option<String>,
    /// Answer, even if the client has it.
    anyway: bool,
}

/// What a question is answered with, at one revision.
#[derive(Debug, Clone)]
pub(crate) struct Told {
    pub(crate) version: Version,
    content: Content,
}

#[derive(Debug, Clone)]
enum Content {
    All(Arc<ResourceSet>),
    Named(Vec<Arc<Resource>>),
}

impl Told {
    pub(crate) fn resources(&self) -> impl Iterator<Item = &Arc<Resource>> {
        let (all, named) = match &self.content {
            Content::All(all) => (Some(all.iter()), None),
            Content::Named(named) => (None, Some(named.iter())),
        };
        all.into_iter().flatten().chain(named.into_iter().flatten())
    }

    /// The version of one resource, if it is among them.
    pub(crate) fn version_of(&self, name: &str) -> Option<Version> {
        let found = match &self.content {
            Content::All(all) => all.get(name),
            // In the order of their names, as the question is.
            Content::Named(named) => named
                .binary_search_by(|resource| (**resource.name()).cmp(name))
                .ok()
                .and_then(|at| named.get(at)),
        };
        found.map(|resource| resource.version())
    }
}

/// A question that is not answered, and why. The client is to blame.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refused {
    #[error("type_url `{asked}`: this is the service for `{served}`")]
    WrongType { asked: String, served: &'static str },
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
        via: Via,
        resource_type: &ResourceType,
        api: ApiVersion,
        request: DiscoveryRequest,
        config: &Config,
    ) -> Result<Self, Refused> {
        let asked = ResourceType::from_type_url(&request.type_url);
        if !request.type_url.is_empty()
            && asked
                .as_ref()
                .is_none_or(|(asked, _)| asked != resource_type)
        {
            return Err(Refused::WrongType {
                asked: request.type_url.chars().take(128).collect(),
                served: resource_type.short_name().unwrap_or_default(),
            });
        }
        let names = request.resource_names;
        if names.len() > config.max_names {
            return Err(Refused::TooManyNames(config.max_names));
        }
        if names.iter().any(|name| name.len() > config.max_name_len) {
            return Err(Refused::NameTooLong(config.max_name_len));
        }
        let all = names.is_empty() && resource_type.all_resources_required_in_sotw()
            || names.iter().any(|name| name == WILDCARD);
        let interests = if all {
            vec![Interest::All]
        } else {
            let named = |name: &String| Interest::Name(canonical(name).into());
            let mut interests: Vec<_> = names.iter().map(named).collect();
            interests.sort();
            interests.dedup();
            interests
        };
        Ok(Self {
            via,
            node: request.node,
            error: request.error_detail.map(|error| error.message),
            anyway: false,
            resource_type: resource_type.clone(),
            api: asked.map_or(api, |(_, api)| api),
            interests,
            held_version: request.version_info,
        })
    }

    pub(crate) fn resource_type(&self) -> &ResourceType {
        &self.resource_type
    }

    pub(crate) fn api(&self) -> ApiVersion {
        self.api
    }

    pub(crate) fn interests(&self) -> &[Interest] {
        &self.interests
    }

    /// What is asked for by name, in order.
    pub(crate) fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.interests.iter().filter_map(|interest| match interest {
            Interest::Name(name) => Some(name),
            Interest::All => None,
        })
    }

    /// Asks for an answer, even if the client has it.
    pub(crate) fn anyway(&mut self) {
        self.anyway = true;
    }

    /// What this snapshot has for the client.
    pub(crate) fn content(&self, snapshot: &Snapshot) -> Told {
        let collection = snapshot
            .of_type_in(&self.resource_type, self.api)
            .collection();
        if self.interests == [Interest::All] {
            return Told {
                version: collection.version(),
                content: Content::All(Arc::clone(collection)),
            };
        }
        let mut fingerprint = Fingerprint::default();
        let found = self.names().filter_map(|name| collection.get(name));
        let found: Vec<_> = found.cloned().collect();
        for resource in &found {
            fingerprint.add(resource.name(), &resource.version());
        }
        Told {
            version: fingerprint.version(),
            content: Content::Named(found),
        }
    }

    /// Whether the client has to be told this.
    fn lacks(&self, told: &Told) -> bool {
        self.anyway || told.version.as_str() != self.held_version
    }

    fn response(&self, told: &Told, identifier: Option<&str>) -> Option<DiscoveryResponse> {
        let type_url = self.resource_type.type_url_in(self.api)?;
        let any = |resource: &Arc<Resource>| Any {
            type_url: type_url.to_owned(),
            value: resource.value(),
        };
        Some(DiscoveryResponse {
            version_info: told.version.to_string(),
            resources: told.resources().map(any).collect(),
            type_url: type_url.to_owned(),
            nonce: told.version.to_string(),
            control_plane: identifier.map(|identifier| ControlPlane {
                identifier: identifier.to_owned(),
            }),
            ..DiscoveryResponse::default()
        })
    }
}

/// Answers at once if there is something the client does not have, or else as soon as there is, within `hold`.
pub(crate) async fn fetch(context: &Context, question: &Question, hold: Duration) -> Fetched {
    let (polls, clock) = (&context.clients.polls, context.server.clock);
    if !question.anyway
        && let Some(answered) = polls.ask(clock.now(), question)
    {
        context
            .server
            .metrics
            .poll_answered(&question.resource_type, answered == Answered::Accepted);
        if answered == Answered::Refused {
            react(context, question);
        }
        context.cache.notifier().notify();
    }
    let view = match &question.node {
        Some(node) => context.cache.view(node),
        None => Arc::clone(context.cache.root()),
    };
    let mut watcher = view.register_session();
    watcher.watch(&question.resource_type, question.interests.clone());
    let changed = std::future::poll_fn(|cx| {
        // First of all: whatever is published from here on wakes this task again.
        watcher.register(cx.waker());
        let snapshot = view.load();
        if !snapshot.is_loaded() {
            return Poll::Pending;
        }
        let told = question.content(&snapshot);
        if question.api == ApiVersion::V2 {
            context
                .not_representable
                .log(&snapshot, &question.resource_type);
        }
        if question.lacks(&told) {
            return Poll::Ready(told);
        }
        polls.has(clock.now(), question, told);
        Poll::Pending
    });
    let told = tokio::select! {
        biased;
        told = changed => told,
        () = tokio::time::sleep(hold) => return unchanged(&view),
        () = context.server.closing.cancelled() => return unchanged(&view),
    };
    match question.response(&told, context.config.identifier.as_deref()) {
        Some(response) => {
            polls.sent(clock.now(), question, told);
            context.cache.notifier().notify();
            Fetched::Response(response)
        }
        None => unchanged(&view),
    }
}

/// The client has refused what it was sent last.
fn react(context: &Context, question: &Question) {
    let rejections = context
        .clients
        .polls
        .rejections(context.server.clock.now(), question);
    let refused: Vec<_> = rejections
        .into_iter()
        .map(|(name, resource)| ReportedNack {
            resource_type: question.resource_type.clone(),
            name,
            resource,
        })
        .collect();
    let node = question.node.as_ref().map_or("", |node| &node.id);
    context
        .rollback
        .nacked(context.server.clock.now(), node, &refused);
}

fn unchanged(view: &View) -> Fetched {
    if view.load().is_loaded() {
        Fetched::NotModified
    } else {
        Fetched::NotLoaded
    }
}
