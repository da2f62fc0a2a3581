//! Ring hash: our channel and other clients send the same keys to the same endpoints.

use super::{SOON, Scenario};
use crate::backend::Backend;
use crate::config::{
    Folder, LISTENER, api_listener, assignment_of, cluster_with, endpoint, route_config,
    socket_listener,
};
use crate::peers::channel;
use crate::peers::envoy::Envoy;
use crate::peers::grpc::Grpc;
use crate::peers::keys::{Choices, HEADER};
use crate::peers::oxds::{Bootstrap, Oxds, bootstrap};
use crate::wait::until;
use crate::wire::Protocol;
use crate::{Context, Fallible};

/// About four for each entry of the ring.
const KEYS: usize = 4_000;
/// Keys that show whether a backend is still in use: it has about twelve of them.
const PROBES: usize = 600;
const BACKENDS: usize = 50;
/// The backend that leaves.
const LEAVES: usize = 17;

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario::new("channel_ring_hash_chooses_as_grpc_core".to_owned(), |cx| {
            chooses_as_grpc(cx, Grpc::Core)
        }),
        Scenario::new("channel_ring_hash_chooses_as_grpc_go".to_owned(), |cx| {
            chooses_as_grpc(cx, Grpc::Go)
        }),
        Scenario::new(
            "channel_ring_hash_chooses_as_envoy".to_owned(),
            chooses_as_envoy,
        ),
    ]
}

/// Weighted backends behind one cluster with ring hash, and a control plane that serves them.
struct Ring {
    backends: Vec<(&'static str, Backend)>,
    folder: Folder,
    oxds: Oxds,
}

impl Ring {
    async fn start(cx: &Context, listener: String) -> Fallible<Self> {
        let mut backends = Vec::new();
        for index in 0..BACKENDS {
            let name: &'static str = format!("b{index:02}").leak();
            backends.push((name, Backend::start(name).await?));
        }
        let folder = Folder::create(&cx.dir)?;
        let cluster = cluster_with(
            "ring",
            "lb_policy: RING_HASH\nring_hash_lb_config: { minimum_ring_size: 1000 }",
        );
        folder.write("listener.yaml", &[listener])?;
        folder.write("mesh.yaml", &[routes(), cluster])?;
        let oxds = {
            let ring = Self::endpoints(&backends, None);
            folder.write("endpoints.yaml", &[ring])?;
            Oxds::serve(cx, &folder).await?
        };
        Ok(Self {
            backends,
            folder,
            oxds,
        })
    }

    /// Removes one backend from the assignment. It still answers.
    fn remove(&self, index: usize) -> Fallible<&'static str> {
        let ring = Self::endpoints(&self.backends, Some(index));
        self.folder.write("endpoints.yaml", &[ring])?;
        Ok(self.backends[index].0)
    }

    /// The assignment, with the weights of the endpoints.
    fn endpoints(backends: &[(&'static str, Backend)], without: Option<usize>) -> String {
        let backends = backends.iter().enumerate();
        let staying = backends.filter(|(index, _)| without != Some(*index));
        let endpoints = staying.map(|(index, (_, backend))| {
            let weight = format!("load_balancing_weight: {}", weight(index));
            endpoint(backend.address, &weight)
        });
        assignment_of("ring", &[(0, endpoints.collect())])
    }
}

/// Weight of an endpoint, from 1 to 4. The sum is 128, so that all shares are exact in binary: clients round others
/// differently. With a ring of at least 1,000 entries, one unit of weight is eight of them, also without one endpoint.
fn weight(index: usize) -> u32 {
    match index {
        0..13 => 1,
        13..25 => 2,
        25..34 => 3,
        _ => 4,
    }
}

/// Every request to the ring, by the hash of its key.
fn routes() -> String {
    route_config(&[format!(
        r#"match: {{ prefix: "" }}, route: {{ cluster: ring, hash_policy: [{{ header: {{ header_name: {HEADER} }} }}] }}"#
    )])
}

/// Given 50 endpoints with weights from 1 to 4,
/// when our channel and a client of gRPC call with 4,000 keys, and again after one endpoint has left,
/// then each key leads both to the same endpoint, and hardly any key has moved but those of that endpoint (A42).
async fn chooses_as_grpc(cx: Context, grpc: Grpc) -> Fallible {
    let ring = Ring::start(&cx, api_listener()).await?;
    let file = bootstrap(&cx, Bootstrap::Grpc, ring.oxds.grpc).await?;
    let json = std::fs::read_to_string(&file)?;
    let mut channel = channel::open(oxds_channel::Bootstrap::from_json(&json)?)?;

    let before = Choices::by_channel(&mut channel, KEYS).await?;
    let theirs = Choices::by_grpc(&cx, grpc, &file, KEYS).await?;
    before.expect_same(grpc.name(), &theirs, 0)?;

    let left = ring.remove(LEAVES)?;
    if before.at(left) == 0 {
        return Err(format!("{left} had no keys").into());
    }
    until("no key at the backend that left", SOON, async || {
        let probe = Choices::by_channel(&mut channel, PROBES).await?;
        Ok((probe.at(left) == 0).then_some(()))
    })
    .await?;
    let after = Choices::by_channel(&mut channel, KEYS).await?;
    let theirs = Choices::by_grpc(&cx, grpc, &file, KEYS).await?;
    // grpc-go rounds the share of each endpoint to 31 bits (gRFC A113), which moves entries at the limits of the
    // shares.
    let rounded = if matches!(grpc, Grpc::Go) {
        KEYS / 100
    } else {
        0
    };
    after.expect_same(grpc.name(), &theirs, rounded)?;
    before.expect_few_others_moved(left, &after)
}

/// The same beside Envoy, whose listener has a socket, and whose clusters are the same.
async fn chooses_as_envoy(cx: Context) -> Fallible {
    let ring = Ring::start(&cx, socket_listener()).await?;
    let file = bootstrap(&cx, Bootstrap::Envoy(Protocol::Delta), ring.oxds.grpc).await?;
    let mut envoy = Envoy::start(&cx, &file).await?;
    let listener = envoy.listener(LISTENER).await?;

    // The same resources with a listener for our channel.
    let mut own = cx.clone();
    own.dir = cx.dir.join("channel");
    std::fs::create_dir_all(&own.dir)?;
    let folder = Folder::create(&own.dir)?;
    folder.write("listener.yaml", &[api_listener()])?;
    for file in ["mesh.yaml", "endpoints.yaml"] {
        std::fs::copy(ring.folder.path().join(file), folder.path().join(file))?;
    }
    let oxds = Oxds::serve(&own, &folder).await?;
    let file = bootstrap(&own, Bootstrap::Grpc, oxds.grpc).await?;
    let json = std::fs::read_to_string(&file)?;
    let mut channel = channel::open(oxds_channel::Bootstrap::from_json(&json)?)?;

    let before = Choices::by_channel(&mut channel, KEYS).await?;
    let theirs = Choices::by_envoy(listener, KEYS).await?;
    before.expect_same("envoy", &theirs, 0)?;

    let left = ring.remove(LEAVES)?;
    std::fs::copy(
        ring.folder.path().join("endpoints.yaml"),
        folder.path().join("endpoints.yaml"),
    )?;
    until("no key at the backend that left", SOON, async || {
        let ours = Choices::by_channel(&mut channel, PROBES).await?;
        let theirs = Choices::by_envoy(listener, PROBES).await?;
        Ok((ours.at(left) + theirs.at(left) == 0).then_some(()))
    })
    .await?;
    let after = Choices::by_channel(&mut channel, KEYS).await?;
    after.expect_same("envoy", &Choices::by_envoy(listener, KEYS).await?, 0)?;
    before.expect_few_others_moved(left, &after)
}
