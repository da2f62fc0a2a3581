//! The explanation as data: the path of a request, step by step.

use serde::Serialize;

use super::request::Request;

/// Where a request goes, and why.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Explanation {
    /// The request.
    pub request: Request,
    /// One answer if all rule sets lead to the same destinations, else one per rule set.
    pub answers: Vec<Answer>,
}

/// Rules by which a client routes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleSet {
    /// Those of gRPC clients (gRFC A27, A28).
    Grpc,
    /// Those of Envoy.
    Envoy,
}

/// Decision by one rule set, or by several that agree.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Answer {
    /// The rule sets that lead to these destinations. The steps and policies are those of the first one.
    pub rules: Vec<RuleSet>,
    /// Steps and destinations.
    #[serde(flatten)]
    pub decision: Decision,
    /// The differences by the other rule sets although the destinations are the same, such as the timeout; or, if there
    /// are several answers, the first step at which they part.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub differences: Vec<String>,
}

/// Steps of a decision, and where they lead.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Decision {
    /// The listener, if it exists and can be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listener: Option<ListenerStep>,
    /// The route configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub route_config: Option<RouteConfigStep>,
    /// The virtual host; none if no domain matches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub virtual_host: Option<HostStep>,
    /// Routes of the virtual host, in the order in which they are tried.
    pub routes: Vec<RouteStep>,
    /// Where the request may go. The shares are above zero, and their sum is 1.
    pub destinations: Vec<Destination>,
    /// Clusters of the destinations, each once.
    pub clusters: Vec<ClusterStep>,
    /// Fields that could change the answer, and that were not examined.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_examined: Vec<String>,
}

/// The listener.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ListenerStep {
    /// Name of the resource.
    pub name: String,
    /// `api_listener`, or the filter chain.
    pub part: String,
}

/// The route configuration.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RouteConfigStep {
    /// Name; may be empty inside a listener.
    pub name: String,
    /// Where it comes from: `RDS`, `inside the listener`, `SRDS scope …`.
    pub source: String,
}

/// The virtual host.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HostStep {
    /// Position in the route configuration, from 0.
    pub index: usize,
    /// Name.
    pub name: String,
    /// Domain that matches best, in lower case.
    pub domain: String,
    /// How it matches: `exact`, `suffix`, `prefix` or `any`.
    pub domain_match: &'static str,
    /// Authority as it was compared.
    pub authority: String,
}

/// A route, and what came of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RouteStep {
    /// Position in the virtual host, from 0.
    pub index: usize,
    /// Name; may be empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Conditions of the route, such as `prefix "/shop."`.
    pub condition: String,
    /// Result for this request.
    #[serde(flatten)]
    pub outcome: RouteOutcome,
}

/// Place of a route in a listener.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RoutePlace {
    /// Name of the route configuration.
    pub route_config: String,
    /// Position of the virtual host, from 0.
    pub host: usize,
    /// Name of the virtual host.
    pub host_name: String,
    /// Position of the route in the virtual host, from 0.
    pub route: usize,
    /// Name of the route; may be empty.
    pub name: String,
    /// Conditions of the route.
    pub condition: String,
}

/// Result of a route for a request.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum RouteOutcome {
    /// Takes this share of the requests; above zero.
    Taken {
        /// Share, up to 1.
        share: f64,
    },
    /// A condition is not met.
    NotMatched {
        /// The condition, and what the request has.
        reason: String,
    },
    /// Would match, but earlier routes take all such requests.
    Shadowed {
        /// Position of the route that takes the last of them.
        by: usize,
    },
    /// The rule set ignores the route.
    Ignored {
        /// The reason.
        reason: String,
    },
    /// All that was examined matches. The explanation goes on as if it did not match.
    Unknown {
        /// Fields that were not examined.
        fields: String,
    },
}

/// Where a share of the requests goes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Destination {
    /// Share of the requests, above zero and up to 1.
    pub share: f64,
    /// Position of the route; none if no route matches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub route: Option<usize>,
    /// Result of the request.
    #[serde(flatten)]
    pub action: Action,
}

/// Result of a request.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "action", rename_all = "snake_case")]
pub enum Action {
    /// Sent to a cluster.
    Forward {
        /// Name of the cluster.
        cluster: String,
        /// Policies in force, such as timeout, retries and hash, each with its name: `timeout: 10s`.
        policies: Vec<String>,
        /// HTTP filters in force, in the order in which they run.
        filters: Vec<String>,
    },
    /// Answered with a redirect.
    Redirect {
        /// HTTP status.
        status: u32,
        /// The parts of the URL that change.
        changes: Vec<String>,
    },
    /// Answered by the proxy itself.
    DirectResponse {
        /// HTTP status.
        status: u32,
    },
    /// Failed.
    Fail {
        /// Class of the failure.
        reason: FailureReason,
        /// Status that the caller gets, and the cause.
        text: String,
    },
    /// The route has an action that was not examined.
    Unknown {
        /// The field.
        field: String,
    },
}

/// Class of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureReason {
    /// Listener or route configuration is missing, invalid, or of no use to this client.
    NoConfiguration,
    /// No virtual host has a domain that matches.
    NoVirtualHost,
    /// No route matches.
    NoRoute,
    /// The request lacks the header that names the cluster.
    NoCluster,
    /// The client does not support the action of the route.
    Unsupported,
}

/// A cluster, and how it spreads requests.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct ClusterStep {
    /// Name.
    pub name: String,
    /// Type, such as `EDS`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub discovery: String,
    /// Load-balancing policy.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub balancing: String,
    /// Error because of which requests to it fail.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Priorities, in the order of failover.
    pub priorities: Vec<PriorityStep>,
    /// The conditions of the shares.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// Endpoints of one priority.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PriorityStep {
    /// Cluster that it belongs to; for an aggregate cluster, one of those that it names.
    pub cluster: String,
    /// Number, from 0.
    pub priority: u32,
    /// Share of the cluster's requests while all its endpoints can be reached.
    pub share: f64,
    /// Localities.
    pub localities: Vec<LocalityStep>,
}

/// Endpoints of one locality.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LocalityStep {
    /// `region/zone/sub_zone`.
    pub name: String,
    /// Weight; none if it is unset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
    /// Share of the cluster's requests.
    pub share: f64,
    /// Endpoints.
    pub endpoints: Vec<EndpointStep>,
}

/// An endpoint.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EndpointStep {
    /// Address, such as `127.0.0.1:80`.
    pub address: String,
    /// Health status by the control plane, such as `HEALTHY`.
    pub health: String,
    /// Weight; none if it is unset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
    /// Share of the cluster's requests; none if it depends on more than the configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
    /// Why it gets no requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unused: Option<String>,
}
