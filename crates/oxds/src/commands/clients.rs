//! What CSDS says of a control plane's clients, or of a client itself.

use std::time::{Duration, SystemTime};

use envoy_types::pb::envoy::admin::v3::ClientResourceStatus;
use envoy_types::pb::envoy::service::status::v3::client_config::GenericXdsConfig;
use envoy_types::pb::envoy::service::status::v3::{ClientConfig, ConfigStatus};
use oxds_types::ResourceType;
use serde::{Deserialize, Serialize};

/// A client, and all that it should have.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Client {
    pub(crate) node: String,
    pub(crate) cluster: String,
    pub(crate) resources: Vec<Held>,
}

/// One resource, as a client has it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Held {
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) state: State,
    /// The version that the client accepted last; empty if none.
    pub(crate) acknowledged: String,
    /// Why it refused what it was sent last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) refused: Option<Refused>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Refused {
    pub(crate) version: String,
    pub(crate) reason: String,
    pub(crate) seconds_ago: u64,
}

/// How far it is; the worse, the greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub(crate) enum State {
    /// The client accepted what is served now.
    Synced,
    /// It asked for a name that there is not.
    Missing,
    /// It was sent nothing yet.
    NotSent,
    /// It was sent, or has, something else than what is served now.
    Stale,
    /// It refused what it was sent last.
    Nacked,
}

impl State {
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

impl From<ClientConfig> for Client {
    fn from(config: ClientConfig) -> Self {
        let node = config.node.unwrap_or_default();
        Self {
            node: node.id,
            cluster: node.cluster,
            resources: config
                .generic_xds_configs
                .into_iter()
                .map(Held::from)
                .collect(),
        }
    }
}

impl From<GenericXdsConfig> for Held {
    fn from(config: GenericXdsConfig) -> Self {
        let state = match config.config_status() {
            ConfigStatus::Synced => State::Synced,
            ConfigStatus::Error => State::Nacked,
            ConfigStatus::NotSent
                if config.client_status() == ClientResourceStatus::DoesNotExist =>
            {
                State::Missing
            }
            ConfigStatus::NotSent => State::NotSent,
            ConfigStatus::Stale | ConfigStatus::Unknown => State::Stale,
        };
        let kind = ResourceType::from_type_url(&config.type_url);
        let refused = config.error_state.map(|error| Refused {
            version: error.version_info,
            reason: error.details,
            seconds_ago: error
                .last_update_attempt
                .map_or(0, |at| seconds_since(at.seconds)),
        });
        Self {
            kind: kind.map_or(config.type_url, |(kind, _)| kind.to_string()),
            name: config.name,
            state,
            acknowledged: config.version_info,
            refused: refused.filter(|_| state == State::Nacked),
        }
    }
}

fn seconds_since(unix: i64) -> u64 {
    let at = SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(unix).unwrap_or(0));
    at.elapsed().unwrap_or_default().as_secs()
}
