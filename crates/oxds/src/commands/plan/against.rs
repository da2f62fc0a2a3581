//! The present state that a plan compares with, and the state that would follow.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use oxds_core::preview::{Resources, State};
use oxds_types::ResourceType;

use super::args::Args;
use super::clients::Clients;
use crate::commands::args::control_plane::first_server;
use crate::commands::control_plane::ControlPlane;
use crate::commands::nodes::report;
use crate::commands::runtime;
#[cfg(feature = "etcd")]
use crate::commands::states::{Replacing, of_etcd};
use crate::commands::states::{of_control_plane, of_input, seen_by};
use crate::exit::Failure;

/// The two states of a plan.
#[derive(Debug)]
pub(super) struct Against {
    pub(super) name: String,
    pub(super) old: State,
    pub(super) new: State,
    pub(super) clients: Option<Clients>,
    /// Groups of the folder that the node is not in.
    pub(super) other_groups: Vec<String>,
}

impl Against {
    /// Finds the present state where the options say.
    pub(super) fn find(args: &Args, folder: State) -> Result<Self, Failure> {
        #[cfg(feature = "etcd")]
        if let Some(target) = args.etcd.target()? {
            let replacing = Replacing {
                lane: &args.lane,
                prune: args.prune,
            };
            let prefix = target.prefix.to_string();
            let name = format!("lane {} of {}", args.lane, prefix.trim_end_matches('/'));
            let (old, new) = of_etcd(target, &folder, &replacing)?;
            return Ok(Self {
                name,
                old,
                new,
                clients: None,
                other_groups: Vec::new(),
            });
        }
        let Some(input) = &args.against else {
            return runtime()?.block_on(read_server(args, folder));
        };
        let loaded = of_input(input, &args.fields)?;
        if let Some(first) = loaded.first_error() {
            return Err(Failure::negative(format_args!(
                "{input} has errors: {first}"
            )));
        }
        Ok(Self {
            name: input.to_string(),
            old: loaded.state,
            new: folder,
            clients: None,
            other_groups: Vec::new(),
        })
    }
}

/// Fetches what the control plane serves to the node of the options.
async fn read_server(args: &Args, folder: State) -> Result<Against, Failure> {
    let bootstrap = args.source.bootstrap()?;
    let server = first_server(&bootstrap)?;
    let control_plane = ControlPlane::connect(&server).await?;
    let report = report::fetch(&control_plane).await?;
    // Before this process becomes a client.
    let clients = Clients::fetch(&control_plane, &report).await;
    let (view, groups) = seen_by(&folder, bootstrap.node());
    let mut types: BTreeSet<ResourceType> =
        view.of_all_nodes.keys().map(|key| key.0.clone()).collect();
    let mut numbers = BTreeMap::new();
    for served in &report.snapshot.types {
        if let Some((resource_type, _)) = ResourceType::from_type_url(&served.type_url) {
            numbers.insert(resource_type.clone(), served.resources);
            types.insert(resource_type);
        }
    }
    if report.snapshot.types.is_empty() {
        types.extend(ResourceType::known());
    }
    let mut old = of_control_plane(args.timeout, &bootstrap, &types, &numbers).await?;
    adopt(&mut old.of_all_nodes, &view.of_all_nodes);
    let node = &bootstrap.node().id;
    let of_groups = if groups.is_empty() {
        String::new()
    } else {
        format!(" in groups {}", groups.join(", "))
    };
    let others = folder.groups.keys().map(ToString::to_string);
    Ok(Against {
        name: format!("{} for node {node}{of_groups}", server.address.authority()),
        old,
        new: view,
        clients: Some(clients),
        other_groups: others.filter(|name| !groups.contains(name)).collect(),
    })
}

/// Replaces fetched resources by equal ones of the folder: over the wire they have no TTL.
fn adopt(fetched: &mut Resources, folder: &Resources) {
    for (key, resource) in fetched {
        let same = folder.get(key);
        if let Some(same) = same.filter(|same| same.version() == resource.version()) {
            *resource = Arc::clone(same);
        }
    }
}
