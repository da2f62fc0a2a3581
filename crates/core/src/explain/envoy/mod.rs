//! Decisions by Envoy's rules: virtual host, routes and action, with the reason for each step.
//!
//! The rules are those of Envoy's `source/common/router/config_impl.cc`. Where they differ from gRPC's:
//!
//! | | gRPC | Envoy |
//! |---|---|---|
//! | query parameters | the route is ignored | compared |
//! | path | that of the method | without the query string |
//! | hidden headers, pseudo-headers | absent | compared |
//! | `runtime_fraction`, weights of clusters | a random number each | one random number per request |
//! | two virtual hosts with one domain | the first one | the route configuration is rejected |
//! | redirect, direct response | the RPC fails | answered by Envoy |

mod action;
mod chance;
mod clusters;
mod cookie;
mod entry;
mod matcher;
mod policies;
mod query;
mod spread;
mod table;
mod unexamined;
mod walk;

use super::model::{Decision, FailureReason};

pub(super) use entry::{Entry, has_socket_only};
pub(super) use walk::decide;

/// Returns the decision of an Envoy that has no usable configuration.
pub(super) fn failed(problem: &str) -> Decision {
    let failed = super::grpc::fail(
        None,
        1.0,
        FailureReason::NoConfiguration,
        problem.to_owned(),
    );
    Decision {
        destinations: vec![failed],
        ..Decision::default()
    }
}
