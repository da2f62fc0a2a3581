//! A subscription to one resource type: a source (ADS, REST or file) and the machine that observes it.

use std::sync::Arc;

use oxds_client::bootstrap::Server;
use oxds_client::source::{Feed, SourceEvent, StreamEnd};
use oxds_client::{Bootstrap, Options, Source};
use oxds_core::ads::AdsTransmit;
use oxds_core::observe::{ObservedChange, ObservedResource, Observer, ObserverRequest};
use oxds_core::resource::ResourceCheck;
use oxds_core::snapshot::Protocol;
use oxds_types::{ApiVersion, ResourceType};
use tonic::{Code, Status};

use super::control_plane::{rpc_failed, unreachable};
use crate::exit::Failure;

/// Follows the resources of one type.
#[derive(Debug)]
pub(crate) struct Subscription {
    machine: Observer,
    feed: Feed,
    /// Whether the source was reachable at least once.
    is_opened: bool,
}

/// Error in the place of an update. The resources received before stay valid.
#[derive(Debug)]
pub(crate) enum FollowError {
    /// The source was never reachable, for this reason.
    Absent(Failure),
    /// The stream ended, or a new one cannot be opened. [`Subscription::reopen`] tries again.
    Ended(StreamEnd),
    /// The response is invalid, or a poll got none, for this reason. Another one may follow.
    Invalid(String),
}

impl Subscription {
    /// Starts to follow a source. Without names it subscribes to all resources of the type. `bootstrap`
    /// has the node, and the server of an ADS source.
    pub(crate) fn start(
        source: &Source,
        bootstrap: &Bootstrap,
        resource_type: &ResourceType,
        names: impl IntoIterator<Item = Arc<str>>,
        protocol: Protocol,
    ) -> Result<Self, Failure> {
        let options = Options::default().with_protocol(protocol);
        let mut feed =
            Feed::new(source, resource_type, bootstrap, &options).map_err(Failure::usage)?;
        feed.transmit(AdsTransmit::Open);
        let server = bootstrap.servers().first();
        let version = server.map_or(ApiVersion::V3, Server::version);
        let machine = Observer::new(
            resource_type.clone(),
            names,
            protocol,
            bootstrap.node().clone(),
        );
        Ok(Self {
            machine: machine.with_api_version(version),
            feed,
            is_opened: false,
        })
    }

    /// Sets a check of every received resource; a response with one that does not pass is NACKed.
    pub(crate) fn with_check(mut self, check: ResourceCheck) -> Self {
        self.machine = self.machine.with_check(Some(check));
        self
    }

    /// Returns the changes of the next response or of the next state of the file. They are empty if it has
    /// none.
    pub(crate) async fn next(&mut self) -> Result<Vec<ObservedChange>, FollowError> {
        loop {
            let (request, changes) = match self.feed.next().await {
                SourceEvent::Opened(_) => {
                    self.is_opened = true;
                    (self.machine.handle_opened(), None)
                }
                SourceEvent::Response(response) => {
                    let (request, changes) = self.machine.handle_response(response);
                    (request, Some(changes))
                }
                SourceEvent::DeltaResponse(response) => {
                    let (request, changes) = self.machine.handle_delta_response(response);
                    (request, Some(changes))
                }
                SourceEvent::Unchanged => continue,
                SourceEvent::Closed(ended) if !self.is_opened => {
                    let failure = unreachable(self.feed.uri(), &ended.message);
                    return Err(FollowError::Absent(failure));
                }
                SourceEvent::Closed(ended) => return Err(FollowError::Ended(ended)),
                SourceEvent::PollFailed(reason) | SourceEvent::Invalid(reason) => {
                    return Err(self.invalid(&reason));
                }
            };
            self.send(request)?;
            if let Some(changes) = changes {
                return Ok(changes);
            }
        }
    }

    /// Opens another stream after one ended.
    pub(crate) fn reopen(&mut self) {
        self.feed.transmit(AdsTransmit::Open);
    }

    /// Returns the URI of the source.
    pub(crate) fn uri(&self) -> &str {
        self.feed.uri()
    }

    /// Returns the received resources by name.
    pub(crate) fn resources(&self) -> impl Iterator<Item = (&Arc<str>, &ObservedResource)> {
        self.machine.held()
    }

    /// Sends a request. Returns an error if the request is a NACK, with its reason.
    fn send(&mut self, request: ObserverRequest) -> Result<(), FollowError> {
        let (transmit, error_detail) = match request {
            ObserverRequest::Sotw(request) => {
                let error_detail = request.error_detail.clone();
                (AdsTransmit::SotwRequest(request), error_detail)
            }
            ObserverRequest::Delta(request) => {
                let error_detail = request.error_detail.clone();
                (AdsTransmit::DeltaRequest(request), error_detail)
            }
        };
        self.feed.transmit(transmit);
        error_detail.map_or(Ok(()), |detail| Err(self.invalid(&detail.message)))
    }

    fn invalid(&self, reason: &str) -> FollowError {
        FollowError::Invalid(format!("{}: {reason}", self.feed.uri()))
    }
}

impl FollowError {
    /// Returns the failure of a command that does not retry.
    pub(crate) fn into_failure(self) -> Failure {
        match self {
            Self::Absent(failure) => failure,
            Self::Ended(ended) => rpc_failed(&Status::new(ended.code, ended.message)),
            Self::Invalid(reason) => Failure::negative(reason),
        }
    }

    /// Returns the cause if another stream may succeed. A restart of the control plane may end soon, but
    /// a rejected subscription would be rejected again.
    pub(crate) fn retryable(&self) -> Option<&str> {
        match self {
            Self::Ended(ended) => {
                // The codes of an orderly shutdown and of a broken connection.
                let codes = [Code::Ok, Code::Unavailable, Code::Unknown, Code::Cancelled];
                codes.contains(&ended.code).then_some(&ended.message)
            }
            Self::Absent(_) | Self::Invalid(_) => None,
        }
    }
}
