//! Writers that are killed in the middle of a large publish (G-8).

use std::time::Duration;

use oxds_server::store::etcd::client::EtcdClient;
use oxds_types::etcd::WatchCreateRequest;
use tokio::time::timeout;

use super::shared::{Content, HEAD, InEtcd, PREFIX, count, watch};
use super::{SOON, Scenario};
use crate::gate::Gate;
use crate::peers::etcd::{Etcd, Release};
use crate::peers::replica::Replica;
use crate::subscriber::Subscriber;
use crate::wire::Protocol;
use crate::{Context, Fallible};

/// Clusters of the large publish.
const CLUSTERS: usize = 600;
/// Size of requests: so small that the publish has about 100 steps, and each kill finds another one.
const LIMIT: &str = "5000";
/// Time that each answer takes: a writer must not finish between a step and its death.
const SLOW: Duration = Duration::from_millis(20);
/// From the death of a writer until etcd ends its lease.
const LEASE: Duration = Duration::from_secs(60);

/// Steps of a publish, as they show in etcd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// This number of keys is staged, and no head names them.
    Staged(i64),
    /// The head names the stage.
    Committed,
    /// Fewer than this number of keys are still staged.
    Moved(i64),
}

impl Step {
    fn is_reached(self, staged: i64, is_committed: bool) -> bool {
        match self {
            Self::Staged(number) => staged >= number,
            Self::Committed => is_committed,
            Self::Moved(number) => is_committed && staged < number,
        }
    }
}

pub(super) fn scenarios(release: Release) -> Vec<Scenario> {
    vec![Scenario::new(
        format!(
            "etcd_{}_g8_killed_writer_leaves_a_whole_state",
            release.name()
        ),
        move |cx| killed(cx, release),
    )]
}

/// given a large publish / when its writer is killed after the first staged keys, in the middle of the stage, at the
/// commit and in the middle of the moves / then the replica serves the whole old or the whole new state each time; the
/// next publish completes or undoes it, and no staged key is left.
async fn killed(cx: Context, release: Release) -> Fallible {
    let etcd = Etcd::start(&cx, release, &[]).await?;
    let client = etcd.connect().await?;
    let urls = etcd.urls();
    let small = Content::new(&cx, "small", &urls)?;
    small.set(&[("base", "0")])?;
    small.publish(&[]).await?;
    let replica = Replica::start(&cx, &urls, "replica").await?;
    let subscriber = Subscriber::start(vec![replica.grpc], Protocol::Sotw);
    subscriber.has_only(&[("base", "0")], SOON).await?;

    let gate = Gate::before(etcd.members[0].address).await?;
    gate.delay(SLOW);
    let half = i64::try_from(CLUSTERS / 2)?;
    let mut seq = 1;
    for (round, step) in [
        Step::Staged(1),
        Step::Staged(half),
        Step::Committed,
        Step::Moved(half),
    ]
    .into_iter()
    .enumerate()
    {
        let what = format!("killed at {step:?}");
        let mark = subscriber.mark();
        let large = Content::new(&cx, &format!("large-{round}"), &gate.url())?;
        let text = format!("round {round}");
        large.set_all((0..CLUSTERS).map(|n| (format!("r{round}-{n:04}"), &*text)))?;
        kill_at(&client, &large, step).await?;
        // The next publish, of another cluster. Keys that no head names are deleted once their writer is known to be
        // dead.
        let left = InEtcd::read(&urls).await?;
        if left.staged == 0 {
            return Err(format!("{what}: nothing was left to clean up").into());
        }
        let is_committed = left.seq == seq + 1;
        if is_committed == matches!(step, Step::Staged(_)) {
            return Err(format!("{what}: in etcd {left:?}").into());
        }
        if !is_committed {
            lease_ends(&client).await?;
        }
        let next = format!("after-{round}");
        small.set(&[(&next, "0")])?;
        small.publish(&[]).await?;
        let published = InEtcd::read(&urls).await?;
        let expected = left.names.len() + 1;
        seq = left.seq + 1;
        let seen = (published.seq, published.names.len(), published.staged);
        if seen != (seq, expected, 0) {
            return Err(format!("{what}, then seq, clusters and stage: {seen:?}").into());
        }
        replica.serves(seq, SOON).await?;
        let has = subscriber.has(&what, SOON, |has| has.len() == expected);
        has.await?;
        // Old state, large publish, next publish: each whole.
        let parts: Vec<_> = subscriber.since(mark).iter().map(|one| one.total).collect();
        let is_whole = |total: &usize| [left.names.len(), expected].contains(total);
        if !parts.iter().all(is_whole) {
            return Err(format!("{what}: the client had {parts:?} clusters").into());
        }
    }
    Ok(())
}

/// Begins a publish and kills it as soon as etcd shows that it has reached this step.
async fn kill_at(client: &EtcdClient, content: &Content, step: Step) -> Fallible {
    let lane = format!("{PREFIX}l/main/");
    let (mut events, _) = client
        .watch(WatchCreateRequest {
            progress_notify: false,
            fragment: false,
            ..watch(&lane, 0)
        })
        .await?;
    let options = ["--max-request-bytes", LIMIT];
    let mut writer = content.command(&options).begin()?;
    let (mut staged, mut is_committed) = (0, false);
    let stage = format!("{PREFIX}l/main/s/");
    while !step.is_reached(staged, is_committed) {
        let response = timeout(SOON * 2, events.next()).await??;
        for event in &response.events {
            let Some(kv) = &event.kv else { continue };
            let (is_staged, is_put) = (kv.key.starts_with(stage.as_bytes()), event.r#type == 0);
            if is_staged && !kv.key.ends_with(b"/alive") {
                staged += if is_put { 1 } else { -1 };
            }
            is_committed |= &kv.key[..] == HEAD.as_bytes();
        }
    }
    writer.start_kill()?;
    writer.wait().await?;
    Ok(())
}

/// Waits until the marks of dead writers have been removed.
async fn lease_ends(client: &EtcdClient) -> Fallible {
    let stage = format!("{PREFIX}l/main/s/");
    crate::wait::until("the end of the lease of a dead writer", LEASE, async || {
        let kvs = client.range(super::shared::read(&stage)).await?.kvs;
        let is_alive = kvs.iter().any(|kv| kv.key.ends_with(b"/alive"));
        Ok((!is_alive && count(client, HEAD).await? == 1).then_some(()))
    })
    .await
}
