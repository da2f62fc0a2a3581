//! The scripted etcd answers a list of requests as a released one does, so that tests against it mean something.

mod operation;
mod random;

use std::fmt::Debug;

use oxds_server::store::etcd::client::{ClientOptions, EtcdClient, EtcdError};
use oxds_testkit::etcd::ScriptedEtcd;
use oxds_types::etcd::{
    CompactionResponse, DeleteRangeResponse, LeaseGrantResponse, LeaseRevokeResponse, PutResponse,
    RangeResponse, ResponseHeader, TxnResponse, WatchResponse,
};
use tokio::time::timeout;

use super::shared::{put, watch};
use super::{SOON, Scenario};
use crate::peers::etcd::{Etcd, Release};
use crate::{Context, Fallible};
use operation::Operation;
use random::Random;

/// Number of random operations after the listed ones.
const RANDOM: usize = 400;
/// Seed of the random operations: the scenario is the same in each run.
const SEED: u64 = 0x0e7c_d5ee_d000_0001;

pub(super) fn scenarios(release: Release) -> Vec<Scenario> {
    vec![Scenario::new(
        format!("etcd_{}_answers_as_the_scripted_one", release.name()),
        move |cx| compare(cx, release),
    )]
}

async fn compare(cx: Context, release: Release) -> Fallible {
    let etcd = Etcd::start(&cx, release, &[]).await?;
    let real = etcd.connect().await?;
    let scripted = ScriptedEtcd::start().await?;
    scripted.set_version(real.identity().version.clone());
    let endpoint = scripted.url().parse()?;
    let options = ClientOptions::new(&scripted.url().parse()?, None)?;
    let scripted = EtcdClient::connect(&endpoint, &options).await?;

    let mut random = Random::new(SEED);
    let random = std::iter::repeat_with(|| random.operation()).take(RANDOM);
    for (number, operation) in operation::listed().into_iter().chain(random).enumerate() {
        let expected = answer(&real, &operation).await?;
        let seen = answer(&scripted, &operation).await?;
        if seen != expected {
            return Err(format!(
                "operation {number}: {operation:?}\n  etcd:     {expected}\n  scripted: {seen}"
            )
            .into());
        }
    }
    let expected = history(&real).await?;
    let seen = history(&scripted).await?;
    match expected
        .iter()
        .zip(&seen)
        .position(|(one, other)| one != other)
    {
        None if expected.len() == seen.len() && expected.len() > RANDOM / 10 => Ok(()),
        None => Err(format!("{} and {} events", expected.len(), seen.len()).into()),
        Some(first) => {
            let (expected, seen) = (&expected[first], &seen[first]);
            Err(format!("event {first}:\n  etcd:     {expected}\n  scripted: {seen}").into())
        }
    }
}

/// Does an operation, and returns the answer as text, without the parts that differ in each cluster.
async fn answer(client: &EtcdClient, operation: &Operation) -> Fallible<String> {
    Ok(match operation.clone() {
        Operation::Range(request) => stripped(client.range(request).await),
        Operation::Put(request) => stripped(client.put(request).await),
        Operation::Delete(request) => stripped(client.delete_range(request).await),
        Operation::Txn(request) => stripped(client.txn(request).await),
        Operation::Compact(request) => stripped(client.compact(request).await),
        Operation::Grant(request) => stripped(client.lease_grant(request).await),
        Operation::Revoke(request) => stripped(client.lease_revoke(request).await),
        // etcd 3.4 has no header here.
        Operation::Alarm(request) => shown(client.alarm(request).await.map(|answer| answer.alarms)),
        Operation::Renew(id) => match client.lease_keeper(id).await {
            Ok(mut keeper) => shown(keeper.renew().await),
            Err(error) => shown::<()>(Err(error)),
        },
        Operation::Watch(request) => {
            let is_compacted = (1..operation::COMPACTED).contains(&request.start_revision);
            let (mut stream, mut created) = match client.watch(request).await {
                Ok(opened) => opened,
                Err(error) => return Ok(shown::<()>(Err(error))),
            };
            created.strip();
            if is_compacted {
                let mut ended = timeout(SOON, stream.next()).await??;
                ended.strip();
                return Ok(format!("{created:?}, then {ended:?}"));
            }
            format!("{created:?}")
        }
    })
}

/// An answer with a header.
trait Stripped: Debug {
    fn header(&mut self) -> &mut Option<ResponseHeader>;

    /// Leaves only the revision of the header.
    fn strip(&mut self) {
        if let Some(header) = self.header() {
            *header = ResponseHeader {
                revision: header.revision,
                ..ResponseHeader::default()
            };
        }
    }
}

macro_rules! stripped {
    ($($answer:ty)*) => {
        $(impl Stripped for $answer {
            fn header(&mut self) -> &mut Option<ResponseHeader> {
                &mut self.header
            }
        })*
    };
}

stripped! {
    RangeResponse PutResponse DeleteRangeResponse TxnResponse CompactionResponse
    LeaseGrantResponse LeaseRevokeResponse WatchResponse
}

fn stripped<T: Stripped>(answer: Result<T, EtcdError>) -> String {
    shown(answer.map(|mut answer| {
        answer.strip();
        answer
    }))
}

fn shown<T: Debug>(answer: Result<T, EtcdError>) -> String {
    match answer {
        Ok(answer) => format!("{answer:?}"),
        Err(error) => format!("{:?}", error.reason()),
    }
}

/// Returns all events since the last compaction.
async fn history(client: &EtcdClient) -> Fallible<Vec<String>> {
    let answer = client.put(put("/end", "")).await?;
    let last = answer.header.unwrap_or_default().revision;
    let (mut stream, _) = client.watch(watch("/", operation::COMPACTED)).await?;
    let mut events = Vec::new();
    loop {
        let response = timeout(SOON, stream.next()).await??;
        if let Some(error) = client.canceled(&response) {
            return Err(error.into());
        }
        for event in response.events {
            let revision = event.kv.as_ref().map_or(0, |kv| kv.mod_revision);
            events.push(format!("{event:?}"));
            if revision == last {
                return Ok(events);
            }
        }
    }
}
