//! Clients in four languages on three replicas over three members, while replicas and etcd die (G-17, G-24, G-34,
//! G-35).

use super::shared::Content;
use super::{SOON, Scenario};
use crate::backend::Backend;
use crate::peers::etcd::{Etcd, Release};
use crate::peers::replica::Replica;
use crate::scenarios::clients::{Clients, lead_to, mesh};
use crate::wire::{Protocol, Response, Wire};
use crate::{Context, Fallible};

/// Calls that each client makes after each death.
const CALLS: usize = 60;
/// Number of replicas.
const REPLICAS: usize = 3;

pub(super) fn scenarios(release: Release) -> Vec<Scenario> {
    vec![Scenario::new(
        format!(
            "etcd_{}_g34_g35_replicas_die_and_no_call_fails",
            release.name()
        ),
        move |cx| replicas(cx, release),
    )]
}

/// Three replicas behind a balancer for SotW and one for delta, which count the bytes that they forward.
struct Fleet {
    replicas: Vec<Replica>,
    sotw: Wire,
    delta: Wire,
}

impl Fleet {
    async fn start(cx: &Context, urls: &str) -> Fallible<Self> {
        let mut replicas = Vec::new();
        for number in 0..REPLICAS {
            let id = format!("replica-{number}");
            replicas.push(Replica::with_state(cx, urls, &id).await?);
        }
        let addresses: Vec<_> = replicas.iter().map(|replica| replica.grpc).collect();
        Ok(Self {
            replicas,
            sotw: Wire::balance(addresses.clone(), Protocol::Sotw, &cx.dir).await?,
            delta: Wire::balance(addresses, Protocol::Delta, &cx.dir).await?,
        })
    }

    /// Kills a replica, and starts it again once the clients have made calls without it.
    async fn restart(&mut self, number: usize, clients: &Clients) -> Fallible {
        let replica = self.replicas.get_mut(number).ok_or("no such replica")?;
        replica.kill().await?;
        clients.call(CALLS).await?;
        replica.restart().await?;
        replica.is_ready(true, SOON).await?;
        clients.call(CALLS).await
    }

    /// Waits until all replicas serve this publish.
    async fn serve(&self, seq: u64) -> Fallible {
        for replica in &self.replicas {
            replica.serves(seq, SOON * 2).await?;
        }
        Ok(())
    }

    /// Fails if a delta client got a resource or a removal since this mark. A SotW client that subscribes to names gets
    /// them once more with each new stream: the version that it reports is compared for wildcards only.
    fn nothing_sent(&self, since: usize) -> Fallible {
        let delta = self.delta.responses_since(since);
        let sent =
            |response: &&Response| !response.resources.is_empty() || !response.removed.is_empty();
        match delta.iter().find(sent) {
            None => Ok(()),
            Some(response) => Err(format!("sent again: {response:?}").into()),
        }
    }

    fn mark(&self) -> usize {
        self.delta.mark()
    }
}

/// given Envoy (delta), and gRPC in three languages and our channel (SotW), under load on three replicas over three
/// members of etcd / when a replica is killed, all restart one by one, the leader dies, and etcd is away while a
/// replica restarts from its state / then no call fails and Envoy gets no resource again; the next publish reaches all
/// of them.
async fn replicas(cx: Context, release: Release) -> Fallible {
    let backends = [Backend::start("a").await?, Backend::start("b").await?];
    let folder = mesh(&cx, &backends[0])?;
    let mut etcd = Etcd::start_three(&cx, release).await?;
    etcd.connect().await?;
    let urls = etcd.urls();
    let content = Content::of(&cx, folder.path(), &urls);
    content.publish(&[]).await?;
    let mut fleet = Fleet::start(&cx, &urls).await?;
    fleet.serve(1).await?;
    let clients = Clients::start(&cx, fleet.delta.address, fleet.sotw.address).await?;
    clients.served_by("a").await?;

    let mark = fleet.mark();
    for number in 0..REPLICAS {
        fleet.restart(number, &clients).await?;
    }
    fleet.nothing_sent(mark)?;

    // One member dies, whatever its role, and returns.
    for member in &mut etcd.members {
        member.kill().await?;
        clients.call(CALLS).await?;
        member.restart()?;
        fleet.serve(1).await?;
    }
    // All members die, and a replica starts without them.
    etcd.kill().await?;
    fleet.restart(0, &clients).await?;
    fleet.nothing_sent(mark)?;
    etcd.restart()?;
    fleet.serve(1).await?;
    fleet.nothing_sent(mark)?;

    lead_to(&folder, &backends[1])?;
    content.publish(&[]).await?;
    fleet.serve(2).await?;
    clients.served_by("b").await?;
    clients.none_failed()
}
