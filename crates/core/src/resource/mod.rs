//! Views of the resources that a data plane uses: parsed and validated once.
//!
//! A view is made from the bytes of a resource. It has only the fields that oxds uses, compiled and in range. A
//! resource that breaks a rule becomes an [`Invalid`] instead, with the field and the rule, for the NACK (gRFC A27,
//! A28, and the rules that each view cites).
//!
//! | view | of | rules |
//! |---|---|---|
//! | [`Listener`] | `envoy.config.listener.v3.Listener` | gRFC A27, A28, A31, A36, A39, A41 |
//! | [`RouteConfig`] | `envoy.config.route.v3.RouteConfiguration` | gRFC A28, A31, A39, A42, A44, A63, A81 |
//! | [`Cluster`] | `envoy.config.cluster.v3.Cluster` | gRFC A27, A29, A32, A37, A47, A75, A82, A101 |
//! | [`Assignment`] | `envoy.config.endpoint.v3.ClusterLoadAssignment` | gRFC A27, A56, A81 |
//!
//! Views leave out all fields that no gRPC client reads. To get a complete resource, or one of a type without a view,
//! watch it as the generated message ([`Typed`]), or raw.

mod affinity;
mod assignment;
mod balancing;
mod check;
mod cidr;
mod cluster;
mod convert;
mod discovery;
mod extension;
mod filter;
mod header_matcher;
mod invalid;
mod listener;
mod metrics;
mod name;
mod outlier;
mod parser;
mod plugins;
mod policies;
mod re2;
mod route;
mod string_matcher;
mod tls;
mod views;

pub use assignment::{Assignment, Endpoint, Locality, LocalityId};
pub use check::ResourceCheck;
pub use cidr::Cidr;
pub use cluster::{Cluster, LrsServer};
#[cfg(feature = "explain")]
pub(crate) use convert::full_match;
pub use discovery::{Discovery, DnsTarget};
pub use extension::{ExtensionConfig, ExtensionValue, Extensions, ParsedExtension};
pub use filter::{
    AuditTarget, CustomFilter, CustomLogger, FilterConfig, FilterOverride, FilterOverrides,
    HttpFilter, RbacConfig,
};
#[cfg(feature = "explain")]
pub(crate) use header_matcher::header_matcher;
pub use invalid::Invalid;
pub use listener::{ApiListener, FilterChain, FilterChains, Listener, RouteSource, SocketListener};
pub use metrics::MetricSelection;
pub(crate) use metrics::NAMED_PREFIX;
pub use name::own_name;
pub use parser::{ParsedResource, ResourceParser, ResourceParsers, Typed};
pub use route::{
    Forward, HostRewrite, IgnoredReason, IgnoredRoute, Route, RouteAction, RouteConfig,
    RouteTarget, StreamLimit, VirtualHost, WeightedTarget,
};
#[cfg(feature = "explain")]
pub(crate) use string_matcher::string_matcher;
pub use tls::{
    CertificateInstance, DownstreamTls, Roots, SanKind, SanMatcher, TlsRules, UpstreamTls,
};
