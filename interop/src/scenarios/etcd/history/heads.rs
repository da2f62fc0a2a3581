//! All heads of etcd, from the latest one back to the last one in the record.

use std::time::Duration;

use oxds_etcd::{Head, Key, Prefix, Segment};
use oxds_server::store::etcd::client::{ClientOptions, Endpoints};
use oxds_server::store::etcd::writer::Session;
use oxds_types::etcd::{KeyValue, RangeRequest};

use super::super::shared::PREFIX;
use super::content::LANES;
use super::run::Shared;
use crate::Fallible;
use crate::wait::until;

/// For an election, or the return of a member.
const ANSWER: Duration = Duration::from_secs(60);
/// For one answer, before the next member is asked.
const CALL: Duration = Duration::from_secs(2);

/// Reader of heads, at the members themselves.
#[derive(Debug)]
pub(super) struct Heads(Session);

impl Heads {
    pub(super) fn new(urls: &str) -> Fallible<Self> {
        let endpoints: Endpoints = urls.parse()?;
        let options = ClientOptions::new(&endpoints, None)?.timeout(CALL);
        Ok(Self(Session::new(endpoints, options)))
    }

    /// Reads keys linearizably, by any member that answers.
    pub(super) async fn read(&mut self, request: &RangeRequest) -> Fallible<(i64, Vec<KeyValue>)> {
        let session = &mut self.0;
        let answer = until("an answer of etcd", ANSWER, async || {
            Ok(Some(session.range(request.clone()).await?))
        });
        let answer = answer.await?;
        Ok((
            answer.header.map_or(0, |header| header.revision),
            answer.kvs,
        ))
    }

    /// Returns the head of a lane at a revision, or the latest one at 0.
    async fn head(&mut self, lane: usize, revision: i64) -> Fallible<(i64, KeyValue, Head)> {
        let prefix = Prefix::new(PREFIX.trim_end_matches('/'))?;
        let key = prefix.key(&Key::Head(Segment::lane(LANES[lane])?));
        let request = RangeRequest {
            key,
            revision,
            ..RangeRequest::default()
        };
        let (now, kvs) = self.read(&request).await?;
        let absent = || format!("no head of {} at revision {revision}", LANES[lane]);
        let kv = kvs.into_iter().next().ok_or_else(absent)?;
        let head = Head::decode(&kv.value)?;
        Ok((now, kv, head))
    }

    /// Returns the latest head of a lane.
    pub(super) async fn latest(&mut self, lane: usize) -> Fallible<Head> {
        Ok(self.head(lane, 0).await?.2)
    }

    /// Adds all heads since the last walk to the record. Returns a revision that has all of them.
    ///
    /// A key has the number of its writes, so a head that is missing between two others shows.
    pub(super) async fn walk(&mut self, shared: &Shared) -> Fallible<i64> {
        let mut revision = i64::MAX;
        for (lane, name) in LANES.iter().enumerate() {
            let tip = shared.lock().record.tip(lane);
            let (now, mut kv, mut head) = self.head(lane, 0).await?;
            revision = revision.min(now);
            let mut found: Vec<Head> = Vec::new();
            while tip != Some(head.publish) {
                // The last step of a large publish writes its head once more.
                if found.last().map(|last| last.publish) != Some(head.publish) {
                    found.push(head);
                }
                if kv.version == 1 {
                    break;
                }
                let (_, before, older) = self.head(lane, kv.mod_revision - 1).await?;
                if before.version + 1 != kv.version {
                    let (older, newer) = (before.version, kv.version);
                    return Err(format!(
                        "{name}: write {older} of the head is the one before write {newer}"
                    )
                    .into());
                }
                (kv, head) = (before, older);
            }
            let mut run = shared.lock();
            run.figures.heads += found.len();
            for head in found.into_iter().rev() {
                run.record.publish(lane, &head)?;
            }
        }
        Ok(revision)
    }
}
