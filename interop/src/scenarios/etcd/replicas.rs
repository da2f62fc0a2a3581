//! Clients in four languages on three replicas over three members, while replicas and etcd die (G-17, G-24, G-34, G-35).

use super::{SOON, Scenario};
use crate::backend::Backend;
use crate::calls::Calls;
use crate::config::{Folder, LISTENER, api_listener, assignment, cluster, routes, socket_listener};
use crate::http::HttpLoad;
use crate::peers::channel::ChannelLoad;
use crate::peers::envoy::Envoy;
use crate::peers::etcd::{Etcd, Release};
use crate::peers::grpc::Grpc;
use crate::peers::oxds::{Bootstrap, Oxds, bootstrap, bootstrap_of, publish};
use crate::scenarios::only_at;
use crate::wire::{Protocol, Wire};
use crate::{Context, Fallible};

/// Calls that each client makes after each death.
const CALLS: usize = 60;
/// Envoy's node id, which gives it a listener of its own by a group.
const EDGE: &str = "edge-1";
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

/// A replica with what it needs to start again.
struct Replica {
    name: String,
    oxds: Option<Oxds>,
}

/// Three replicas behind a balancer for SotW and one for delta, which count what they pass on.
struct Fleet {
    cx: Context,
    urls: String,
    replicas: Vec<Replica>,
    sotw: Wire,
    delta: Wire,
}

impl Fleet {
    async fn start(cx: &Context, etcd: &Etcd) -> Fallible<Self> {
        let (mut replicas, mut addresses) = (Vec::new(), Vec::new());
        for number in 0..REPLICAS {
            let name = format!("replica-{number}");
            let oxds = Oxds::serve_etcd(cx, &etcd.urls(), &name, None).await?;
            addresses.push(oxds.grpc);
            let oxds = Some(oxds);
            replicas.push(Replica { name, oxds });
        }
        Ok(Self {
            cx: cx.clone(),
            urls: etcd.urls(),
            replicas,
            sotw: Wire::balance(addresses.clone(), Protocol::Sotw, &cx.dir).await?,
            delta: Wire::balance(addresses, Protocol::Delta, &cx.dir).await?,
        })
    }

    /// Kills a replica, and starts it again on its addresses once the clients have made calls without it.
    async fn restart(&mut self, number: usize, loads: &[(&str, &Calls)]) -> Fallible {
        let Some(replica) = self.replicas.get_mut(number) else {
            return Err("no such replica".into());
        };
        let Some(oxds) = replica.oxds.take() else {
            return Err("the replica does not run".into());
        };
        let addresses = (oxds.grpc, oxds.http);
        oxds.kill().await?;
        calls(loads).await?;
        let oxds = Oxds::serve_etcd(&self.cx, &self.urls, &replica.name, Some(addresses)).await?;
        oxds.ready(SOON).await?;
        replica.oxds = Some(oxds);
        calls(loads).await
    }

    /// Waits until all replicas serve this publish.
    async fn serve(&self, seq: u64) -> Fallible {
        for replica in &self.replicas {
            if let Some(oxds) = &replica.oxds {
                oxds.serves_publish(seq, SOON * 2).await?;
            }
        }
        Ok(())
    }

    /// Fails if a delta client got a resource or a removal since this mark. A SotW client that subscribes to names gets them once
    /// more with each new stream: the version that it reports is compared for wildcards only.
    fn nothing_sent(&self, since: usize) -> Fallible {
        let delta = self.delta.responses_since(since);
        let sent = |response: &&crate::wire::Response| {
            !response.resources.is_empty() || !response.removed.is_empty()
        };
        match delta.iter().find(sent) {
            None => Ok(()),
            Some(response) => Err(format!("sent again: {response:?}").into()),
        }
    }

    fn mark(&self) -> usize {
        self.delta.mark()
    }
}

/// Waits until each client has made some calls.
async fn calls(loads: &[(&str, &Calls)]) -> Fallible {
    for (_, calls) in loads {
        calls.next(CALLS, SOON).await?;
    }
    Ok(())
}

/// given Envoy (delta), and gRPC in three languages and our channel (SotW), under load on three replicas over three members of etcd /
/// when a replica is killed, all restart one by one, the leader dies, and etcd is away while a replica restarts from its state / then no
/// call fails and Envoy gets no resource again; the next publish reaches all of them.
async fn replicas(cx: Context, release: Release) -> Fallible {
    let backends = [Backend::start("a").await?, Backend::start("b").await?];
    let to = |backend: &Backend| {
        let endpoints = assignment("blue", &[&[backend.address]]);
        [routes(&[("blue", 1)]), cluster("blue"), endpoints]
    };
    let folder = Folder::create(&cx.dir)?;
    folder.write("listener.yaml", &[api_listener()])?;
    std::fs::create_dir_all(folder.path().join("groups/edge"))?;
    let group = ["match: { id: edge-* }\n".to_owned()];
    folder.write("groups/edge/group.yaml", &group)?;
    folder.write("groups/edge/listener.yaml", &[socket_listener()])?;
    folder.write("mesh.yaml", &to(&backends[0]))?;

    let mut etcd = Etcd::start_three(&cx, release).await?;
    etcd.connect().await?;
    publish(&cx, &folder, &etcd.urls()).await?;
    let mut fleet = Fleet::start(&cx, &etcd).await?;
    fleet.serve(1).await?;

    let edge = Bootstrap::Envoy(Protocol::Delta);
    let edge = bootstrap_of(&cx, edge, fleet.delta.address, EDGE).await?;
    let mut envoy = Envoy::start(&cx, &edge).await?;
    let proxied = HttpLoad::start(envoy.listener(LISTENER).await?, 1);
    let file = bootstrap(&cx, Bootstrap::Grpc, fleet.sotw.address).await?;
    let clients = [
        Grpc::Core.call(&cx, &file)?,
        Grpc::Go.call(&cx, &file)?,
        Grpc::Js.call(&cx, &file)?,
    ];
    let channel = ChannelLoad::start(&file)?;
    let mut loads = vec![("envoy", &proxied.calls), ("channel", &channel.calls)];
    let names = ["core", "go", "js"];
    loads.extend(names.into_iter().zip(clients.iter().map(|one| &one.calls)));
    served_by(&loads, "a").await?;

    let mark = fleet.mark();
    for number in 0..REPLICAS {
        fleet.restart(number, &loads).await?;
    }
    fleet.nothing_sent(mark)?;

    // One member dies, whatever its role, and returns.
    for member in &mut etcd.members {
        member.kill().await?;
        calls(&loads).await?;
        member.restart()?;
        fleet.serve(1).await?;
    }
    // All members die, and a replica starts without them.
    for member in &mut etcd.members {
        member.kill().await?;
    }
    fleet.restart(0, &loads).await?;
    fleet.nothing_sent(mark)?;
    for member in &mut etcd.members {
        member.restart()?;
    }
    fleet.serve(1).await?;
    fleet.nothing_sent(mark)?;

    folder.write("mesh.yaml", &to(&backends[1]))?;
    publish(&cx, &folder, &etcd.urls()).await?;
    fleet.serve(2).await?;
    served_by(&loads, "b").await?;
    for (client, calls) in loads {
        calls
            .none_failed()
            .map_err(|error| format!("{client}: {error}"))?;
    }
    Ok(())
}

/// Waits until only `backend` answers every client.
async fn served_by(loads: &[(&str, &Calls)], backend: &str) -> Fallible {
    for (client, calls) in loads {
        only_at(calls, client, &[backend]).await?;
    }
    Ok(())
}
