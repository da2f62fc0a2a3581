//! The parts that serve: backends and control planes. They end with their parent.

#![allow(
    clippy::print_stdout,
    reason = "parts talk to their parent over standard output"
)]

use std::io::BufRead;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use cpu_time::ProcessTime;
use oxds_channel::testing::EchoBackend;
use oxds_core::snapshot::{ChangeSet, Resource};
use oxds_server::{Cache, DirStore, Server, dir};
use oxds_types::Kind;
use oxds_types::codec::{self, Format};
use tokio::sync::oneshot;

const ANY_PORT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

pub(crate) async fn backend() -> Result<(), String> {
    let backend = EchoBackend::start()
        .await
        .map_err(|error| error.to_string())?;
    println!("{}", backend.address());
    obey(|_| None).await;
    Ok(())
}

pub(crate) async fn control_plane(folder: &Path) -> Result<(), String> {
    let store = DirStore::open(folder, dir::Options::default()).map_err(|e| e.to_string())?;
    let server = Server::builder().grpc(ANY_PORT).store(store).bind().await;
    let server = server.map_err(|error| error.to_string())?;
    println!("{}", server.grpc_addr());
    server.run(obey(|_| None)).await;
    Ok(())
}

/// Changes one cluster for every line, but for a line `cpu`, to which it answers with its CPU time.
pub(crate) async fn clusters(count: usize) -> Result<(), String> {
    let cache = Cache::new();
    let upserts = (0..count)
        .map(|index| cluster(index, 0))
        .collect::<Result<_, _>>()?;
    cache.apply(ChangeSet {
        upserts,
        removals: Vec::new(),
    });
    let server = Server::builder()
        .grpc(ANY_PORT)
        .cache(cache.clone())
        .bind()
        .await;
    let server = server.map_err(|error| error.to_string())?;
    println!("{}", server.grpc_addr());
    let mut generation = 0;
    let obeyed = obey(move |line| {
        if line == "cpu" {
            return Some(ProcessTime::now().as_duration().as_micros().to_string());
        }
        generation += 1;
        if let Ok(cluster) = cluster(generation % count, generation) {
            cache.apply(ChangeSet {
                upserts: vec![cluster],
                removals: Vec::new(),
            });
        }
        None
    });
    server.run(obeyed).await;
    Ok(())
}

/// A cluster of about 500 bytes, the size that the scenario assumes; the timeout tells generations apart.
fn cluster(index: usize, generation: usize) -> Result<Arc<Resource>, String> {
    let json = format!(
        r#"{{"@type":"{}","name":"cluster-{index:06}","connect_timeout":"{}.{:03}s","type":"EDS",
            "eds_cluster_config":{{"eds_config":{{"ads":{{}}}}}},"alt_stat_name":"{:x>420}"}}"#,
        Kind::CLUSTER.type_url(),
        1 + generation / 1000,
        generation % 1000,
        ""
    );
    let path = Path::new("cluster.json");
    let loaded = codec::decode(
        path,
        Format::Json,
        json.as_bytes(),
        &codec::Options::default(),
    );
    let loaded = loaded.map_err(|errors| format!("{errors:?}"))?;
    let loaded = loaded.into_iter().next().ok_or("no cluster")?;
    Ok(Arc::new(Resource::new(
        loaded.kind,
        loaded.name,
        &loaded.any.value,
    )))
}

/// Does what each line of standard input says, and ends with it: the parent is gone then. Lines are read and
/// obeyed on a thread of their own.
async fn obey(mut command: impl FnMut(&str) -> Option<String> + Send + 'static) {
    let (ended, end) = oneshot::channel::<()>();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if let Some(answer) = command(&line) {
                println!("{answer}");
            }
        }
        drop(ended);
    });
    // The error is the end.
    let _ = end.await;
}
