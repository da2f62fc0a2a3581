//! Metrics of the server, for Prometheus.

pub(crate) mod encoding;
mod page;
mod plain;
mod reasons;
pub(crate) mod store_connection;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicI64, AtomicU64};

use oxds_core::session::{Event, TransmitResponse};
use oxds_core::snapshot::Protocol;
use oxds_types::ResourceType;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

pub(crate) use page::render;
pub(crate) use reasons::{DeniedBy, InvalidPart, Limit};

use crate::store::NoticeCounts;

/// Counters that streams add to.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    own_types: BTreeSet<ResourceType>,
    streams: Family<ByProtocol, Gauge<i64, AtomicI64>>,
    requests: Counter<u64, AtomicU64>,
    responses: Family<ByType, Counter>,
    bytes: Family<ByType, Counter>,
    answers: Answers,
    unknown_types: Counter,
    held_too_long: Family<ByType, Counter>,
    rollbacks: Family<ByType, Counter>,
    denied: Family<ByReason, Counter>,
    over_limit: Family<ByLimit, Counter>,
    invalid: Family<ByPart, Counter>,
    moved: Family<ByReason, Counter>,
    throttled: Counter,
    notices: Notices,
}

/// Counters of the answers of clients.
#[derive(Debug, Default)]
struct Answers {
    acks: Family<ByType, Counter>,
    nacks: Family<ByType, Counter>,
    stale_nonces: Family<ByType, Counter>,
}

/// Counters of notices about documents that were read.
#[derive(Debug, Default)]
struct Notices {
    deprecated_uses: Counter,
    wip_protos: Counter,
    static_unknown_fields: Counter,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ByProtocol {
    protocol: &'static str,
}

/// The label of metrics per resource type. The name of the field is the name of the label.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ByType {
    resource_type: Cow<'static, str>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ByReason {
    reason: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ByLimit {
    limit: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ByPart {
    part: &'static str,
}

/// Returns the name of a protocol variant in metrics and status.
pub(crate) fn protocol_name(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Sotw => "sotw",
        Protocol::Delta => "delta",
    }
}

impl Metrics {
    /// Creates metrics at zero. Custom types that are registered get their own label; unknown types share one.
    pub(crate) fn new(own_types: BTreeSet<ResourceType>) -> Self {
        Self {
            own_types,
            ..Self::default()
        }
    }

    /// Returns the label of a resource type. Unknown types share the label `other`: a client that invents types must
    /// not create time series.
    fn by_type(&self, resource_type: &ResourceType) -> ByType {
        let resource_type = match resource_type.short_name() {
            Some(short) => short.into(),
            None if self.own_types.contains(resource_type) => {
                resource_type.message().to_owned().into()
            }
            None => "other".into(),
        };
        ByType { resource_type }
    }

    pub(crate) fn stream_opened(&self, protocol: Protocol) {
        self.streams
            .get_or_create(&ByProtocol {
                protocol: protocol_name(protocol),
            })
            .inc();
    }

    pub(crate) fn stream_closed(&self, protocol: Protocol) {
        self.streams
            .get_or_create(&ByProtocol {
                protocol: protocol_name(protocol),
            })
            .dec();
    }

    pub(crate) fn request(&self) {
        self.requests.inc();
    }

    /// Counts a call or a secret that was denied.
    pub(crate) fn denied(&self, by: DeniedBy) {
        let reason = by.label();
        self.denied.get_or_create(&ByReason { reason }).inc();
    }

    /// Counts a connection, stream or request that was ended by a limit.
    pub(crate) fn over_limit(&self, limit: Limit) {
        let limit = limit.label();
        self.over_limit.get_or_create(&ByLimit { limit }).inc();
    }

    /// Counts a connection or request that breaks the protocol.
    pub(crate) fn invalid(&self, part: InvalidPart) {
        let part = part.label();
        self.invalid.get_or_create(&ByPart { part }).inc();
    }

    /// Counts a connection whose client is asked to make another one.
    pub(crate) fn moved(&self, reason: &'static str) {
        self.moved.get_or_create(&ByReason { reason }).inc();
    }

    /// Counts a stream that waits because its requests come too fast.
    pub(crate) fn throttled(&self) {
        self.throttled.inc();
    }

    pub(crate) fn response(&self, response: &TransmitResponse) {
        let resource_type = self.by_type(&response.resource_type);
        self.responses.get_or_create(&resource_type).inc();
        self.bytes
            .get_or_create(&resource_type)
            .inc_by(response.frame.len() as u64);
    }

    pub(crate) fn event(&self, event: &Event) {
        let (family, resource_type) = match event {
            Event::Acked { resource_type, .. } => (&self.answers.acks, resource_type),
            Event::Nacked { resource_type, .. } => (&self.answers.nacks, resource_type),
            Event::StaleNonce(resource_type) => (&self.answers.stale_nonces, resource_type),
            Event::HeldTooLong { resource_type, .. } => (&self.held_too_long, resource_type),
            Event::UnknownType(_) => {
                self.unknown_types.inc();
                return;
            }
            Event::Watched(..) | Event::Unwatched(..) => return,
        };
        family.get_or_create(&self.by_type(resource_type)).inc();
    }

    /// Counts deprecated, unfinished and accepted unknown fields of documents that were read.
    pub(crate) fn notices(&self, counts: NoticeCounts) {
        self.notices.deprecated_uses.inc_by(counts.deprecated);
        self.notices.wip_protos.inc_by(counts.work_in_progress);
        self.notices
            .static_unknown_fields
            .inc_by(counts.unknown_fields);
    }

    /// Counts a change that was rolled back.
    pub(crate) fn rolled_back(&self, resource_type: &ResourceType) {
        self.rollbacks
            .get_or_create(&self.by_type(resource_type))
            .inc();
    }

    /// Returns a registry with all counters. [`Scrape`](crate::admin::Scrape) adds the metrics that are read at each
    /// scrape.
    pub(crate) fn registry(&self) -> Registry {
        let mut registry = Registry::with_prefix("oxds");
        registry.register("streams", "Open ADS streams", self.streams.clone());
        registry.register(
            "requests",
            "Discovery requests received",
            self.requests.clone(),
        );
        registry.register(
            "responses",
            "Discovery responses sent",
            self.responses.clone(),
        );
        registry.register(
            "response_bytes",
            "Bytes of discovery responses",
            self.bytes.clone(),
        );
        registry.register(
            "acks",
            "Responses accepted by clients",
            self.answers.acks.clone(),
        );
        registry.register(
            "nacks",
            "Responses rejected by clients",
            self.answers.nacks.clone(),
        );
        let help = "Requests that answered an older response";
        registry.register("stale_nonces", help, self.answers.stale_nonces.clone());
        let help = "Requests for unknown resource types";
        registry.register("unknown_types", help, self.unknown_types.clone());
        let help = "Changes sent although the client was not ready for them";
        registry.register("held_too_long", help, self.held_too_long.clone());
        let help = "Calls and secrets denied by authorization, hooks or API version";
        registry.register("denied", help, self.denied.clone());
        let help = "Connections, streams and requests ended by a limit";
        registry.register("over_limit", help, self.over_limit.clone());
        let help = "Connections and requests that break the protocol";
        registry.register("invalid", help, self.invalid.clone());
        let help = "Connections that were ended so that clients spread over servers";
        registry.register("connections_moved", help, self.moved.clone());
        let help = "Times a stream waited because its requests came too fast";
        registry.register("throttled", help, self.throttled.clone());
        let help = "Changes rolled back after NACKs";
        registry.register("rollbacks", help, self.rollbacks.clone());
        let help =
            "Uses of deprecated fields and enum values in files that were read and may be served";
        let counter = self.notices.deprecated_uses.clone();
        registry.register("runtime_deprecated_feature_use", help, counter);
        let help =
            "Uses of fields, messages and files that are work in progress, in files that were read";
        registry.register("wip_protos", help, self.notices.wip_protos.clone());
        let help = "Unknown fields that were accepted in files that were read";
        let counter = self.notices.static_unknown_fields.clone();
        registry.register("static_unknown_fields", help, counter);
        registry
    }
}
