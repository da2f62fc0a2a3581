//! Members that die: leaders, and the quorum.

use oxds_server::store::etcd::client::{Blame, EtcdClient, Members, Reason};
use tokio::time::timeout;

use super::shared::{equal, put, read, watch};
use super::{SOON, Scenario};
use crate::peers::etcd::{Etcd, Release};
use crate::wait::until;
use crate::{Context, Fallible};

pub(super) fn scenarios(release: Release) -> Vec<Scenario> {
    vec![Scenario::new(
        format!("etcd_{}_g17_g24_next_member_is_used", release.name()),
        move |cx| members(cx, release),
    )]
}

async fn members(cx: Context, release: Release) -> Fallible {
    let mut etcd = Etcd::start_three(&cx, release).await?;
    let options = etcd.members[0].plain()?;
    let client = etcd.connect().await?;
    client.put(put("/a", "1")).await?;
    let leader = client.status().await?.leader;

    // The leader dies: the next member answers, of the same cluster.
    let mut choice = Members::new(etcd.urls().parse()?, 0);
    let mut dead = 0;
    for (index, member) in etcd.members.iter().enumerate() {
        if member.connect(&options).await?.identity().member == leader {
            dead = index;
        }
    }
    while choice.current().to_string() != etcd.members[dead].url() {
        choice.use_next();
    }
    etcd.members[dead].kill().await?;
    let error = EtcdClient::connect(choice.current(), &options).await;
    let blame = error.err().map(|error| error.blame());
    equal("blame", blame, Some(Blame::Member))?;
    choice.use_next();
    let other = until("a new leader", SOON * 2, async || {
        let other = EtcdClient::connect(choice.current(), &options).await?;
        other.put(put("/a", "2")).await?;
        Ok(Some(other))
    })
    .await?;
    let cluster = other.identity().cluster;
    equal("cluster", cluster, client.identity().cluster)?;

    // Another one dies: without quorum, watches end and only local reads succeed.
    let (mut stream, _) = other.watch(watch("/a", 0)).await?;
    for member in &mut etcd.members {
        if member.url() != other.member() {
            member.kill().await?;
        }
    }
    let error = timeout(SOON * 2, stream.next()).await?.err();
    let reason = error.map(|error| error.reason().clone());
    equal("end of the watch", reason, Some(Reason::NoLeader))?;
    let mut local = read("/a");
    local.serializable = true;
    equal("local read", other.range(local).await?.count, 1)?;
    let write = other.put(put("/a", "3")).await.err();
    let unknown = write
        .as_ref()
        .map(|error| (error.blame(), error.is_outcome_unknown()));
    equal(
        &format!("write: {write:?}"),
        unknown,
        Some((Blame::Member, true)),
    )?;

    // A member returns: so do leader and watch.
    etcd.members[dead].restart()?;
    until("the quorum", SOON * 2, async || {
        other.put(put("/a", "4")).await?;
        other.watch(watch("/a", 0)).await?;
        Ok(Some(()))
    })
    .await
}
