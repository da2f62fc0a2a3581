//! The conversion of client state to `ClientConfig`s.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use envoy_types::pb::envoy::admin::v3::{ClientResourceStatus, UpdateFailureState};
use envoy_types::pb::envoy::service::status::v3::ConfigStatus;
use envoy_types::pb::envoy::service::status::v3::client_config::GenericXdsConfig;
use envoy_types::pb::google::protobuf::Timestamp;
use oxds_core::rollback::RolledBack;
use oxds_core::session::{Progress, ResourceStatus, TypeStatus};
use oxds_core::snapshot::{Resource, Snapshot};
use oxds_core::time::Instant;
use oxds_types::{ResourceType, Version};
use prost::Message as _;

use super::matcher::ClientMatcher;
use super::rope::{Rope, field_len};
use crate::calls::{CallError, MemoryShare, MemoryUse};
use crate::clients::{Client as DiscoveryClient, ClientCursor};
use crate::context::Context;

/// `ClientStatusResponse.config`.
const CONFIG: u32 = 1;
/// `ClientConfig.node`.
const NODE: u32 = 1;
/// `ClientConfig.generic_xds_configs`.
const GENERIC_XDS_CONFIGS: u32 = 3;
/// `GenericXdsConfig.xds_config`.
const XDS_CONFIG: u32 = 4;
/// `GenericXdsConfig.error_state`.
const ERROR_STATE: u32 = 8;
/// `UpdateFailureState.failed_configuration`.
const FAILED_CONFIGURATION: u32 = 1;
/// `Any.type_url`.
const TYPE_URL: u32 = 1;
/// `Any.value`.
const VALUE: u32 = 2;

/// The selection of a request: the clients, and whether to show contents.
#[derive(Debug)]
pub(super) struct Selection {
    /// At least one of these must match. Empty: all clients.
    pub(super) matchers: Vec<ClientMatcher>,
    pub(super) with_contents: bool,
}

/// The key of a client: its node id, and its address unless it polls.
type ClientKey = (String, Option<SocketAddr>);

/// Returns every selected client, by node id, as an encoded `ClientStatusResponse`. Other tasks run between two
/// clients.
///
/// # Errors
/// The response takes more memory than the budget of the call has.
pub(super) async fn clients(
    context: &Context,
    selection: &Selection,
    share: &mut MemoryShare,
) -> Result<Rope, CallError> {
    let mut clients: BTreeMap<ClientKey, Rope> = BTreeMap::new();
    let rolled_back = context.rollback.rolled_back();
    let mut own = 0;
    let mut position = Some(ClientCursor::default());
    while let Some(after) = position {
        let mut see = |client: &DiscoveryClient<'_>, snapshot: &Snapshot| {
            own += add(
                context,
                selection,
                &rolled_back,
                client,
                snapshot,
                &mut clients,
            );
        };
        position = context.clients.see_next(&context.cache, after, &mut see);
        share.set(MemoryUse::Response, own)?;
        tokio::task::yield_now().await;
    }
    let mut response = Rope::default();
    for client in clients.into_values() {
        response.message(CONFIG, client);
    }
    Ok(response)
}

/// Adds one stream, or one client that polls. Returns the bytes of memory that this takes.
fn add(
    context: &Context,
    selection: &Selection,
    rolled_back: &[RolledBack],
    subscriber: &DiscoveryClient<'_>,
    snapshot: &Snapshot,
    clients: &mut BTreeMap<ClientKey, Rope>,
) -> usize {
    let Some(node) = subscriber.node else {
        return 0;
    };
    let matchers = &selection.matchers;
    if !matchers.is_empty() && !matchers.iter().any(|matcher| matcher.matches(node)) {
        return 0;
    }
    let client = clients.entry((node.id.clone(), subscriber.peer));
    let mut is_new = false;
    let client = client.or_insert_with(|| {
        is_new = true;
        Rope::default()
    });
    let before = client.own();
    if is_new {
        client.header(NODE, node.encoded_len());
        client.fields(node);
    }
    let state = ClientState {
        subscriber,
        snapshot,
        rolled_back,
        now: context.server.clock.now(),
        with_contents: selection.with_contents,
    };
    for resource_type in subscriber.resource_types() {
        state.resource_type(&resource_type, client);
    }
    client.own() - before
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
    /// Appends the resources of a type that are served to the client or that it subscribes to.
    fn resource_type(&self, status: &TypeStatus, client: &mut Rope) {
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
        // The snapshot may lack a resource that the client rejected: a removal can be rejected, too.
        let nacked = self.subscriber.nacked_resources(&status.resource_type);
        names.extend(nacked.into_iter().map(|(name, _)| name));
        let mut shown = BTreeSet::new();
        for name in &names {
            if let Some(resource) = self.resource(status, name, collection.get(name)) {
                shown.insert(resource.fields.config_status());
                resource.append(client);
            }
        }
        if let Some(rest) = self.rest(status, &shown) {
            rest.append(client);
        }
    }

    /// Returns an entry without a name for what the client has not accepted and no other entry shows: a NACK that names
    /// no resource, or a response that only removes resources.
    fn rest(&self, status: &TypeStatus, shown: &BTreeSet<ConfigStatus>) -> Option<ShownResource> {
        let shows = |wanted: ConfigStatus| shown.contains(&wanted);
        let resource_type = &status.resource_type;
        let progress = self.subscriber.progress(resource_type, self.snapshot);
        let is_shown = shows(ConfigStatus::Error);
        let (config_status, client_status) = match progress {
            Progress::Nacked if !is_shown => (ConfigStatus::Error, ClientResourceStatus::Nacked),
            Progress::Stale if !is_shown && !shows(ConfigStatus::Stale) => {
                (ConfigStatus::Stale, ClientResourceStatus::Requested)
            }
            _ => return None,
        };
        let nack = status
            .nack
            .as_ref()
            .filter(|_| progress == Progress::Nacked);
        let accepted = status.acked.map(|version| version.to_string());
        let error = nack.map(|nack| UpdateFailureState {
            last_update_attempt: Some(wall_clock(self.now, nack.at)),
            details: nack.reason.to_string(),
            version_info: nack.version.to_string(),
            ..UpdateFailureState::default()
        });
        Some(ShownResource {
            fields: GenericXdsConfig {
                type_url: resource_type.type_url().to_owned(),
                version_info: accepted.unwrap_or_default(),
                config_status: config_status.into(),
                client_status: client_status.into(),
                ..GenericXdsConfig::default()
            },
            contents: None,
            error: error.map(|error| (error, None)),
        })
    }

    fn resource(
        &self,
        resource_type: &TypeStatus,
        name: &str,
        served: Option<&Arc<Resource>>,
    ) -> Option<ShownResource> {
        let status = self
            .subscriber
            .resource(&resource_type.resource_type, name)?;
        let (mut config_status, client_status) = statuses(&status, served.map(|r| r.version()));
        // Contents of secrets must not leave the server other than to their clients (S-68, S-78).
        let shown = self.with_contents && resource_type.resource_type != ResourceType::SECRET;
        let contents = served.filter(|r| shown && status.acked == Some(r.version()));
        let mut error = status.nacked.as_ref().map(|nacked| {
            let failed = served.filter(|r| shown && r.version() == nacked.version);
            let state = UpdateFailureState {
                failed_configuration: None,
                last_update_attempt: Some(wall_clock(self.now, nacked.at)),
                details: nacked.reason.to_string(),
                version_info: nacked.version.to_string(),
            };
            (state, failed.cloned())
        });
        // The client may have accepted the served version, but the store's version was rolled back.
        if let Some(rollback) = self.rollback(resource_type, name, served) {
            config_status = ConfigStatus::Error;
            let failed = rollback.stored.clone().filter(|_| shown);
            error = Some((rollback_state(rollback, self.now), failed));
        }
        Some(ShownResource {
            fields: GenericXdsConfig {
                type_url: resource_type.resource_type.type_url().to_owned(),
                name: name.to_owned(),
                version_info: status.acked.map(|v| v.to_string()).unwrap_or_default(),
                config_status: config_status.into(),
                client_status: client_status.into(),
                ..GenericXdsConfig::default()
            },
            contents: contents.cloned(),
            error,
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
                && served == rollback.last_good.as_ref()
        })
    }
}

/// A `GenericXdsConfig`: its fields without contents, and the resources that hold these.
struct ShownResource {
    fields: GenericXdsConfig,
    contents: Option<Arc<Resource>>,
    error: Option<(UpdateFailureState, Option<Arc<Resource>>)>,
}

impl ShownResource {
    /// Appends the resource to its client. Its contents are not copied.
    fn append(&self, client: &mut Rope) {
        let error_len = self.error.as_ref().map(|(state, failed)| {
            let failed = failed.as_deref();
            state.encoded_len() + failed.map_or(0, |r| field_len(FAILED_CONFIGURATION, any_len(r)))
        });
        let contents = self.contents.as_deref();
        let len = self.fields.encoded_len()
            + contents.map_or(0, |r| field_len(XDS_CONFIG, any_len(r)))
            + error_len.map_or(0, |len| field_len(ERROR_STATE, len));
        client.header(GENERIC_XDS_CONFIGS, len);
        client.fields(&self.fields);
        if let Some(resource) = contents {
            append_any(client, XDS_CONFIG, resource);
        }
        if let (Some((state, failed)), Some(len)) = (&self.error, error_len) {
            client.header(ERROR_STATE, len);
            client.fields(state);
            if let Some(resource) = failed {
                append_any(client, FAILED_CONFIGURATION, resource);
            }
        }
    }
}

fn any_len(resource: &Resource) -> usize {
    let type_url = resource.resource_type().type_url();
    field_len(TYPE_URL, type_url.len()) + field_len(VALUE, resource.value().len())
}

/// Appends a resource as a field of type `Any`.
fn append_any(rope: &mut Rope, field: u32, resource: &Resource) {
    let type_url = resource.resource_type().type_url();
    rope.header(field, any_len(resource));
    rope.bytes(TYPE_URL, Bytes::copy_from_slice(type_url.as_bytes()));
    rope.bytes(VALUE, resource.value());
}

fn rollback_state(rollback: &RolledBack, now: Instant) -> UpdateFailureState {
    let good = rollback.last_good.as_ref();
    let good = good.map_or_else(|| "absence".to_owned(), |good| good.version().to_string());
    let nodes = match &rollback.nacked_by[..] {
        [] => format!("{} nodes of all replicas", rollback.nodes),
        ids => ids.join(", "),
    };
    let (nacked_type, nacked_name) = &rollback.nacked;
    let key = &rollback.key;
    let itself = (&key.resource_type, &key.name) == (nacked_type, nacked_name);
    let with = if itself {
        String::new()
    } else {
        format!(" together with {nacked_type} {nacked_name}")
    };
    UpdateFailureState {
        failed_configuration: None,
        last_update_attempt: Some(wall_clock(now, rollback.at)),
        details: format!(
            "rolled back to {good}{with}, NACKed by {nodes}: {}",
            rollback.reason
        ),
        version_info: rollback
            .version
            .map_or_else(String::new, |version| version.to_string()),
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
