//! F-2: time from a saved file until a client has applied it, debounce included.

use std::path::Path;
use std::time::{Duration, Instant};

use oxds_client::{Bootstrap, ClientPool, Update, Watch};
use oxds_core::resource::Cluster;

use crate::plan::{Plan, Size};
use crate::report::{Table, percentile_micros};
use crate::roles::{Part, Role};

/// Quiet time that the store waits for before it reads a change.
const DEBOUNCE_MILLIS: f64 = 50.0;
/// Allowed time beyond the quiet time, at the 99th percentile.
const MOST_BEYOND_MILLIS: f64 = 20.0;
/// A change that takes longer is lost.
const TIMEOUT: Duration = Duration::from_secs(10);

pub(crate) fn run(_: &Plan, size: Size, table: &mut Table) -> Result<(), String> {
    let rounds = size.rounds;
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    save(folder.path(), 0)?;
    let server = Part::start(&Role::ControlPlane {
        folder: folder.path().to_owned(),
    })?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    let mut latencies = runtime.block_on(async {
        let bootstrap = Bootstrap::builder(server.hello()).node_id("bench").build();
        let clients = ClientPool::new(bootstrap.map_err(|error| error.to_string())?);
        let mut watch = clients.client("#bench").watch::<Cluster>("follow");
        until(&mut watch, 0).await?;
        let mut latencies = Vec::with_capacity(rounds);
        for generation in 1..=rounds {
            let start = Instant::now();
            save(folder.path(), generation)?;
            until(&mut watch, generation).await?;
            latencies.push(start.elapsed());
        }
        Ok::<_, String>(latencies)
    })?;
    latencies.sort_unstable();
    let beyond = |part| percentile_micros(&latencies, part) / 1e3 - DEBOUNCE_MILLIS;
    let most = MOST_BEYOND_MILLIS;
    table.limit(
        "F-2",
        "saved to applied, p50 beyond debounce (ms)",
        beyond(0.5),
        most,
    );
    table.limit(
        "F-2",
        "saved to applied, p99 beyond debounce (ms)",
        beyond(0.99),
        most,
    );
    Ok(())
}

/// Saves as most editors do: a new file, moved into place.
fn save(folder: &Path, generation: usize) -> Result<(), String> {
    let text = format!(
        "\"@type\": type.googleapis.com/envoy.config.cluster.v3.Cluster\nname: follow\ntype: EDS\n\
         eds_cluster_config: {{ service_name: generation-{generation}, eds_config: {{ ads: {{}} }} }}\n"
    );
    let new = folder.join(".follow.new");
    std::fs::write(&new, text).map_err(|error| error.to_string())?;
    std::fs::rename(new, folder.join("follow.yaml")).map_err(|error| error.to_string())
}

async fn until(watch: &mut Watch<Cluster>, generation: usize) -> Result<(), String> {
    let wanted = format!("generation-{generation}");
    let arrived = async {
        loop {
            match watch.next().await {
                Some(Update::Changed(Ok(cluster))) if *cluster.eds_service_name == *wanted => {
                    return Ok(());
                }
                Some(_) => {}
                None => return Err("the client ended".to_owned()),
            }
        }
    };
    let arrived = tokio::time::timeout(TIMEOUT, arrived).await;
    arrived.map_err(|_| format!("{wanted} did not arrive within {TIMEOUT:?}"))?
}
