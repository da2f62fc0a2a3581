//! Several writers: lanes, conflicts, and answers that are lost (G-6, G-10, G-11).

use std::collections::BTreeMap;
use std::future::ready;
use std::sync::Arc;

use oxds_etcd::publisher::{PublishError, PublishOptions, PublishOutcome, Wanted};
use oxds_etcd::{Entry, Place, Prefix, Segment, Stored};
use oxds_server::store::etcd::client::{ClientOptions, Endpoints};
use oxds_server::store::etcd::writer::{self, Session};
use oxds_server::{Resource, ResourceType};
use oxds_types::etcd::RangeRequest;

use super::shared::{Content, HEAD, InEtcd, PREFIX, equal, read};
use super::{SOON, Scenario};
use crate::gate::Gate;
use crate::peers::etcd::{Etcd, Release};
use crate::peers::replica::{Publish, Replica, ended};
use crate::subscriber::Subscriber;
use crate::wait::until;
use crate::wire::Protocol;
use crate::{Context, Fallible};

/// Writers at the same time.
const WRITERS: usize = 4;

pub(super) fn scenarios(release: Release) -> Vec<Scenario> {
    let name = |what| format!("etcd_{}_{what}", release.name());
    vec![
        Scenario::new(name("g6_lanes_are_served_together"), move |cx| {
            lanes(cx, release)
        }),
        Scenario::new(name("g10_writers_do_not_lose_changes"), move |cx| {
            concurrent(cx, release)
        }),
        Scenario::new(name("g11_lost_answer_is_looked_for"), move |cx| {
            unknown(cx, release)
        }),
    ]
}

/// given two lanes / when each has a publish / then a client has the union; a cluster of the other lane is refused, and
/// each lane keeps its own head.
async fn lanes(cx: Context, release: Release) -> Fallible {
    let etcd = Etcd::start(&cx, release, &[]).await?;
    etcd.connect().await?;
    let urls = etcd.urls();
    let main = Content::new(&cx, "main", &urls)?;
    let other = Content::new(&cx, "other", &urls)?;
    main.replace(&[("a", "1")]).await?;
    let replica = Replica::start(&cx, &urls, "replica").await?;
    let client = Subscriber::start(vec![replica.grpc], Protocol::Delta);
    client.has_only(&[("a", "1")], SOON).await?;
    other.set(&[("b", "1")])?;
    other.publish(&["--lane", "other", "--prune"]).await?;
    client.has_only(&[("a", "1"), ("b", "1")], SOON).await?;

    let mark = client.mark();
    other.set(&[("a", "2"), ("b", "1")])?;
    let refused = other.command(&["--lane", "other", "--force"]).run().await?;
    refused.expect(1, &["a", "lane main"])?;
    // A publish that removes everything removes its own lane only.
    main.replace(&[("c", "3")]).await?;
    client.has_only(&[("b", "1"), ("c", "3")], SOON).await?;
    client.received_once(mark, &[("c", "3")], &["a"])?;
    InEtcd::read(&urls).await?.expect(2, &["c"])?;
    InEtcd::of_lane(&urls, "other").await?.expect(1, &["b"])
}

/// given several writers at once / when they change different clusters / then all changes are there, one publish after
/// the other. When two change the same cluster, the second fails, names it and who changed it, and nothing is lost.
async fn concurrent(cx: Context, release: Release) -> Fallible {
    let etcd = Etcd::start_three(&cx, release).await?;
    etcd.connect().await?;
    let urls = etcd.urls();
    let base = Content::new(&cx, "base", &urls)?;
    base.set(&[("base", "0")])?;
    base.publish(&[]).await?;
    let replica = Replica::start(&cx, &urls, "replica").await?;
    let client = Subscriber::start(vec![replica.grpc], Protocol::Delta);
    client.has_only(&[("base", "0")], SOON).await?;

    let mut writers = Vec::new();
    for number in 0..WRITERS {
        let content = Content::new(&cx, &format!("writer-{number}"), &urls)?;
        content.set(&[(&format!("w{number}"), "1")])?;
        writers.push(content.command(&[]).begin()?);
    }
    for writer in writers {
        ended(writer).await?.expect(0, &["published "])?;
    }
    let names = ["base", "w0", "w1", "w2", "w3"];
    InEtcd::read(&urls).await?.expect(5, &names)?;
    client
        .has("the changes of all writers", SOON, |has| has.len() == 5)
        .await?;

    // While a writer checks its state, another one publishes.
    let publish = |file: &str, cluster: &str, text: &str| -> Fallible<std::process::Command> {
        let content = Content::new(&cx, file, &urls)?;
        content.set(&[(cluster, text)])?;
        let Publish { cx, folder, .. } = content.command(&[]);
        let mut command = std::process::Command::new(&cx.programs.oxds);
        command.arg("publish").arg(folder).args(["--etcd", &urls]);
        Ok(command)
    };
    let between = publish("between", "between", "1")?;
    let done = interrupted(&urls, ("mine", "1"), between).await?;
    let is_seventh = matches!(done, Ok(PublishOutcome::Published { seq: 7, .. }));
    equal(&format!("different clusters: {done:?}"), is_seventh, true)?;
    let same = publish("same", "w0", "theirs")?;
    match interrupted(&urls, ("w0", "mine"), same).await? {
        Err(PublishError::Conflicts(conflicts)) => {
            let conflicts: Vec<_> = conflicts
                .iter()
                .map(|one| (one.seq, one.is_exact))
                .collect();
            equal("conflicts", conflicts, vec![(8, true)])?;
        }
        other => return Err(format!("the same cluster: {other:?}").into()),
    }
    let has = |name: &str, text: &str, has: &crate::subscriber::Clusters| {
        has.get(name).map(String::as_str) == Some(text)
    };
    client
        .has("the first of two changes", SOON, |clusters| {
            has("w0", "theirs", clusters) && has("mine", "1", clusters) && clusters.len() == 7
        })
        .await?;
    equal("seq", InEtcd::read(&urls).await?.seq, 8)
}

/// Publishes a cluster by the library, and runs this command between its read and its commit.
async fn interrupted(
    urls: &str,
    (name, text): (&str, &str),
    command: std::process::Command,
) -> Fallible<Result<PublishOutcome, PublishError>> {
    let message = envoy_types::pb::envoy::config::cluster::v3::Cluster {
        name: name.to_owned(),
        alt_stat_name: text.to_owned(),
        ..Default::default()
    };
    let resource = Resource::of(&message)?;
    let stored = Stored::of_resource(&resource, None);
    let entry = Entry::Resource(Place::of_all(ResourceType::CLUSTER, name));
    let wanted = BTreeMap::from([(entry, Arc::new(stored))]);
    let prefix = Prefix::new(PREFIX.trim_end_matches('/'))?;
    let options = PublishOptions::new(prefix, Segment::lane("main")?, writer::publish_id());
    let endpoints: Endpoints = urls.parse()?;
    let client = ClientOptions::new(&endpoints, None)?;
    // The check blocks its thread until the other command has ended.
    let outcome = tokio::task::spawn_blocking(move || {
        let mut session = Session::new(endpoints, client);
        let mut command = Some(command);
        let judge = |_: &_| match command.take().map(|mut command| command.output()) {
            Some(output) => output.is_ok_and(|output| output.status.success()),
            None => true,
        };
        let published = writer::publish(
            &mut session,
            options,
            ready(Some(Wanted::State(wanted.into()))),
            judge,
            |_| (),
        );
        tokio::runtime::Handle::current().block_on(published)
    });
    Ok(outcome.await?)
}

/// given a publish whose commit takes effect / when its answer is lost, and when the leader dies with it / then the
/// writer finds its publish in the head, reports success once, and seq grows by one.
async fn unknown(cx: Context, release: Release) -> Fallible {
    let mut etcd = Etcd::start_three(&cx, release).await?;
    etcd.connect().await?;
    let leader = etcd.leader().await?;
    let others: Vec<_> = (0..3).filter(|index| *index != leader).collect();
    let gate = Gate::before(etcd.members[leader].address).await?;
    // The writer begins with the first member: the leader, behind the gate.
    let rest = others.iter().map(|index| etcd.members[*index].url());
    let urls: Vec<_> = std::iter::once(gate.url()).chain(rest).collect();
    let content = Content::new(&cx, "content", &urls.join(","))?;
    content.replace(&[("a", "1")]).await?;
    let witness = etcd.members[others[0]].url();
    let replica = Replica::start(&cx, &witness, "replica").await?;
    let client = Subscriber::start(vec![replica.grpc], Protocol::Delta);
    client.has_only(&[("a", "1")], SOON).await?;

    for (seq, text, kills) in [(2, "2", false), (3, "3", true)] {
        let mark = client.mark();
        content.set(&[("a", text)])?;
        // Only the transaction of a commit has a new head.
        gate.lose_answer_to(format!("\"seq\":{seq}").as_bytes());
        let writer = content.command(&[]).begin()?;
        gate.loses(SOON).await?;
        replica.serves(seq, SOON).await?;
        if kills {
            etcd.members[leader].kill().await?;
        } else {
            gate.cut_all();
        }
        ended(writer)
            .await?
            .expect(0, &[&format!("published {seq} ")])?;
        client.has_only(&[("a", text)], SOON).await?;
        client.received_once(mark, &[("a", text)], &[])?;
        InEtcd::read(&witness).await?.expect(seq, &["a"])?;
    }
    // Each publish wrote the head once.
    let member = &etcd.members[others[0]];
    let head = until("the head", SOON * 2, async || {
        let client = member.connect(&member.plain()?).await?;
        let head = RangeRequest {
            range_end: Vec::new().into(),
            ..read(HEAD)
        };
        Ok(client.range(head).await?.kvs.pop())
    })
    .await?;
    equal("writes of the head", head.version, 3)
}
