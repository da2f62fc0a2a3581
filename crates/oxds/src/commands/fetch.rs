//! Fetches resources of one type from a control plane, once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use oxds_client::{Bootstrap, Source};
use oxds_core::snapshot::Protocol;
use oxds_types::ResourceType;
use tokio::time::timeout;

use super::subscription::{FollowError, Subscription};
use crate::exit::Failure;

/// Time without another response after which the answer is complete: large answers come in several responses, one
/// shortly after the other.
pub(super) const QUIET: Duration = Duration::from_millis(150);

/// The resources to fetch.
#[derive(Debug, Default)]
pub(super) struct FetchScope {
    /// Names; all resources of the type without names.
    pub(super) names: BTreeSet<Arc<str>>,
    /// Least number of resources, if it is known: a pause before they have arrived does not end the fetch.
    pub(super) at_least: usize,
}

/// Fetches resources by name; all of the type without names. Uses delta, because a delta server reports a missing
/// resource at once. `limit` is the longest wait for a response.
pub(super) async fn fetch(
    limit: Duration,
    bootstrap: &Bootstrap,
    resource_type: &ResourceType,
    wanted: FetchScope,
) -> Result<BTreeMap<Arc<str>, Bytes>, Failure> {
    let count = wanted.names.len();
    let source = Source::ads();
    let mut subscription = Subscription::start(
        &source,
        bootstrap,
        resource_type,
        wanted.names,
        Protocol::Delta,
    )?;
    let first = timeout(limit, subscription.next()).await;
    first
        .map_err(|_| {
            let uri = subscription.uri();
            Failure::negative(format_args!("no response from {uri} for {resource_type}"))
                .hint("it may have no resources for this node: see --node-id")
        })?
        .map_err(FollowError::into_failure)?;
    // The stream does not end after the last response: all names, or a pause, mean that the answer is complete.
    loop {
        let found = subscription.resources().count();
        if count > 0 && found >= count {
            break;
        }
        let quiet = if found < wanted.at_least {
            limit
        } else {
            QUIET
        };
        match timeout(quiet, subscription.next()).await {
            Ok(more) => more.map_err(FollowError::into_failure)?,
            Err(_) => break,
        };
    }
    let resources = subscription.resources();
    let values = resources.map(|(name, resource)| (Arc::clone(name), resource.value.clone()));
    Ok(values.collect())
}
