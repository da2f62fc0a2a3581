//! Resources of a folder, of a control plane, or of a client.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use oxds_client::Bootstrap;
use oxds_core::explain::ResourceSource;
use oxds_core::preview::State;
use oxds_server::{Severity, dir};
use oxds_types::ResourceType;
use oxds_types::discovery::Node;
use oxds_types::reference::references;
use tracing::error;

use crate::commands::args::control_plane::{first_server, host_and_port};
use crate::commands::args::source::SourceArgs;
use crate::commands::control_plane::{ControlPlane, rpc_failed};
use crate::commands::fetch::{FetchScope, fetch};
use crate::commands::states::seen_by;
use crate::commands::{dir_options, duration, runtime, unreadable};
use crate::exit::Failure;

/// Number of references that are followed from a listener: to routes, clusters of aggregates, endpoints.
const DEPTH: usize = 20;

/// Types that decide where a request goes.
const TYPES: [ResourceType; 5] = [
    ResourceType::LISTENER,
    ResourceType::ROUTE,
    ResourceType::VIRTUAL_HOST,
    ResourceType::CLUSTER,
    ResourceType::ENDPOINT,
];

/// Where the resources come from.
#[derive(Debug, clap::Args)]
pub(super) struct Origin {
    /// Read a folder instead of a control plane: what the node of --node-id and --cluster sees of it
    #[arg(long, value_name = "DIR", conflicts_with_all = ["csds", "server"])]
    dir: Option<PathBuf>,
    /// Read what a client has, by its CSDS service
    #[arg(long, value_name = "HOST:PORT", value_parser = host_and_port, conflicts_with_all = ["server", "bootstrap", "node_id", "cluster"])]
    csds: Option<String>,
    /// Time to wait for each response of the control plane
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration)]
    timeout: Duration,
    #[command(flatten)]
    source: SourceArgs,
}

/// Resources by type and name.
#[derive(Clone, Debug, Default)]
pub(super) struct Resources(Arc<BTreeMap<ResourceType, BTreeMap<Arc<str>, Bytes>>>);

impl ResourceSource for Resources {
    fn find(&self, resource_type: &ResourceType, name: &str) -> Option<Bytes> {
        self.0.get(resource_type)?.get(name).cloned()
    }

    fn names(&self, resource_type: &ResourceType) -> Vec<String> {
        let of_type = self.0.get(resource_type).into_iter().flatten();
        of_type.map(|(name, _)| name.to_string()).collect()
    }
}

type Found = BTreeMap<ResourceType, BTreeMap<Arc<str>, Bytes>>;

impl Resources {
    /// Loads all that requests to these listeners need.
    pub(super) fn load(from: &Origin, listeners: &[&str]) -> Result<Self, Failure> {
        let found = match (&from.dir, &from.csds) {
            (Some(dir), _) => read_folder(dir, &from.source.node()?)?,
            (None, Some(address)) => runtime()?.block_on(of_client(from, address))?,
            (None, None) => {
                let bootstrap = from.source.bootstrap()?;
                runtime()?.block_on(of_control_plane(from.timeout, &bootstrap, listeners))?
            }
        };
        Ok(Self(Arc::new(found)))
    }
}

/// Reads what a node sees of a folder. Errors of its files are logged: the rest is explained.
fn read_folder(dir: &Path, node: &Node) -> Result<Found, Failure> {
    let report = dir::load(dir, &dir_options(false, false)).map_err(|error| unreadable(&error))?;
    let errors = report.findings.iter();
    for finding in errors.filter(|finding| finding.severity == Severity::Error) {
        error!("{finding}");
    }
    let state = State::new(report.of_all_nodes(), &report.groups);
    let (view, _) = seen_by(&state, node);
    let mut found = Found::new();
    for ((resource_type, name), resource) in view.of_all_nodes {
        let of_type = found.entry(resource_type).or_default();
        of_type.insert(name, resource.value());
    }
    Ok(found)
}

/// Reads what a client reports. A resource that it has not received has no content.
async fn of_client(from: &Origin, address: &str) -> Result<Found, Failure> {
    let bootstrap = from.source.security().apply(Bootstrap::builder(address))?;
    let bootstrap = bootstrap.build().map_err(Failure::usage)?;
    let client = ControlPlane::connect(&first_server(&bootstrap)?).await?;
    let clients = client.client_status(false).await;
    let clients = clients.map_err(|status| rpc_failed(&status))?;
    let nodes: BTreeSet<_> = clients
        .iter()
        .filter_map(|client| Some(&client.node.as_ref()?.id))
        .collect();
    if nodes.len() > 1 {
        let count = nodes.len();
        return Err(Failure::negative(format_args!(
            "{address} reports {count} clients: expected the address of one client"
        ))
        .hint("with --server and --node-id, the control plane shows what it sends to a client"));
    }
    let mut found = Found::new();
    for config in clients
        .into_iter()
        .flat_map(|client| client.generic_xds_configs)
    {
        let resource_type = ResourceType::from_type_url(&config.type_url);
        if let (Some((resource_type, _)), Some(any)) = (resource_type, config.xds_config) {
            let of_type = found.entry(resource_type).or_default();
            of_type.insert(config.name.into(), any.value.into());
        }
    }
    Ok(found)
}

/// Fetches the listeners, and what they lead to.
async fn of_control_plane(
    limit: Duration,
    bootstrap: &Bootstrap,
    listeners: &[&str],
) -> Result<Found, Failure> {
    let mut found = Found::new();
    let names = listeners.iter().map(|name| Arc::from(*name));
    let mut wanted = BTreeMap::from([(ResourceType::LISTENER, names.collect::<BTreeSet<_>>())]);
    for _ in 0..DEPTH {
        let mut next: BTreeMap<ResourceType, BTreeSet<Arc<str>>> = BTreeMap::new();
        for (resource_type, names) in wanted {
            let fetched = fetch(limit, bootstrap, &resource_type, named(names)).await?;
            for reference in fetched
                .values()
                .flat_map(|value| references(&resource_type, value))
            {
                let known = found.get(&reference.resource_type);
                let is_known = known.is_some_and(|known| known.contains_key(&reference.name));
                if TYPES.contains(&reference.resource_type) && !is_known {
                    next.entry(reference.resource_type)
                        .or_default()
                        .insert(reference.name);
                }
            }
            found.entry(resource_type).or_default().extend(fetched);
        }
        if next.is_empty() {
            break;
        }
        wanted = next;
    }
    if found
        .get(&ResourceType::LISTENER)
        .is_none_or(BTreeMap::is_empty)
    {
        // For the error, which has the nearest names.
        let all = fetch(
            limit,
            bootstrap,
            &ResourceType::LISTENER,
            FetchScope::default(),
        )
        .await?;
        found.insert(ResourceType::LISTENER, all);
    }
    Ok(found)
}

fn named(names: BTreeSet<Arc<str>>) -> FetchScope {
    FetchScope { names, at_least: 0 }
}
