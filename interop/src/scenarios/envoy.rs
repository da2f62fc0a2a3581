//! Envoy as a client of `oxds serve`, over ADS, in both protocols.

use std::collections::{BTreeMap, BTreeSet};

use super::{SOON, Scenario, only_at};
use crate::backend::Backend;
use crate::config::{
    Folder, LISTENER, ROUTES, assignment, cluster, cluster_with, routes, socket_listener,
};
use crate::http::HttpLoad;
use crate::peers::envoy::Envoy;
use crate::peers::oxds::{Bootstrap, Oxds, bootstrap};
use crate::wait::until;
use crate::wire::{Message, Protocol, Response, Wire};
use crate::{Context, Fallible};

/// Connections that load the proxy.
const WORKERS: usize = 3;
/// Envoy's reason for the NACK of [`poisoned_resource_is_nacked_once`]'s cluster.
pub(super) const REFUSAL: &str = "cluster provided LB specified";
/// Listeners, routes, clusters, assignments.
const KINDS: usize = 4;

pub(super) fn scenarios() -> Vec<Scenario> {
    let mut all = Vec::new();
    for protocol in [Protocol::Sotw, Protocol::Delta] {
        let mut add = |what: &str, run: fn(Context, Protocol) -> super::scenario::Ending| {
            let name = format!("envoy_{}_{what}", protocol.name());
            all.push(Scenario::new(name, move |cx| run(cx, protocol)));
        };
        add("folder_reaches_backends", |cx, p| {
            Box::pin(folder_reaches_backends(cx, p))
        });
        add("edit_shifts_traffic", |cx, p| {
            Box::pin(edit_shifts_traffic(cx, p))
        });
        add("removed_cluster_leaves_after_its_route", |cx, p| {
            Box::pin(removed_cluster_leaves_after_its_route(cx, p))
        });
        add("poisoned_resource_is_nacked_once", |cx, p| {
            Box::pin(poisoned_resource_is_nacked_once(cx, p))
        });
        let restart = match protocol {
            Protocol::Sotw => "restart_keeps_versions",
            Protocol::Delta => "restart_resends_nothing",
        };
        add(restart, |cx, p| Box::pin(restart_resends_nothing(cx, p)));
    }
    all
}

/// Two backends, a control plane over a folder that leads to both, an Envoy that it configures, and load through Envoy.
pub(super) struct Mesh {
    pub(super) folder: Folder,
    pub(super) oxds: Oxds,
    wire: Wire,
    pub(super) envoy: Envoy,
    load: HttpLoad,
    blue: Backend,
    green: Backend,
}

/// The folder's `mesh.yaml`: the routes by weight, both clusters, an endpoint each.
pub(super) fn resources(weights: &[(&str, u32)], blue: &Backend, green: &Backend) -> [String; 5] {
    [
        routes(weights),
        cluster("blue"),
        cluster("green"),
        assignment("blue", &[&[blue.address]]),
        assignment("green", &[&[green.address]]),
    ]
}

/// Whether Envoy connects to the control plane directly or through a witness.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Link {
    Direct,
    Witnessed,
}

impl Mesh {
    /// Starts with the given weights of clusters `blue` and `green`.
    pub(super) async fn start(
        cx: &Context,
        protocol: Protocol,
        link: Link,
        weights: &[(&str, u32)],
    ) -> Fallible<Self> {
        let (blue, green) = (
            Backend::start("blue").await?,
            Backend::start("green").await?,
        );
        let folder = Folder::create(&cx.dir)?;
        folder.write("listener.yaml", &[socket_listener()])?;
        folder.write("mesh.yaml", &resources(weights, &blue, &green))?;
        let oxds = Oxds::serve(cx, &folder).await?;
        let wire = Wire::start(oxds.grpc, protocol, &cx.dir).await?;
        let server = if link == Link::Direct {
            oxds.grpc
        } else {
            wire.address
        };
        let file = bootstrap(cx, Bootstrap::Envoy(protocol), server).await?;
        let mut envoy = Envoy::start(cx, &file).await?;
        let load = HttpLoad::start(envoy.listener(LISTENER).await?, WORKERS);
        Ok(Self {
            folder,
            oxds,
            wire,
            envoy,
            load,
            blue,
            green,
        })
    }

    /// Waits until exactly `backends` answer.
    pub(super) async fn served_by(&self, backends: &[&str]) -> Fallible {
        only_at(&self.load.calls, "traffic", backends).await
    }

    /// The same with a control plane that was killed and started again.
    async fn restart(self, cx: &Context) -> Fallible<Self> {
        let (grpc, http) = (self.oxds.grpc, self.oxds.http);
        self.oxds.kill().await?;
        let oxds = Oxds::serve_on(cx, &self.folder, grpc, http).await?;
        Ok(Self { oxds, ..self })
    }

    /// Waits until Envoy has acknowledged the last response of every type since `mark`.
    async fn synced(&self, mark: usize) -> Fallible {
        until("every response acknowledged", SOON, async || {
            let (sent, got) = (
                self.wire.responses_since(mark),
                self.wire.requests_since(mark),
            );
            let open = sent.iter().find(|r| got.iter().all(|q| q.nonce != r.nonce));
            match open {
                None => Ok(Some(())),
                Some(open) => Err(format!("{open:?}").into()),
            }
        })
        .await
    }

    /// Waits until Envoy has requested all four types since `mark`: a new stream's first requests.
    async fn subscribed_again(&self, mark: usize) -> Fallible {
        until("Envoy's subscriptions on a new stream", SOON, async || {
            let requests = self.wire.requests_since(mark);
            let kinds: BTreeSet<_> = requests.iter().map(|r| r.kind.as_str()).collect();
            if kinds.len() == KINDS {
                Ok(Some(()))
            } else {
                Err(format!("{kinds:?}").into())
            }
        })
        .await
    }

    /// Waits until Envoy has these clusters from CDS.
    pub(super) async fn has_clusters(&self, wanted: &[&str]) -> Fallible {
        until(
            &format!("Envoy has clusters {wanted:?}"),
            SOON,
            async || {
                let mut clusters = self.envoy.clusters().await?;
                clusters.sort();
                if clusters == wanted {
                    Ok(Some(()))
                } else {
                    Err(format!("{clusters:?}").into())
                }
            },
        )
        .await
    }
}

/// Given a folder with a socket listener, a route and two EDS clusters,
/// when Envoy starts with the printed bootstrap,
/// then requests through it reach the real backends of both clusters.
async fn folder_reaches_backends(cx: Context, protocol: Protocol) -> Fallible {
    let mesh = Mesh::start(&cx, protocol, Link::Direct, &[("blue", 50), ("green", 50)]).await?;
    mesh.served_by(&["blue", "green"]).await?;
    let counts = mesh.load.calls.next(400, SOON).await?;
    counts.expect_share("blue", 0.5)?;
    mesh.load.calls.none_failed()
}

/// Given load on blue,
/// when the route is edited to green, and then green's endpoint to red,
/// then the traffic follows each time and no request fails.
async fn edit_shifts_traffic(cx: Context, protocol: Protocol) -> Fallible {
    let mesh = Mesh::start(&cx, protocol, Link::Direct, &[("blue", 1)]).await?;
    mesh.served_by(&["blue"]).await?;

    mesh.folder.write(
        "mesh.yaml",
        &resources(&[("green", 1)], &mesh.blue, &mesh.green),
    )?;
    mesh.served_by(&["green"]).await?;

    let red = Backend::start("red").await?;
    mesh.folder
        .write("mesh.yaml", &resources(&[("green", 1)], &mesh.blue, &red))?;
    mesh.served_by(&["red"]).await?;
    mesh.load.calls.none_failed()
}

/// Given load on blue,
/// when one edit moves the route to green and deletes blue,
/// then Envoy loses blue only after it acknowledged the route (S-52), and no request fails.
async fn removed_cluster_leaves_after_its_route(cx: Context, protocol: Protocol) -> Fallible {
    let mesh = Mesh::start(&cx, protocol, Link::Witnessed, &[("blue", 1)]).await?;
    mesh.served_by(&["blue"]).await?;

    let mark = mesh.wire.mark();
    mesh.folder.write(
        "mesh.yaml",
        &[
            routes(&[("green", 1)]),
            cluster("green"),
            assignment("green", &[&[mesh.green.address]]),
        ],
    )?;
    mesh.served_by(&["green"]).await?;
    mesh.has_clusters(&["green"]).await?;
    mesh.load.calls.none_failed()?;

    let seen = mesh.wire.since(mark);
    let acked = route_acknowledged(&seen).ok_or("the new route was never acknowledged")?;
    let removed = cluster_removed(&seen, protocol, "blue").ok_or("blue was never removed")?;
    if removed < acked {
        return Err(format!("blue removed at message {removed}, route ACKed at {acked}").into());
    }
    match mesh.envoy.stat("http.ingress.no_cluster").await? {
        0 => Ok(()),
        n => Err(format!("{n} requests met a route without its cluster").into()),
    }
}

/// Position of the ACK of the first route response.
fn route_acknowledged(seen: &[Message]) -> Option<usize> {
    let nonce = seen.iter().find_map(|s| match s {
        Message::Response(r) if r.resources.iter().any(|name| name == ROUTES) => Some(&r.nonce),
        _ => None,
    })?;
    seen.iter().position(|s| {
        matches!(s, Message::Request(r)
            if r.kind == "RouteConfiguration" && r.nonce == *nonce && r.error.is_none())
    })
}

/// Position of the first response that removes the cluster.
fn cluster_removed(seen: &[Message], protocol: Protocol, name: &str) -> Option<usize> {
    seen.iter().position(|s| match (s, protocol) {
        (Message::Response(r), Protocol::Delta) => {
            r.kind == "Cluster" && r.removed.iter().any(|removed| removed == name)
        }
        // A SotW response without the cluster.
        (Message::Response(r), Protocol::Sotw) => {
            r.kind == "Cluster" && r.resources.iter().all(|kept| kept != name)
        }
        (Message::Request(_), _) => false,
    })
}

/// Given load on blue,
/// when a cluster appears that passes validation but that Envoy rejects,
/// then it is sent once, its NACK is shown with its reason, the rest is still served and edited, and a fixed file
/// clears the status (S-17, S-18, S-46).
async fn poisoned_resource_is_nacked_once(cx: Context, protocol: Protocol) -> Fallible {
    let mesh = Mesh::start(&cx, protocol, Link::Witnessed, &[("blue", 1)]).await?;
    mesh.served_by(&["blue"]).await?;

    // An EDS cluster must not use CLUSTER_PROVIDED: the API has no rule for that, Envoy has.
    let mark = mesh.wire.mark();
    mesh.folder.write(
        "poison.yaml",
        &[cluster_with("poison", "lb_policy: CLUSTER_PROVIDED")],
    )?;
    mesh.oxds.reports_rejection("poison", REFUSAL, SOON).await?;

    // Other resource types are still served …
    mesh.folder.write(
        "mesh.yaml",
        &resources(&[("green", 1)], &mesh.blue, &mesh.green),
    )?;
    mesh.served_by(&["green"]).await?;
    let sent = times_sent(&mesh.wire, mark, "poison");
    if sent != 1 {
        return Err(format!("the poisoned cluster was sent {sent} times").into());
    }
    // … and so are other clusters.
    mesh.folder
        .write("extra.yaml", &[cluster("extra"), assignment("extra", &[])])?;
    mesh.has_clusters(&["blue", "extra", "green"]).await?;

    mesh.folder.write(
        "poison.yaml",
        &[cluster("poison"), assignment("poison", &[])],
    )?;
    mesh.has_clusters(&["blue", "extra", "green", "poison"])
        .await?;
    mesh.oxds.reports_no_rejection(SOON).await?;
    mesh.load.calls.none_failed()
}

fn times_sent(wire: &Wire, mark: usize, name: &str) -> usize {
    let responses = wire.responses_since(mark);
    responses
        .iter()
        .filter(|r| r.resources.iter().any(|sent| sent == name))
        .count()
}

/// Given a synced Envoy under load,
/// when `oxds serve` is killed and started again on the same folder,
/// then over delta no resource that Envoy has is sent again (S-42), and over SotW the repeated resources have the
/// version that Envoy has (S-29); later changes arrive, and no request fails.
async fn restart_resends_nothing(cx: Context, protocol: Protocol) -> Fallible {
    let mesh = Mesh::start(&cx, protocol, Link::Witnessed, &[("blue", 1)]).await?;
    mesh.served_by(&["blue"]).await?;
    mesh.synced(0).await?;
    let responses = mesh.wire.responses_since(0);
    let before = last_versions(&responses);

    let mark = mesh.wire.mark();
    let mesh = mesh.restart(&cx).await?;
    mesh.subscribed_again(mark).await?;
    // The change of one assignment shows that the new stream has sent everything that it had to.
    let red = Backend::start("red").await?;
    mesh.folder
        .write("mesh.yaml", &resources(&[("blue", 1)], &red, &mesh.green))?;
    mesh.served_by(&["red"]).await?;
    mesh.load.calls.none_failed()?;

    let mut sent = mesh.wire.responses_since(mark);
    match protocol {
        Protocol::Delta => {
            let names: Vec<_> = sent.iter().flat_map(|r| &r.resources).collect();
            let removed = sent.iter().any(|r| !r.removed.is_empty());
            if names == ["blue"] && !removed {
                Ok(())
            } else {
                Err(format!("sent {sent:?}").into())
            }
        }
        Protocol::Sotw => {
            sent.retain(|r| r.kind != "ClusterLoadAssignment");
            let after = last_versions(&sent);
            let same = after
                .iter()
                .all(|(kind, version)| before.get(kind) == Some(version));
            if same {
                Ok(())
            } else {
                Err(format!("{before:?} became {after:?}").into())
            }
        }
    }
}

/// Version of each type's last response.
fn last_versions(responses: &[Response]) -> BTreeMap<&str, &str> {
    responses
        .iter()
        .map(|r| (r.kind.as_str(), r.version.as_str()))
        .collect()
}
