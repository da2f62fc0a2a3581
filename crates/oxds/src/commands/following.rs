//! A source of resources of one kind, whatever its make, and the machine that looks on at it.

use std::sync::Arc;

use oxds_client::bootstrap::Server;
use oxds_client::source::{Feed, SourceEvent, StreamEnd};
use oxds_client::{Bootstrap, Options, Source};
use oxds_core::ads::AdsTransmit;
use oxds_core::observe::{ObservedChange, ObservedResource, Observer, ObserverRequest};
use oxds_core::snapshot::Protocol;
use oxds_types::{ApiVersion, ResourceType};
use tonic::{Code, Status};

use super::control_plane::{refused, unreachable};
use crate::exit::Failure;

/// Follows resources of one kind.
#[derive(Debug)]
pub(crate) struct Following {
    machine: Observer,
    feed: Feed,
    /// The source could be asked at least once.
    is_begun: bool,
}

/// Why there is no word. What is held stays.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The source was never there; the failure says why.
    Absent(Failure),
    /// The stream ended, or the next one cannot be had. [`Following::reopen`] tries again.
    Ended(StreamEnd),
    /// Nothing can be made of an answer, or none came. There will be another.
    Unusable(String),
}

impl Following {
    /// No names: all resources of the kind. `bootstrap` says who asks, and which server, where it is one of those.
    pub(crate) fn start(
        source: &Source,
        bootstrap: &Bootstrap,
        resource_type: &ResourceType,
        names: impl IntoIterator<Item = Arc<str>>,
        protocol: Protocol,
    ) -> Result<Self, Failure> {
        let options = Options {
            protocol,
            ..Options::default()
        };
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
            is_begun: false,
        })
    }

    /// What changed with the next answer, or state of the file; nothing, if that says nothing new.
    pub(crate) async fn next(&mut self) -> Result<Vec<ObservedChange>, Trouble> {
        loop {
            let (answer, changes) = match self.feed.next().await {
                SourceEvent::Opened(_) => {
                    self.is_begun = true;
                    (self.machine.handle_opened(), None)
                }
                SourceEvent::Response(response) => {
                    let (answer, changes) = self.machine.handle_response(response);
                    (answer, Some(changes))
                }
                SourceEvent::DeltaResponse(response) => {
                    let (answer, changes) = self.machine.handle_delta_response(response);
                    (answer, Some(changes))
                }
                SourceEvent::Unchanged => continue,
                SourceEvent::Closed(ended) if !self.is_begun => {
                    let failure = unreachable(self.feed.uri(), &ended.message);
                    return Err(Trouble::Absent(failure));
                }
                SourceEvent::Closed(ended) => return Err(Trouble::Ended(ended)),
                SourceEvent::PollFailed(reason) | SourceEvent::Invalid(reason) => {
                    return Err(self.unusable(&reason));
                }
            };
            self.write(answer)?;
            if let Some(changes) = changes {
                return Ok(changes);
            }
        }
    }

    /// Asks again after the stream ended.
    pub(crate) fn reopen(&mut self) {
        self.feed.transmit(AdsTransmit::Open);
    }

    /// How the source is called.
    pub(crate) fn uri(&self) -> &str {
        self.feed.uri()
    }

    /// What is held, by name.
    pub(crate) fn held(&self) -> impl Iterator<Item = (&Arc<str>, &ObservedResource)> {
        self.machine.held()
    }

    /// An error is what the machine refuses the last answer for.
    fn write(&mut self, request: ObserverRequest) -> Result<(), Trouble> {
        let (transmit, refusal) = match request {
            ObserverRequest::Sotw(request) => {
                let refusal = request.error_detail.clone();
                (AdsTransmit::SotwRequest(request), refusal)
            }
            ObserverRequest::Delta(request) => {
                let refusal = request.error_detail.clone();
                (AdsTransmit::DeltaRequest(request), refusal)
            }
        };
        self.feed.transmit(transmit);
        refusal.map_or(Ok(()), |detail| Err(self.unusable(&detail.message)))
    }

    fn unusable(&self, reason: &str) -> Trouble {
        Trouble::Unusable(format!("{}: {reason}", self.feed.uri()))
    }
}

impl Trouble {
    /// For who asks once.
    pub(crate) fn into_failure(self) -> Failure {
        match self {
            Self::Absent(failure) => failure,
            Self::Ended(ended) => refused(&Status::new(ended.code, ended.message)),
            Self::Unusable(reason) => Failure::negative(reason),
        }
    }

    /// Why to ask again, if that may help: control planes come and go; what they refuse they will refuse again.
    pub(crate) fn passing(&self) -> Option<&str> {
        match self {
            Self::Ended(ended) => {
                // As a server that goes in order says it, and what a connection that breaks looks like.
                let codes = [Code::Ok, Code::Unavailable, Code::Unknown, Code::Cancelled];
                codes.contains(&ended.code).then_some(&ended.message)
            }
            Self::Absent(_) | Self::Unusable(_) => None,
        }
    }
}
