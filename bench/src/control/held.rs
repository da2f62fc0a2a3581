//! a client that watches all of 100,000 resources: its memory beside their bytes, and the cost of one change.

#![allow(
    clippy::print_stdout,
    reason = "parts talk to their parent over standard output"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use cpu_time::ProcessTime;
use oxds_client::{Bootstrap, ClientPool, Invalid, Options, Protocol, Typed, Update, XdsClient};
use oxds_types::ResourceType;
use tokio::task::JoinHandle;

use crate::memory::mib;
use crate::plan::{Plan, Size};
use crate::report::Table;
use crate::roles::{Holding, Part, Processors, Role};
use crate::serve::obey;

const TIMEOUT: Duration = Duration::from_secs(120);
/// Resident memory allowed per byte of resources.
const MOST: f64 = 1.3;

/// Result of a client.
struct Measurement {
    /// Bytes of the resources in its cache.
    held: usize,
    /// Resident memory above that of a client with one resource.
    resident: u64,
    /// CPU time per change, in microseconds.
    per_change: f64,
}

pub(crate) fn run(_: &Plan, size: Size, table: &mut Table) -> Result<(), String> {
    let (few, many, changes) = (size.few(), size.many(), size.steps);
    let empty = measure(Holding::Clusters, 1, 0, 0)?.resident;
    for holding in [Holding::Clusters, Holding::Assignments] {
        let shown = measure(holding, many, empty, 0)?;
        let what = format!("{many} {}, resident / bytes held", holding.name());
        table.limit(
            "R-7",
            &what,
            shown.resident as f64 / shown.held as f64,
            MOST,
        );
        table.note(&format!(
            "R-7: {:.1} MiB resident for {:.1} MiB held",
            mib(shown.resident),
            mib(shown.held as u64)
        ));
    }
    let small = measure(Holding::Clusters, few, 0, changes)?.per_change;
    let large = measure(Holding::Clusters, many, 0, changes)?.per_change;
    table.note(&format!(
        "R-7: CPU per change {small:.1} us of {few}, {large:.1} us of {many}"
    ));
    table.limit(
        "R-7",
        "growth of CPU per change, fewest to most",
        large / small,
        1.5,
    );
    Ok(())
}

fn measure(
    holding: Holding,
    count: usize,
    empty: u64,
    changes: usize,
) -> Result<Measurement, String> {
    let push = Role::Push {
        holding,
        count,
        groups: 0,
        keys: None,
    };
    let mut server = Part::start_on(Processors::Beside, &push)?;
    let control_plane = server
        .hello()
        .split(' ')
        .next()
        .unwrap_or_default()
        .to_owned();
    let mut client = Part::start(&Role::Holder {
        holding,
        control_plane,
    })?;
    until(&mut client, count)?;
    let resident = client.memory()?.resident.saturating_sub(empty);
    let held = ask(&mut client, "bytes")?;
    let before = client.cpu_micros()?;
    for change in 1..=changes {
        server.send_line("change")?;
        until(&mut client, count + change)?;
    }
    let per_change = (client.cpu_micros()? - before) as f64 / changes.max(1) as f64;
    Ok(Measurement {
        held,
        resident,
        per_change,
    })
}

/// Waits until the client has received this many updates.
fn until(client: &mut Part, updates: usize) -> Result<(), String> {
    let start = Instant::now();
    loop {
        let received = ask(client, "updates")?;
        if received >= updates {
            return Ok(());
        }
        if start.elapsed() > TIMEOUT {
            return Err(format!("{received} updates of {updates} after {TIMEOUT:?}"));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn ask(client: &mut Part, line: &str) -> Result<usize, String> {
    client.send_line(line)?;
    let answer = client.answer()?;
    answer
        .parse()
        .map_err(|_| format!("not a number: {answer}"))
}

/// Updates that the client has received.
#[derive(Debug, Default)]
struct ReceivedUpdates {
    updates: AtomicUsize,
    bytes: AtomicUsize,
}

/// A resource as a client sees it that needs only its bytes.
struct Cluster(usize);
struct Assignment(usize);

impl Typed for Cluster {
    fn resource_type() -> ResourceType {
        ResourceType::CLUSTER
    }

    fn parse(value: &[u8]) -> Result<Self, Invalid> {
        Ok(Self(value.len()))
    }
}

impl Typed for Assignment {
    fn resource_type() -> ResourceType {
        ResourceType::ENDPOINT
    }

    fn parse(value: &[u8]) -> Result<Self, Invalid> {
        Ok(Self(value.len()))
    }
}

/// Caches all resources of a type. It answers `updates`, `bytes` and `cpu` with the number of updates, their bytes, and
/// its CPU time.
pub(crate) async fn play(holding: Holding, control_plane: &str) -> Result<(), String> {
    let bootstrap = Bootstrap::builder(control_plane).node_id("bench").build();
    let options = Options::default().with_protocol(Protocol::Delta);
    let pool = ClientPool::with_options(bootstrap.map_err(|error| error.to_string())?, options);
    let client = pool.client("bench");
    let received = Arc::<ReceivedUpdates>::default();
    let _reader = match holding {
        Holding::Clusters => read(&client, &received, |cluster: &Cluster| cluster.0),
        Holding::Assignments => read(&client, &received, |assignment: &Assignment| assignment.0),
    };
    println!("ready");
    obey(move |line| {
        let number = match line {
            "cpu" => ProcessTime::now().as_duration().as_micros() as usize,
            "bytes" => received.bytes.load(Ordering::Relaxed),
            _ => received.updates.load(Ordering::Relaxed),
        };
        Some(number.to_string())
    })
    .await;
    Ok(())
}

fn read<T: Typed>(
    client: &XdsClient,
    received: &Arc<ReceivedUpdates>,
    bytes: fn(&T) -> usize,
) -> JoinHandle<()> {
    let (mut all, received) = (client.watch_all::<T>("*"), Arc::clone(received));
    tokio::spawn(async move {
        while let Some((_, update)) = all.next().await {
            if let Update::Changed(Ok(resource)) = update {
                received
                    .bytes
                    .fetch_add(bytes(&resource), Ordering::Relaxed);
                received.updates.fetch_add(1, Ordering::Relaxed);
            }
        }
    })
}
