//! State of a control plane's clients, as CSDS reports it.

use std::time::{Duration, SystemTime};

use envoy_types::pb::envoy::admin::v3::ClientResourceStatus;
use envoy_types::pb::envoy::service::status::v3::client_config::GenericXdsConfig;
use envoy_types::pb::envoy::service::status::v3::{ClientConfig, ConfigStatus};
use oxds_types::ResourceType;
use serde::{Deserialize, Serialize};

/// A client, and the resources that it subscribes to.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ClientStatus {
    pub(crate) node: String,
    pub(crate) cluster: String,
    pub(crate) resources: Vec<ClientResource>,
}

/// State of one resource in a client.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ClientResource {
    /// Short name of the type, or its type URL if it has none.
    pub(crate) resource_type: String,
    pub(crate) name: String,
    pub(crate) state: SyncState,
    /// The NACK of the last response, in state [`SyncState::Nacked`].
    pub(crate) nacked: Option<NackedUpdate>,
}

/// A version that a client NACKed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NackedUpdate {
    pub(crate) version: String,
    pub(crate) reason: String,
    pub(crate) seconds_ago: u64,
}

/// Difference between a client and the control plane, in order of severity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub(crate) enum SyncState {
    /// The client accepted the current version.
    Synced,
    /// The client subscribes to a name that does not exist.
    Missing,
    /// The control plane sent nothing yet.
    NotSent,
    /// The client has another version, or did not respond to the current one yet.
    Stale,
    /// The client NACKed the last response.
    Nacked,
}

impl SyncState {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Synced => "SYNCED",
            Self::Missing => "MISSING",
            Self::NotSent => "NOT SENT",
            Self::Stale => "STALE",
            Self::Nacked => "NACKED",
        }
    }
}

impl From<ClientConfig> for ClientStatus {
    fn from(config: ClientConfig) -> Self {
        let node = config.node.unwrap_or_default();
        Self {
            node: node.id,
            cluster: node.cluster,
            resources: config
                .generic_xds_configs
                .into_iter()
                .map(ClientResource::from)
                .collect(),
        }
    }
}

impl From<GenericXdsConfig> for ClientResource {
    fn from(config: GenericXdsConfig) -> Self {
        let state = match config.config_status() {
            ConfigStatus::Synced => SyncState::Synced,
            ConfigStatus::Error => SyncState::Nacked,
            ConfigStatus::NotSent
                if config.client_status() == ClientResourceStatus::DoesNotExist =>
            {
                SyncState::Missing
            }
            ConfigStatus::NotSent => SyncState::NotSent,
            ConfigStatus::Stale | ConfigStatus::Unknown => SyncState::Stale,
        };
        let resource_type = ResourceType::from_type_url(&config.type_url);
        let nacked = config.error_state.map(|error| NackedUpdate {
            version: error.version_info,
            reason: error.details,
            seconds_ago: error
                .last_update_attempt
                .map_or(0, |at| seconds_since(at.seconds)),
        });
        Self {
            resource_type: resource_type.map_or(config.type_url, |(known, _)| known.to_string()),
            name: config.name,
            state,
            nacked: nacked.filter(|_| state == SyncState::Nacked),
        }
    }
}

fn seconds_since(unix: i64) -> u64 {
    let at = SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(unix).unwrap_or(0));
    at.elapsed().unwrap_or_default().as_secs()
}
