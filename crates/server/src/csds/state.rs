//! The conversion of client state to `ClientConfig`s.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::SystemTime;

use envoy_types::pb::envoy::admin::v3::{ClientResourceStatus, UpdateFailureState};
use envoy_types::pb::envoy::service::status::v3::client_config::GenericXdsConfig;
use envoy_types::pb::envoy::service::status::v3::{ClientConfig, ConfigStatus};
use envoy_types::pb::google::protobuf::{Any, Timestamp};
use oxds_core::rollback::RolledBack;
use oxds_core::session::{ResourceStatus, TypeStatus};
use oxds_core::snapshot::{Resource, Snapshot};
use oxds_core::time::Instant;
use oxds_types::{ResourceType, Version};

use super::matcher::ClientMatcher;
use crate::discovery::Client as DiscoveryClient;
use crate::discovery::Context;

/// The selection of a request: the clients, and whether to show contents.
#[derive(Debug)]
pub(super) struct Selection {
    /// At least one of these must match. Empty: all clients.
    pub(super) matchers: Vec<ClientMatcher>,
    pub(super) with_contents: bool,
}

/// The key of a client: its node id, and its address unless it polls.
type ClientKey = (String, Option<SocketAddr>);

/// Returns every selected client, by node id.
pub(super) fn clients(context: &Context, selection: &Selection) -> Vec<ClientConfig> {
    let mut clients: BTreeMap<ClientKey, ClientConfig> = BTreeMap::new();
    let now = context.server.clock.now();
    let rolled_back = context.rollback.rolled_back();
    context
        .clients
        .each(&context.cache, |subscriber, snapshot| {
            let Some(node) = subscriber.node else {
                return;
            };
            let matchers = &selection.matchers;
            if !matchers.is_empty() && !matchers.iter().any(|m| m.matches(node)) {
                return;
            }
            let client = clients
                .entry((node.id.clone(), subscriber.peer))
                .or_insert_with(|| ClientConfig {
                    node: Some(node.clone()),
                    ..ClientConfig::default()
                });
            let state = ClientState {
                subscriber,
                snapshot,
                rolled_back: &rolled_back,
                now,
                with_contents: selection.with_contents,
            };
            let resource_types = subscriber.resource_types();
            client.generic_xds_configs.extend(
                resource_types
                    .iter()
                    .flat_map(|resource_type| state.resource_type(resource_type)),
            );
        });
    clients.into_values().collect()
}

/// A client, the snapshot served to it, and the rollbacks, at one moment.
struct ClientState<'a> {
    subscriber: &'a DiscoveryClient<'a>,
    snapshot: &'a Snapshot,
    rolled_back: &'a [RolledBack],
    now: Instant,
    with_contents: bool,
}

impl ClientState<'_> {
    /// Returns the resources of a type that are served to the client or that it subscribes to.
    fn resource_type(&self, status: &TypeStatus) -> Vec<GenericXdsConfig> {
        let served = self.snapshot.of_type_in(&status.resource_type, status.api);
        let collection = served.collection();
        let mut names: BTreeSet<Arc<str>> = self
            .subscriber
            .names(&status.resource_type)
            .into_iter()
            .collect();
        if status.wildcard {
            names.extend(
                collection
                    .iter()
                    .map(|resource| Arc::clone(resource.name())),
            );
        }
        let resource = |name: &Arc<str>| self.resource(status, name, collection.get(name));
        names.iter().filter_map(resource).collect()
    }

    fn resource(
        &self,
        resource_type: &TypeStatus,
        name: &str,
        served: Option<&Arc<Resource>>,
    ) -> Option<GenericXdsConfig> {
        let status = self
            .subscriber
            .resource(&resource_type.resource_type, name)?;
        let (mut config_status, client_status) = statuses(&status, served.map(|r| r.version()));
        // Contents of secrets must not leave the server other than to their clients (S-68, S-78).
        let shown = self.with_contents && resource_type.resource_type != ResourceType::SECRET;
        let contents = served.filter(|r| shown && status.acked == Some(r.version()));
        let mut error_state = status.nacked.as_ref().map(|nacked| UpdateFailureState {
            failed_configuration: served
                .filter(|r| shown && r.version() == nacked.version)
                .map(|r| any(r)),
            last_update_attempt: Some(wall_clock(self.now, nacked.at)),
            details: nacked.reason.to_string(),
            version_info: nacked.version.to_string(),
        });
        // The client may have accepted the served version, but the store's version was rolled back.
        if let Some(rollback) = self.rollback(resource_type, name, served) {
            config_status = ConfigStatus::Error;
            error_state = Some(rollback_state(rollback, shown, self.now));
        }
        Some(GenericXdsConfig {
            type_url: resource_type.resource_type.type_url().to_owned(),
            name: name.to_owned(),
            version_info: status.acked.map(|v| v.to_string()).unwrap_or_default(),
            xds_config: contents.map(|r| any(r)),
            config_status: config_status.into(),
            client_status: client_status.into(),
            error_state,
            ..GenericXdsConfig::default()
        })
    }

    /// Returns the rollback that explains why another version than the store's is served.
    fn rollback(
        &self,
        resource_type: &TypeStatus,
        name: &str,
        served: Option<&Arc<Resource>>,
    ) -> Option<&RolledBack> {
        self.rolled_back.iter().find(|rollback| {
            let key = &rollback.key;
            key.resource_type == resource_type.resource_type
                && *key.name == *name
                && served == Some(&rollback.last_good)
        })
    }
}

fn rollback_state(rollback: &RolledBack, shown: bool, now: Instant) -> UpdateFailureState {
    let (good, nodes) = (rollback.last_good.version(), rollback.nacked_by.join(", "));
    UpdateFailureState {
        failed_configuration: shown.then(|| any(&rollback.nacked)),
        last_update_attempt: Some(wall_clock(now, rollback.at)),
        details: format!(
            "rolled back to {good}, NACKed by {nodes}: {}",
            rollback.reason
        ),
        version_info: rollback.nacked.version().to_string(),
    }
}

/// Returns the two statuses of a resource, given the served version.
fn statuses(
    status: &ResourceStatus,
    served: Option<Version>,
) -> (ConfigStatus, ClientResourceStatus) {
    use ClientResourceStatus as Client;
    match (status.sent, status.acked) {
        _ if status.nacked.is_some() => (ConfigStatus::Error, Client::Nacked),
        (_, Some(acked)) if served == Some(acked) => (ConfigStatus::Synced, Client::Acked),
        (_, Some(_)) => (ConfigStatus::Stale, Client::Acked),
        (Some(_), None) => (ConfigStatus::Stale, Client::Requested),
        (None, None) if served.is_none() => (ConfigStatus::NotSent, Client::DoesNotExist),
        (None, None) => (ConfigStatus::NotSent, Client::Requested),
    }
}

fn any(resource: &Resource) -> Any {
    Any {
        type_url: resource.resource_type().type_url().to_owned(),
        value: resource.value().to_vec(),
    }
}

/// Converts a time of the server's clock to wall-clock time.
fn wall_clock(now: Instant, at: Instant) -> Timestamp {
    let since = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
        .saturating_sub(now.saturating_since(at));
    Timestamp {
        seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
        // Below 1,000,000,000, so the cast does not truncate.
        nanos: since.subsec_nanos() as i32,
    }
}
