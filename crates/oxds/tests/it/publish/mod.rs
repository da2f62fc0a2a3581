//! `oxds publish` and `oxds get --etcd`, against a scripted etcd.

mod content;
mod faults;
mod large;
mod replicas;
mod writers;

use std::path::Path;
use std::process::{Child, Stdio};

use oxds_etcd::{Entry, Head, Key, Place, Prefix, Segment, Staged, Stored};
use oxds_testkit::etcd::ScriptedEtcd;
use oxds_types::ResourceType;
use oxds_types::etcd::{Request, RequestOp, Response, TxnRequest};
use tokio::runtime::Runtime;

use crate::support::{Ran, cluster, command, oxds, until};

/// An etcd with its threads.
struct Store {
    runtime: Runtime,
    etcd: ScriptedEtcd,
}

/// All keys below the prefix, as they are.
#[derive(Debug, PartialEq, Eq)]
struct Keys(Vec<(Key, bytes::Bytes)>);

impl Store {
    fn start() -> Self {
        let runtime = Runtime::new().expect("a runtime");
        let etcd = runtime.block_on(ScriptedEtcd::start()).expect("a port");
        Self { runtime, etcd }
    }

    /// Publishes a folder with more arguments.
    fn publish<'a>(&self, dir: &Path, arguments: impl IntoIterator<Item = &'a str>) -> Ran {
        oxds(self.line(&self.etcd, dir, arguments))
    }

    /// Begins to publish at a member.
    fn begin<'a>(
        &self,
        member: &ScriptedEtcd,
        dir: &Path,
        arguments: impl IntoIterator<Item = &'a str>,
    ) -> Child {
        let mut command = command(self.line(member, dir, arguments));
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("the binary runs")
    }

    fn line<'a>(
        &self,
        member: &ScriptedEtcd,
        dir: &Path,
        arguments: impl IntoIterator<Item = &'a str>,
    ) -> Vec<String> {
        let dir = dir.to_str().expect("UTF-8");
        let line = ["publish", dir, "--etcd"].map(str::to_owned);
        let arguments = arguments.into_iter().map(str::to_owned);
        line.into_iter()
            .chain([member.url()])
            .chain(arguments)
            .collect()
    }

    fn get<'a>(&self, arguments: impl IntoIterator<Item = &'a str>) -> Ran {
        let line = ["get"].into_iter().chain(arguments).map(str::to_owned);
        oxds(line.chain(["--etcd".to_owned(), self.etcd.url()]))
    }

    fn keys(&self) -> Keys {
        let range = prefix().all().request();
        let read = TxnRequest {
            success: vec![RequestOp {
                request: Some(Request::Range(range)),
            }],
            ..TxnRequest::default()
        };
        let response = self.etcd.txn(&read).expect("read");
        let Some(Response::Range(range)) = &response.responses[0].response else {
            panic!("not a read: {response:?}");
        };
        let key = |key: &[u8]| prefix().parse(key).expect("a key of the layout");
        let kvs = range.kvs.iter();
        Keys(kvs.map(|kv| (key(&kv.key), kv.value.clone())).collect())
    }

    /// Returns the head of a lane.
    fn head(&self, lane: &str) -> Option<Head> {
        self.keys().head(lane)
    }

    /// Returns the seq of the lane `main`; 0 without a head.
    fn seq(&self) -> u64 {
        self.head("main").map_or(0, |head| head.seq)
    }

    /// Waits until a member has had this number of calls that a writer makes, or more.
    fn wait_for_calls(&self, member: &ScriptedEtcd, count: usize) {
        let reached = member.reach(|activity| {
            let calls = activity.calls.iter();
            let calls = calls.filter(|(method, _)| *method != "Status");
            calls.map(|(_, count)| count).sum::<usize>() >= count
        });
        self.runtime.block_on(reached).expect("the writer goes on");
    }
}

impl Store {
    /// Waits until the writer has made this number of calls, of which the last one is held, or has ended. Returns
    /// whether it has ended.
    fn waits_or_ends(&self, writer: &mut Child, calls: usize) -> bool {
        until(|| {
            if writer.try_wait().expect("waited").is_some() {
                return Ok(true);
            }
            let activity = self.etcd.activity().calls;
            let made = activity.iter().filter(|(method, _)| *method != "Status");
            let made = made.map(|(_, count)| count).sum::<usize>();
            if made >= calls {
                Ok(false)
            } else {
                Err(format!("{made} calls of {calls}"))
            }
        })
    }

    /// Ends the leases of writers that are gone, as their time does.
    fn end_leases(&self) {
        let keys = self.keys().0.into_iter().map(|(key, _)| prefix().key(&key));
        let leases = keys.filter_map(|key| Some(self.etcd.get(&key)?.lease));
        for lease in leases.filter(|lease| *lease != 0).collect::<Vec<_>>() {
            self.etcd.end_lease(lease);
        }
    }
}

impl Keys {
    fn head(&self, lane: &str) -> Option<Head> {
        let key = Key::Head(segment(lane));
        let (_, value) = self.0.iter().find(|(held, _)| *held == key)?;
        Some(Head::decode(value).expect("a head"))
    }

    /// Returns what a replica serves of a lane: its entries, with the stage that the head names. Checks that the head
    /// vouches for it.
    fn served(&self, lane: &str) -> std::collections::BTreeMap<Entry, Stored> {
        let mut served = std::collections::BTreeMap::new();
        let Some(head) = self.head(lane) else {
            return served;
        };
        for (key, value) in &self.0 {
            if let Key::Entry(of, entry) = key
                && **of == *lane
            {
                let stored = Stored::decode(value.clone()).expect("a value");
                served.insert(entry.clone(), stored);
            }
        }
        for (key, value) in &self.0 {
            if let Key::Staged(of, id, entry) = key
                && **of == *lane
                && Some(*id) == head.staged
            {
                match Staged::decode(value.clone()).expect("a value") {
                    Staged::Put(stored) => served.insert(entry.clone(), stored),
                    Staged::Removal => served.remove(entry),
                };
            }
        }
        let mut digest = oxds_etcd::Digest::default();
        for (entry, stored) in &served {
            digest.add(entry, &stored.digest_version());
        }
        assert_eq!(digest, head.digest, "no head vouches for what is served");
        served
    }

    fn names(&self, lane: &str) -> Vec<String> {
        let names = self.served(lane).into_keys();
        names.map(|entry| entry.to_string()).collect()
    }

    fn staged(&self) -> usize {
        let is_staged = |key: &Key| matches!(key, Key::Staged(..) | Key::Alive(..));
        self.0.iter().filter(|(key, _)| is_staged(key)).count()
    }
}

fn prefix() -> Prefix {
    Prefix::new("/oxds/default").expect("a prefix")
}

fn segment(name: &str) -> Segment {
    Segment::lane(name).expect("a name")
}

/// Returns the key of a cluster for all nodes, below a lane.
fn key_of(name: &str) -> String {
    Entry::from(Place::of_all(ResourceType::CLUSTER, name)).to_string()
}

/// Returns a file of clusters whose content is this text, too.
fn clusters(count: usize, text: &str) -> String {
    let one = |at: usize| {
        let name = format!("c{at:06}");
        format!("---\n{}alt_stat_name: {text:?}\n", cluster(&name))
    };
    (0..count).map(one).collect()
}
