//! Resources of a folder, of a control plane, or of a client.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use oxds_client::{Bootstrap, Source};
use oxds_core::explain::ResourceSource;
use oxds_core::snapshot::Protocol;
use oxds_server::{Severity, dir};
use oxds_types::ResourceType;
use oxds_types::reference::references;
use tokio::time::timeout;
use tracing::error;

use crate::commands::control_plane::{ControlPlane, first_server, host_and_port, rpc_failed};
use crate::commands::source::SourceArgs;
use crate::commands::subscription::{FollowError, Subscription};
use crate::commands::{dir_options, duration, runtime, unreadable};
use crate::exit::Failure;

/// Time without another response after which the answer is complete, as for `oxds get`.
const QUIET: Duration = Duration::from_millis(150);

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
    /// Read a folder instead of a control plane
    #[arg(long, value_name = "DIR", conflicts_with_all = ["csds", "server", "bootstrap", "node_id", "cluster"])]
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
            (Some(dir), _) => of_folder(dir)?,
            (None, Some(address)) => runtime()?.block_on(of_client(from, address))?,
            (None, None) => {
                let bootstrap = from.source.bootstrap()?;
                runtime()?.block_on(of_control_plane(from.timeout, &bootstrap, listeners))?
            }
        };
        Ok(Self(Arc::new(found)))
    }
}

/// Reads a folder. Errors of its files are logged: the rest is explained.
fn of_folder(dir: &Path) -> Result<Found, Failure> {
    let report = dir::load(dir, &dir_options(false, false)).map_err(|error| unreadable(&error))?;
    let errors = report.findings.iter();
    for finding in errors.filter(|finding| finding.severity == Severity::Error) {
        error!("{finding}");
    }
    let mut found = Found::new();
    for resource in report.of_all_nodes() {
        let name = Arc::from(resource.name().to_string());
        let of_type = found.entry(resource.resource_type().clone()).or_default();
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
            let fetched = fetch(limit, bootstrap, &resource_type, names).await?;
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
        let all = fetch(limit, bootstrap, &ResourceType::LISTENER, BTreeSet::new()).await?;
        found.insert(ResourceType::LISTENER, all);
    }
    Ok(found)
}

/// Fetches resources by name; all of the type without names. Uses delta, because a delta server reports a missing resource at
/// once.
async fn fetch(
    limit: Duration,
    bootstrap: &Bootstrap,
    resource_type: &ResourceType,
    names: BTreeSet<Arc<str>>,
) -> Result<BTreeMap<Arc<str>, Bytes>, Failure> {
    let count = names.len();
    let source = Source::ads();
    let mut subscription =
        Subscription::start(&source, bootstrap, resource_type, names, Protocol::Delta)?;
    let first = timeout(limit, subscription.next()).await;
    first
        .map_err(|_| {
            let uri = subscription.uri();
            Failure::negative(format_args!("no response from {uri} for {resource_type}"))
                .hint("it may have no resources for this node: see --node-id")
        })?
        .map_err(FollowError::into_failure)?;
    // The stream does not end after the last response: all names, or a pause, mean that the answer is complete.
    while count == 0 || subscription.resources().count() < count {
        match timeout(QUIET, subscription.next()).await {
            Ok(more) => more.map_err(FollowError::into_failure)?,
            Err(_) => break,
        };
    }
    let resources = subscription.resources();
    let values = resources.map(|(name, resource)| (Arc::clone(name), resource.value.clone()));
    Ok(values.collect())
}
