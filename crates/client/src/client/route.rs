//! Which servers are asked for a name (gRFC A47, A71).

use std::collections::BTreeMap;
use std::sync::Arc;

use oxds_core::ads::{self, AuthorityId, NameSyntax, WatchError, WatchErrorReason};
use oxds_core::resource::ResourceParsers;
use oxds_types::{ResourceName, ResourceType, name};

use super::Options;
use crate::bootstrap::{Bootstrap, Server};
use crate::source::Peer;

/// Says that we know what a time to live is (xDS protocol, "Resource TTL").
const TTL_FEATURE: &str = "xds.config.supports-resource-ttl";

/// The authorities of a bootstrap, as its client's machine knows them.
#[derive(Debug)]
pub(super) struct Routes {
    node_id: String,
    names: NameSyntax,
    /// Of names that have no authority. None: the bootstrap names no server.
    top: Option<AuthorityId>,
    /// None: all names are one source's.
    authorities: Option<BTreeMap<String, AuthorityId>>,
}

/// The machine's configuration, its servers, and its authorities.
pub(super) type Plan = (ads::ClientConfig, Vec<(ads::ServerId, Peer)>, Routes);

/// What a bootstrap means to the machine. Servers that are defined alike are one, so that authorities share its stream
/// (C-46).
pub(super) fn plan(bootstrap: &Bootstrap, options: &Options) -> Plan {
    let mut config = config(bootstrap, options);
    let mut servers: Vec<(Server, ads::ServerId)> = Vec::new();
    let mut authority = |config: &mut ads::ClientConfig, list: &[Server]| {
        let ids = list.iter().map(|server| {
            let known = servers.iter().find(|(known, _)| known == server);
            known.map(|(_, id)| *id).unwrap_or_else(|| {
                let peer = Peer::ads(server.clone(), options.protocol);
                let id = config.add_server(peer.described(options));
                servers.push((server.clone(), id));
                id
            })
        });
        let ids = ids.collect();
        config.add_authority(ids)
    };
    let top = authority(&mut config, &bootstrap.servers);
    let mut authorities = BTreeMap::new();
    for (name, own) in &bootstrap.authorities {
        // Even with the same servers, each falls back on its own (C-161).
        let list = match own.servers.is_empty() {
            true => &bootstrap.servers,
            false => &own.servers,
        };
        let id = authority(&mut config, list);
        if own.fallback_on_reachability_only {
            config.fall_back_on_reachability_only(id);
        }
        authorities.insert(name.clone(), id);
    }
    let routes = Routes {
        node_id: bootstrap.node.id.clone(),
        names: bootstrap.names,
        top: (!bootstrap.servers.is_empty()).then_some(top),
        authorities: Some(authorities),
    };
    let peers = servers.into_iter();
    let peers = peers.map(|(server, id)| (id, Peer::ads(server, options.protocol)));
    (config, peers.collect(), routes)
}

/// What the machine is to know before any server.
fn config(bootstrap: &Bootstrap, options: &Options) -> ads::ClientConfig {
    let mut config = ads::ClientConfig::new(bootstrap.node.clone());
    config.resource_ttl = options.resource_ttl;
    if options.resource_ttl {
        config.node.client_features.push(TTL_FEATURE.to_owned());
    }
    config.resource_timeout = options.resource_timeout;
    config.names = bootstrap.names;
    // What is watched says as what it is read.
    config.types = ResourceParsers::default();
    config
}

/// What a source means to a machine: all names come from its ends.
pub(super) fn plan_source(bootstrap: &Bootstrap, options: &Options, peers: Vec<Peer>) -> Plan {
    let mut config = config(bootstrap, options);
    let peers: Vec<_> = peers
        .into_iter()
        .map(|peer| (config.add_server(peer.described(options)), peer))
        .collect();
    let top = config.add_authority(peers.iter().map(|(id, _)| *id).collect());
    let routes = Routes {
        node_id: bootstrap.node.id.clone(),
        names: bootstrap.names,
        top: Some(top),
        authorities: None,
    };
    (config, peers, routes)
}

impl Routes {
    /// The authority of a name, and the name as it is asked for (C-42).
    ///
    /// The error is for the watcher of this name alone; nobody is asked (C-43, C-44, C-45).
    pub(super) fn find(
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
        let top = || {
            let what = "cannot be had: the bootstrap names no server for it";
            self.top
                .ok_or_else(|| error(WatchErrorReason::Unreachable, what))
        };
        if self.names == NameSyntax::Opaque {
            return Ok((top()?, Arc::clone(name)));
        }
        let parsed = ResourceName::parse(name).map_err(|fault| {
            error(
                WatchErrorReason::Invalid,
                &format!("is badly named: {fault}"),
            )
        })?;
        let parsed = match parsed {
            ResourceName::Legacy(_) => return Ok((top()?, Arc::clone(name))),
            ResourceName::Xdstp(parsed) => parsed,
        };
        if parsed.message != resource_type.message() {
            let what = format!(
                "is badly named: its name says that it is a {}",
                parsed.message
            );
            return Err(error(WatchErrorReason::Invalid, &what));
        }
        let canonical = || Arc::from(name::canonical(name));
        let Some(authorities) = &self.authorities else {
            return Ok((top()?, canonical()));
        };
        let Some(authority) = authorities.get(&parsed.authority) else {
            let known: Vec<_> = authorities.keys().collect();
            let what = format!(
                "cannot be had: unknown authority {:?}: the bootstrap's authorities are {known:?}",
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
    fn c48_without_federation_every_name_is_asked_of_the_top_level_servers() {
        let name: Arc<str> = "xdstp://a/not.even.a.Listener/x?b=2&a=1".into();
        let mut bootstrap = Bootstrap::builder("one:1").build().unwrap();
        let (_, _, routes) = plan(&bootstrap, &Options::default());
        assert!(routes.find(&ResourceType::LISTENER, &name).is_err());
        bootstrap.names = NameSyntax::Opaque;
        let (config, _, routes) = plan(&bootstrap, &Options::default());
        assert_eq!(
            routes.find(&ResourceType::LISTENER, &name).unwrap(),
            (AuthorityId::default(), name)
        );
        assert_eq!(config.names, NameSyntax::Opaque);
    }
}
