//! From sessions to `ClientConfig`s.

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

use super::matcher::NodeMatcher;
use crate::discovery::Context;
use crate::discovery::clients::Subscriber;

/// What is shown, and of whom.
#[derive(Debug)]
pub(super) struct View {
    /// Any of these; none: everybody.
    pub(super) matchers: Vec<NodeMatcher>,
    pub(super) with_contents: bool,
}

/// One client: the streams of one node on one connection, or its polls.
type Client = (String, Option<SocketAddr>);

/// Every client that the view is about, by node id.
pub(super) fn clients(context: &Context, view: &View) -> Vec<ClientConfig> {
    let mut clients: BTreeMap<Client, ClientConfig> = BTreeMap::new();
    let now = context.server.clock.now();
    let withdrawn = context.rollback.rolled_back();
    context
        .clients
        .each(&context.cache, |about, subscriber, snapshot| {
            let Some(node) = subscriber.node() else {
                return;
            };
            let shown = view.matchers.is_empty() || view.matchers.iter().any(|m| m.matches(node));
            if !shown {
                return;
            }
            let client = clients
                .entry((node.id.clone(), about.peer))
                .or_insert_with(|| ClientConfig {
                    node: Some(node.clone()),
                    ..ClientConfig::default()
                });
            let shot = Shot {
                subscriber,
                snapshot,
                withdrawn: &withdrawn,
                now,
                with_contents: view.with_contents,
            };
            let resource_types = subscriber.resource_types();
            client.generic_xds_configs.extend(
                resource_types
                    .iter()
                    .flat_map(|resource_type| shot.resource_type(resource_type)),
            );
        });
    clients.into_values().collect()
}

/// A client and what is served, at one moment.
struct Shot<'a> {
    subscriber: &'a dyn Subscriber,
    snapshot: &'a Snapshot,
    withdrawn: &'a [RolledBack],
    now: Instant,
    with_contents: bool,
}

impl Shot<'_> {
    /// Whatever of a kind is served to the client or was asked for by it.
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
        let (mut config_status, client_status) = verdict(&status, served.map(|r| r.version()));
        let shown = self.with_contents && resource_type.resource_type != ResourceType::SECRET;
        let contents = served.filter(|r| shown && status.acked == Some(r.version()));
        let mut error_state = status.nacked.as_ref().map(|rejection| UpdateFailureState {
            failed_configuration: served
                .filter(|r| shown && r.version() == rejection.version)
                .map(|r| any(r)),
            last_update_attempt: Some(wall_clock(self.now, rejection.at)),
            details: rejection.reason.to_string(),
            version_info: rejection.version.to_string(),
        });
        // The client may well have what is served: it is not what the store has.
        if let Some(withdrawn) = self.withdrawn(resource_type, name, served) {
            config_status = ConfigStatus::Error;
            error_state = Some(self.taken_back(withdrawn, shown));
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
}

impl Shot<'_> {
    /// Why something else is served than what the store has.
    fn withdrawn(
        &self,
        resource_type: &TypeStatus,
        name: &str,
        served: Option<&Arc<Resource>>,
    ) -> Option<&RolledBack> {
        self.withdrawn.iter().find(|withdrawn| {
            let place = &withdrawn.key;
            place.resource_type == resource_type.resource_type
                && *place.name == *name
                && served == Some(&withdrawn.last_good)
        })
    }

    fn taken_back(&self, withdrawn: &RolledBack, shown: bool) -> UpdateFailureState {
        let (good, nodes) = (
            withdrawn.last_good.version(),
            withdrawn.nacked_by.join(", "),
        );
        UpdateFailureState {
            failed_configuration: shown.then(|| any(&withdrawn.nacked)),
            last_update_attempt: Some(wall_clock(self.now, withdrawn.at)),
            details: format!(
                "returned to {good}, refused by {nodes}: {}",
                withdrawn.reason
            ),
            version_info: withdrawn.nacked.version().to_string(),
        }
    }
}

/// The two words for what a client has, given what is served.
fn verdict(
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

/// When it was by the clock on the wall.
fn wall_clock(now: Instant, at: Instant) -> Timestamp {
    let since = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
        .saturating_sub(now.saturating_since(at));
    Timestamp {
        seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
        // Below a thousand million.
        nanos: since.subsec_nanos() as i32,
    }
}
