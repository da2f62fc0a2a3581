//! Servers of each resource name, by the authority of the name (gRFC A47, A71).

use std::collections::BTreeMap;
use std::sync::Arc;

use oxds_core::ads::{self, AuthorityId, NameSyntax, WatchError, WatchErrorReason};
use oxds_core::resource::ResourceParsers;
use oxds_types::discovery::VersionedTypeUrl;
use oxds_types::identity::VERSIONED_TYPE_URLS;
use oxds_types::{ResourceName, ResourceType, name};

use crate::bootstrap::{Bootstrap, Server};
use crate::options::Options;
use crate::source::Peer;

/// Client feature for resource TTLs (xDS protocol, "Resource TTL").
const TTL_FEATURE: &str = "xds.config.supports-resource-ttl";

/// Authorities of resource names, with their ids in the state machine.
#[derive(Debug)]
pub(crate) struct Authorities {
    node_id: String,
    names: NameSyntax,
    /// Authority of names without one; `None` if the bootstrap has no server.
    top_level: Option<AuthorityId>,
    /// Authorities by name; `None` if one source has all names.
    by_name: Option<BTreeMap<String, AuthorityId>>,
}

/// Everything that a driver is started with.
pub(super) struct ClientPlan {
    pub(super) config: ads::ClientConfig,
    pub(super) peers: Vec<(ads::ServerId, Peer)>,
    pub(super) authorities: Authorities,
}

/// Plans a client of the bootstrap's servers. Equal server definitions become one server, so that authorities share its
/// stream (C-46).
pub(super) fn plan(bootstrap: &Bootstrap, options: &Options) -> ClientPlan {
    let mut config = config(bootstrap, options);
    let mut servers: Vec<(Server, ads::ServerId)> = Vec::new();
    let mut authority = |config: &mut ads::ClientConfig, list: &[Server]| {
        let ids = list.iter().map(|server| {
            // gRFC A47: authorities with an identical server definition share its stream (C-46).
            let known = servers.iter().find(|(known, _)| known == server);
            known.map(|(_, id)| *id).unwrap_or_else(|| {
                let peer = Peer::ads(server.clone(), options.protocol);
                let id = config.add_server(peer.to_server(options));
                servers.push((server.clone(), id));
                id
            })
        });
        let ids = ids.collect();
        config.add_authority(ids)
    };
    let top_level = authority(&mut config, &bootstrap.servers);
    let mut by_name = BTreeMap::new();
    for (name, own) in &bootstrap.authorities {
        // gRFC A71: each authority falls back independently, even if the servers are the same (C-161).
        // gRFC A47: an authority without servers uses the top-level ones (C-29).
        let list = if own.servers.is_empty() {
            &bootstrap.servers
        } else {
            &own.servers
        };
        let id = authority(&mut config, list);
        // gRFC A95: unreachability alone triggers fallback, even with everything cached (C-36).
        if own.fallback_on_reachability_only {
            config.fall_back_on_reachability_only(id);
        }
        by_name.insert(name.clone(), id);
    }
    let authorities = Authorities {
        node_id: bootstrap.node.id.clone(),
        names: bootstrap.names,
        top_level: (!bootstrap.servers.is_empty()).then_some(top_level),
        by_name: Some(by_name),
    };
    let peers = servers.into_iter();
    let peers = peers.map(|(server, id)| (id, Peer::ads(server, options.protocol)));
    ClientPlan {
        config,
        peers: peers.collect(),
        authorities,
    }
}

/// Returns a configuration without servers.
fn config(bootstrap: &Bootstrap, options: &Options) -> ads::ClientConfig {
    let mut config = ads::ClientConfig::new(bootstrap.node.clone());
    config.resource_ttl = options.resource_ttl;
    if options.resource_ttl {
        config.node.client_features.push(TTL_FEATURE.to_owned());
    }
    if !options.api_versions.is_empty() {
        let feature = VERSIONED_TYPE_URLS.to_owned();
        config.node.client_features.push(feature);
        let versions = options.api_versions.iter();
        let versions = versions.map(|(message, version)| VersionedTypeUrl {
            type_url: format!("type.googleapis.com/{message}"),
            most_recently_supported: Some((*version).into()),
        });
        config.versioned_type_urls = versions.collect();
    }
    config.resource_timeout = options.resource_timeout;
    config.check = options.resource_check.clone();
    config.name_syntax = bootstrap.names;
    // Watches register the types that they read.
    config.parsers = ResourceParsers::default();
    config
}

/// Plans a client of one source, at which all names are asked.
pub(super) fn plan_source(
    bootstrap: &Bootstrap,
    options: &Options,
    peers: Vec<Peer>,
) -> ClientPlan {
    let mut config = config(bootstrap, options);
    let peers: Vec<_> = peers
        .into_iter()
        .map(|peer| (config.add_server(peer.to_server(options)), peer))
        .collect();
    let top_level = config.add_authority(peers.iter().map(|(id, _)| *id).collect());
    let authorities = Authorities {
        node_id: bootstrap.node.id.clone(),
        names: bootstrap.names,
        top_level: Some(top_level),
        by_name: None,
    };
    ClientPlan {
        config,
        peers,
        authorities,
    }
}

impl Authorities {
    /// Returns the authority of a name, and the canonical name that its servers are asked for (C-42).
    ///
    /// # Errors
    /// The name is malformed or of another type (C-43), or its authority is unknown (C-44, C-45).
    pub(crate) fn find(
        &self,
        resource_type: &ResourceType,
        name: &Arc<str>,
    ) -> Result<(AuthorityId, Arc<str>), WatchError> {
        let error = |reason, what: &str| {
            let (message, node_id) = (resource_type.message(), &self.node_id);
            WatchError::new(
                reason,
                format!("{message} {name:?} {what} [node {node_id:?}]"),
            )
        };
        let top_level = || {
            let what = "is not available: the bootstrap has no server for it";
            self.top_level
                .ok_or_else(|| error(WatchErrorReason::Unreachable, what))
        };
        // Without federation, names are opaque (C-48).
        if self.names == NameSyntax::Opaque {
            return Ok((top_level()?, Arc::clone(name)));
        }
        let parsed = ResourceName::parse(name).map_err(|fault| {
            error(
                WatchErrorReason::Invalid,
                &format!("has an invalid name: {fault}"),
            )
        })?;
        let parsed = match parsed {
            // gRFC A47: old-style names have no authority, and belong to the top-level servers.
            ResourceName::Legacy(_) => return Ok((top_level()?, Arc::clone(name))),
            ResourceName::Xdstp(parsed) => parsed,
        };
        // gRFC A47: the type in an xdstp name must be the type that is watched (C-43).
        if parsed.message != resource_type.message() {
            let what = format!(
                "has an invalid name: it is the name of a {}",
                parsed.message
            );
            return Err(error(WatchErrorReason::Invalid, &what));
        }
        let canonical = || Arc::from(name::canonical(name));
        let Some(by_name) = &self.by_name else {
            return Ok((top_level()?, canonical()));
        };
        // gRFC A47: an unknown authority fails this watch only; other servers are not used instead (C-44, C-45).
        let Some(authority) = by_name.get(&parsed.authority) else {
            let known: Vec<_> = by_name.keys().collect();
            let what = format!(
                "is not available: unknown authority {:?}, expected one of {known:?}",
                parsed.authority
            );
            return Err(error(WatchErrorReason::Unreachable, &what));
        };
        Ok((*authority, canonical()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c48_federation_off_asks_top_level_servers() {
        let name: Arc<str> = "xdstp://a/not.even.a.Listener/x?b=2&a=1".into();
        let mut bootstrap = Bootstrap::builder("one:1").build().unwrap();
        let ClientPlan { authorities, .. } = plan(&bootstrap, &Options::default());
        assert!(authorities.find(&ResourceType::LISTENER, &name).is_err());
        bootstrap.names = NameSyntax::Opaque;
        let ClientPlan {
            config,
            authorities,
            ..
        } = plan(&bootstrap, &Options::default());
        assert_eq!(
            authorities.find(&ResourceType::LISTENER, &name).unwrap(),
            (AuthorityId::default(), name)
        );
        assert_eq!(config.name_syntax, NameSyntax::Opaque);
    }
}
