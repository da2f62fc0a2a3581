//! A writer that is driven request by request, with faults.

use std::collections::BTreeMap;
use std::sync::Arc;

use oxds_core::snapshot::Resource;
use oxds_core::time::Instant;
use oxds_etcd::publisher::{
    FailureKind, MergedState, PublishAnswer, PublishError, PublishEvent, PublishOptions,
    PublishOutcome, PublishRequest, Publisher, RequestFailure, Wanted,
};
use oxds_etcd::{Entry, Place, Prefix, PublishId, Segment, Stored};
use oxds_types::ResourceType;

use crate::model::{Etcd, EtcdError};

pub(crate) fn prefix() -> Prefix {
    Prefix::new("/oxds/default").unwrap()
}

pub(crate) fn lane(name: &str) -> Segment {
    Segment::lane(name).unwrap()
}

/// Key of an entry for all nodes: a cluster.
pub(crate) fn cluster(name: &str) -> Entry {
    Place::of_all(ResourceType::CLUSTER, name).into()
}

pub(crate) fn stored(entry: &Entry, content: &[u8]) -> Arc<Stored> {
    let Entry::Resource(place) = entry else {
        panic!("a matcher has no bytes");
    };
    let resource = Resource::new(
        place.resource_type.clone(),
        Arc::clone(&place.name),
        content,
    );
    Arc::new(Stored::of_resource(&resource, None))
}

/// Wanted state: clusters with these contents.
pub(crate) fn folder<'a>(clusters: impl IntoIterator<Item = (&'a str, &'a str)>) -> Wanted {
    let clusters = clusters.into_iter().map(|(name, content)| {
        let entry = cluster(name);
        let stored = stored(&entry, content.as_bytes());
        (entry, stored)
    });
    Wanted::State(Arc::new(clusters.collect()))
}

/// Wanted state: this number of clusters with this content.
pub(crate) fn many(count: usize, content: &str) -> Wanted {
    let names: Vec<String> = (0..count).map(|at| format!("c{at:06}")).collect();
    folder(names.iter().map(|name| (&**name, content)))
}

pub(crate) fn options(id: u128) -> PublishOptions {
    PublishOptions {
        by: format!("writer-{id}"),
        at: 1_000 + id as u64,
        ..PublishOptions::new(prefix(), lane("main"), PublishId(id << 64))
    }
}

/// Request limit with which a few values need a stage of several batches, in bytes.
pub(crate) const SMALL_LIMIT: usize = 6_000;

/// Options with a small limit of requests.
pub(crate) fn limited(id: u128) -> PublishOptions {
    PublishOptions {
        request_limit: SMALL_LIMIT,
        ..options(id)
    }
}

/// Wanted state that needs a stage of three batches under the small limit.
pub(crate) fn large() -> Wanted {
    many(12, &"x".repeat(900))
}

/// Outcome of the next request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// The request has no effect, and its answer is a failure.
    Lost(FailureKind),
    /// The request has its effect, and its answer is a failure.
    Unknown(FailureKind),
}

/// Publisher with its driver.
#[derive(Debug)]
pub(crate) struct Writer {
    pub(crate) machine: Publisher,
    pub(crate) now: Instant,
    pub(crate) events: Vec<PublishEvent>,
    pub(crate) requests: Vec<PublishRequest>,
    pub(crate) verdict: bool,
}

impl Writer {
    pub(crate) fn new(options: PublishOptions, wanted: Wanted) -> Self {
        Self::of(Publisher::new(options, wanted))
    }

    /// Makes a writer that does not know its wanted state yet, and lets it read.
    pub(crate) fn reading(options: PublishOptions, etcd: &mut Etcd) -> Self {
        Self::of(Publisher::reading(options)).run(etcd)
    }

    fn of(machine: Publisher) -> Self {
        let mut writer = Self {
            machine,
            now: Instant::EPOCH,
            events: Vec::new(),
            requests: Vec::new(),
            verdict: true,
        };
        writer.take_events();
        writer
    }

    /// Gives the machine its wanted state, and does all requests.
    pub(crate) fn with(mut self, wanted: Wanted, etcd: &mut Etcd) -> Self {
        self.machine.handle_wanted(wanted);
        self.take_events();
        self.run(etcd)
    }

    /// Does the next request. Returns whether there was one.
    pub(crate) fn step(&mut self, etcd: &mut Etcd, fault: Fault) -> bool {
        let is_some = self.next_request().is_some();
        if is_some {
            self.answer(etcd, fault);
        }
        is_some
    }

    /// Returns the next request, at the time at which the machine makes it.
    pub(crate) fn next_request(&mut self) -> Option<PublishRequest> {
        if let Some(until) = self.machine.poll_timeout() {
            self.now = self.now.max(until);
        }
        let request = self.machine.poll_transmit(self.now)?;
        assert_eq!(
            self.machine.poll_transmit(self.now),
            None,
            "one request at a time"
        );
        self.requests.push(request.clone());
        Some(request)
    }

    /// Answers the latest request.
    pub(crate) fn answer(&mut self, etcd: &mut Etcd, fault: Fault) {
        let request = self.requests.last().expect("a request").clone();
        let answer = match fault {
            Fault::None => send(etcd, request).map_err(failure),
            Fault::Lost(kind) => Err(RequestFailure::new(kind, "lost")),
            Fault::Unknown(kind) => {
                send(etcd, request).ok();
                Err(RequestFailure::new(kind, "unknown"))
            }
        };
        self.take(answer);
    }

    /// Gives the machine the answer to the latest request.
    pub(crate) fn take(&mut self, answer: Result<PublishAnswer, RequestFailure>) {
        match answer {
            Ok(answer) => self.machine.handle_answer(self.now, answer),
            Err(failure) => self.machine.handle_failure(self.now, failure),
        }
        self.take_events();
    }

    fn take_events(&mut self) {
        while let Some(event) = self.machine.poll_event() {
            let is_question = matches!(event, PublishEvent::Validate(_));
            self.events.push(event);
            if is_question {
                self.machine.handle_verdict(self.now, self.verdict);
            }
        }
    }

    /// Does all requests.
    pub(crate) fn run(mut self, etcd: &mut Etcd) -> Self {
        while self.step(etcd, Fault::None) {}
        self
    }

    /// Does this number of requests.
    pub(crate) fn steps(mut self, etcd: &mut Etcd, count: usize) -> Self {
        for _ in 0..count {
            assert!(self.step(etcd, Fault::None), "it has ended");
        }
        self
    }

    pub(crate) fn outcome(&self) -> Option<&Result<PublishOutcome, PublishError>> {
        match self.events.last() {
            Some(PublishEvent::Done(outcome)) => Some(outcome),
            _ => None,
        }
    }

    pub(crate) fn success(&self) -> &PublishOutcome {
        self.outcome().expect("it has ended").as_ref().unwrap()
    }

    pub(crate) fn error(&self) -> &PublishError {
        self.outcome().expect("it has ended").as_ref().unwrap_err()
    }

    /// Returns the seq of the publish.
    pub(crate) fn seq(&self) -> u64 {
        match self.success() {
            PublishOutcome::Published { seq, .. } => *seq,
            other => panic!("not published: {other:?}"),
        }
    }

    /// Returns the state that the caller was asked about last.
    pub(crate) fn merged(&self) -> &MergedState {
        let states = self.events.iter().rev().find_map(|event| match event {
            PublishEvent::Validate(state) => Some(state),
            _ => None,
        });
        states.expect("a question")
    }
}

/// Publishes everything at once.
pub(crate) fn publish(etcd: &mut Etcd, id: u128, wanted: Wanted) -> Writer {
    Writer::new(options(id), wanted).run(etcd)
}

/// Publishes with a small limit of requests.
pub(crate) fn publish_limited(etcd: &mut Etcd, id: u128, wanted: Wanted) -> Writer {
    Writer::new(limited(id), wanted).run(etcd)
}

pub(crate) fn send(etcd: &mut Etcd, request: PublishRequest) -> Result<PublishAnswer, EtcdError> {
    Ok(match request {
        PublishRequest::Range(request) => PublishAnswer::Range(etcd.range(&request)?),
        PublishRequest::Txn(request) => PublishAnswer::Txn(etcd.txn(&request)?),
        PublishRequest::Grant(request) => PublishAnswer::Granted(etcd.grant(request)?.id),
        PublishRequest::KeepAlive(_) => PublishAnswer::KeptAlive,
        PublishRequest::Revoke(request) => {
            etcd.revoke(request.id).ok();
            PublishAnswer::Revoked
        }
    })
}

fn failure(error: EtcdError) -> RequestFailure {
    let kind = match error {
        EtcdError::NoSpace => FailureKind::NoSpace,
        EtcdError::Compacted => FailureKind::Compacted,
        EtcdError::LeaseNotFound => FailureKind::LeaseEnded,
        EtcdError::RequestTooLarge | EtcdError::TooManyOperations => FailureKind::TooLarge,
        other => panic!("the publisher made an invalid request: {other:?}"),
    };
    RequestFailure::new(kind, format!("{error:?}"))
}

/// State of a lane: contents by entry.
pub(crate) type State = BTreeMap<Entry, Stored>;

/// Returns the state of a folder.
pub(crate) fn state_of(wanted: &Wanted) -> State {
    match wanted {
        Wanted::State(state) => state
            .iter()
            .map(|(entry, stored)| (entry.clone(), (**stored).clone()))
            .collect(),
        Wanted::Changes(_) => panic!("not a folder"),
    }
}
