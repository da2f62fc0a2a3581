//! One publish: by the library in this process, or by `oxds publish`, which may be killed.

use std::collections::BTreeMap;
use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use envoy_types::pb::envoy::config::cluster::v3::Cluster;
use oxds_etcd::publisher::{
    DEFAULT_REQUEST_LIMIT, PublishError, PublishOptions, PublishOutcome, Wanted,
};
use oxds_etcd::{Entry, Place, Prefix, PublishId, Segment, Stored};
use oxds_server::store::etcd::client::{ClientOptions, Endpoints};
use oxds_server::store::etcd::writer::{self, Session};
use oxds_server::{Resource, ResourceType};
use tokio::time::{sleep, timeout};

use super::super::shared::{Content, PREFIX};
use super::content::{Change, LANES};
use crate::peers::replica::{Ended, ended};
use crate::{Context, Fallible};

/// Limit of requests of large publishes: those of more than a few clusters are staged.
const SMALL_REQUESTS: usize = 2_000;
/// The same of `oxds publish`, which accepts no lower one.
const SMALL_REQUESTS_OF_COMMAND: &str = "4096";
/// Time after which a writer gives up.
const GIVE_UP: Duration = Duration::from_secs(5);
/// Time limit of a call of a writer.
const CALL: Duration = Duration::from_secs(2);

/// Result of a publish.
#[derive(Debug)]
pub(super) enum Done {
    /// The writer reports success, with the id if it knows it.
    Acknowledged(Option<PublishId>),
    Killed,
    Unknown,
    Failed,
    /// Replicas serve a later seq.
    WentBack,
}

/// How a publish is done.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Manner {
    /// Staged, with many requests.
    pub(super) is_large: bool,
    pub(super) accepts_restored: bool,
    /// Time after which the writer is killed.
    pub(super) dies_after: Option<Duration>,
}

/// Publishes in this process.
pub(super) async fn by_library(urls: &str, change: &Change, manner: Manner) -> Fallible<Done> {
    let prefix = Prefix::new(PREFIX.trim_end_matches('/'))?;
    let lane = Segment::lane(LANES[change.lane])?;
    let options = PublishOptions {
        note: change.text(),
        force: true,
        accept_restored: manner.accepts_restored,
        give_up_after: GIVE_UP,
        request_limit: if manner.is_large {
            SMALL_REQUESTS
        } else {
            DEFAULT_REQUEST_LIMIT
        },
        ..PublishOptions::new(prefix, lane, writer::publish_id())
    };
    let wanted = ready(Some(Wanted::Changes(entries(change)?)));
    let endpoints: Endpoints = urls.parse()?;
    let client = ClientOptions::new(&endpoints, None)?.timeout(CALL);
    let mut session = Session::new(endpoints, client);
    let published = writer::publish(&mut session, options, wanted, |_| true, |_| ());
    let outcome = match manner.dies_after {
        None => published.await,
        Some(life) => match timeout(life, published).await {
            Ok(outcome) => outcome,
            Err(_) => return Ok(Done::Killed),
        },
    };
    match outcome {
        Ok(PublishOutcome::Published { publish, .. }) => Ok(Done::Acknowledged(Some(publish))),
        Err(PublishError::OutcomeUnknown { .. }) => Ok(Done::Unknown),
        Err(PublishError::WentBack { .. }) => Ok(Done::WentBack),
        Err(PublishError::Etcd(_) | PublishError::Contended(_)) => Ok(Done::Failed),
        other => Err(format!("publish {}: {other:?}", change.number).into()),
    }
}

fn entries(change: &Change) -> Fallible<BTreeMap<Entry, Option<Arc<Stored>>>> {
    let mut entries = BTreeMap::new();
    let entry = |name: &str| Entry::Resource(Place::of_all(ResourceType::CLUSTER, name));
    for name in change.written() {
        let message = Cluster {
            alt_stat_name: change.text(),
            name: name.clone(),
            ..Cluster::default()
        };
        let stored = Stored::of_resource(&Resource::of(&message)?, None);
        entries.insert(entry(&name), Some(Arc::new(stored)));
    }
    entries.extend(change.removals.iter().map(|name| (entry(name), None)));
    Ok(entries)
}

/// Publishes by the command, in a folder of this name. It removes nothing.
pub(super) async fn by_command(
    cx: &Context,
    folder: &str,
    urls: &str,
    change: &Change,
    manner: Manner,
) -> Fallible<Done> {
    let content = Content::new(cx, folder, urls)?;
    let text = change.text();
    content.set_all(change.written().map(|name| (name, text.as_str())))?;
    let mut options = vec!["--force", "--lane", LANES[change.lane], "--note", &text];
    if manner.is_large {
        options.extend(["--max-request-bytes", SMALL_REQUESTS_OF_COMMAND]);
    }
    if manner.accepts_restored {
        options.push("--accept-restored");
    }
    let mut child = content.command(&options).begin()?;
    if let Some(life) = manner.dies_after {
        sleep(life).await;
        child.start_kill()?;
    }
    outcome(change, &ended(child).await?)
}

fn outcome(change: &Change, ended: &Ended) -> Fallible<Done> {
    let has = |text: &str| ended.text.contains(text);
    match ended.status.code() {
        None => Ok(Done::Killed),
        Some(0) if has("published ") => Ok(Done::Acknowledged(None)),
        Some(1) if has("store went back") => Ok(Done::WentBack),
        Some(1) if has("unknown whether") => Ok(Done::Unknown),
        Some(1) if has("not published") => Ok(Done::Failed),
        _ => Err(format!(
            "publish {}: {}: {}",
            change.number, ended.status, ended.text
        )
        .into()),
    }
}
