//! Published resources of etcd, read once.

use oxds_core::observe::ObservedResource;
use oxds_etcd::Entry;
use oxds_server::store::etcd::writer::{self, Session};
use oxds_types::{ApiVersion, ResourceType};
use tracing::error;

use super::args::etcd::EtcdTarget;
use super::print::NamedResource;
use super::runtime;
use crate::exit::{Exit, Failure};

/// Returns the published resources of a type, of all lanes and groups, sorted by name. Logs the keys that cannot be
/// read, and the lanes whose keys were changed without a publish.
pub(super) fn resources(
    target: EtcdTarget,
    resource_type: &ResourceType,
) -> Result<(Vec<NamedResource>, Exit), Failure> {
    let mut session = Session::new(target.endpoints, target.client);
    let read = writer::read(&mut session, &target.prefix);
    let lanes = runtime()?.block_on(read).map_err(Failure::negative)?;
    let (mut found, mut exit) = (Vec::new(), Exit::Success);
    for (name, lane) in lanes {
        for (key, reason) in &lane.unreadable {
            error!("etcd:{key}: {reason}");
            exit = Exit::Negative;
        }
        if !lane.is_vouched {
            error!(
                "etcd:l/{name}/: keys were changed without a publish: replicas do not serve that"
            );
            exit = Exit::Negative;
        }
        for (entry, stored) in lane.entries {
            let Entry::Resource(place) = &entry else {
                continue;
            };
            if place.resource_type != *resource_type {
                continue;
            }
            match stored.resource(place) {
                Ok(resource) => found.push(NamedResource {
                    name: resource.name().to_string(),
                    resource: ObservedResource {
                        version: resource.version().to_string(),
                        api: ApiVersion::V3,
                        value: resource.value(),
                    },
                }),
                Err(reason) => {
                    error!("etcd:l/{name}/{entry}: {reason}");
                    exit = Exit::Negative;
                }
            }
        }
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok((found, exit))
}
