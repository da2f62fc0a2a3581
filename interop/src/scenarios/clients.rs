//! Clients in four languages under load on one configuration: Envoy by delta, gRPC and our channel by SotW.

use std::net::SocketAddr;

use super::scenario::{SOON, only_at};
use crate::backend::Backend;
use crate::calls::Calls;
use crate::config::{Folder, LISTENER, api_listener, assignment, cluster, routes, socket_listener};
use crate::http::HttpLoad;
use crate::peers::channel::ChannelLoad;
use crate::peers::envoy::Envoy;
use crate::peers::grpc::{Grpc, GrpcLoad};
use crate::peers::oxds::{Bootstrap, bootstrap, bootstrap_of};
use crate::wire::Protocol;
use crate::{Context, Fallible};

/// Envoy's node id, which gives it a listener of its own by a group.
const EDGE: &str = "edge-1";

/// The running clients. Dropping them ends their processes.
#[derive(Debug)]
pub(super) struct Clients {
    _envoy: Envoy,
    proxied: HttpLoad,
    grpc: [(&'static str, GrpcLoad); 3],
    channel: ChannelLoad,
}

/// Makes a folder with a mesh for all of them; by its group, Envoy sees another listener of the same name (S-74).
pub(super) fn mesh(cx: &Context, backend: &Backend) -> Fallible<Folder> {
    let folder = Folder::create(&cx.dir)?;
    folder.write("listener.yaml", &[api_listener()])?;
    std::fs::create_dir_all(folder.path().join("groups/edge"))?;
    let group = ["match: { id: edge-* }\n".to_owned()];
    folder.write("groups/edge/group.yaml", &group)?;
    folder.write("groups/edge/listener.yaml", &[socket_listener()])?;
    lead_to(&folder, backend)?;
    Ok(folder)
}

/// Edits the folder: all calls go to this backend.
pub(super) fn lead_to(folder: &Folder, backend: &Backend) -> Fallible {
    let endpoints = assignment("blue", &[&[backend.address]]);
    let resources = [routes(&[("blue", 1)]), cluster("blue"), endpoints];
    folder.write("mesh.yaml", &resources)
}

impl Clients {
    /// Starts them: Envoy at one server, the others at another one, which may be the same.
    pub(super) async fn start(cx: &Context, delta: SocketAddr, sotw: SocketAddr) -> Fallible<Self> {
        let edge = bootstrap_of(cx, Bootstrap::Envoy(Protocol::Delta), delta, EDGE).await?;
        let mut envoy = Envoy::start(cx, &edge).await?;
        let proxied = HttpLoad::start(envoy.listener(LISTENER).await?, 1);
        let file = bootstrap(cx, Bootstrap::Grpc, sotw).await?;
        Ok(Self {
            _envoy: envoy,
            proxied,
            grpc: [
                ("core", Grpc::Core.call(cx, &file)?),
                ("go", Grpc::Go.call(cx, &file)?),
                ("js", Grpc::Js.call(cx, &file)?),
            ],
            channel: ChannelLoad::start(&file)?,
        })
    }

    fn loads(&self) -> impl Iterator<Item = (&'static str, &Calls)> {
        let grpc = self.grpc.iter().map(|(name, load)| (*name, &load.calls));
        let ours = [
            ("envoy", &self.proxied.calls),
            ("channel", &self.channel.calls),
        ];
        ours.into_iter().chain(grpc)
    }

    /// Waits until only this backend answers every client.
    pub(super) async fn served_by(&self, backend: &str) -> Fallible {
        for (client, calls) in self.loads() {
            only_at(calls, client, &[backend]).await?;
        }
        Ok(())
    }

    /// Waits until each client has made this number of calls.
    pub(super) async fn call(&self, calls: usize) -> Fallible {
        for (_, load) in self.loads() {
            load.next(calls, SOON).await?;
        }
        Ok(())
    }

    /// Fails if a call failed.
    pub(super) fn none_failed(&self) -> Fallible {
        for (client, calls) in self.loads() {
            let failed = calls.none_failed();
            failed.map_err(|error| format!("{client}: {error}"))?;
        }
        Ok(())
    }
}
