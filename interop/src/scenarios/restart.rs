//! Envoy and three gRPC implementations at once, while their control plane is killed again and again.

use super::{SOON, Scenario, only_at};
use crate::backend::Backend;
use crate::calls::Calls;
use crate::config::{Folder, LISTENER, api_listener, assignment, cluster, routes, socket_listener};
use crate::http::HttpLoad;
use crate::peers::envoy::Envoy;
use crate::peers::grpc::Grpc;
use crate::peers::oxds::{Bootstrap, Oxds, bootstrap, bootstrap_of};
use crate::wire::Protocol;
use crate::{Context, Fallible};

/// Number of times that the control plane is killed.
const DEATHS: usize = 2;
/// Calls that each client makes while it is dead.
const WITHOUT: usize = 100;
/// Envoy's node id, which gives it a listener of its own by a group.
const EDGE: &str = "edge-1";

pub(super) fn scenarios() -> Vec<Scenario> {
    let name = "all_clients_outlive_restarts".to_owned();
    vec![Scenario::new(name, all_clients_outlive_restarts)]
}

/// Given Envoy and gRPC in three languages under load, on one control plane; by its group, Envoy sees another listener
/// of the same name (S-74),
/// when the control plane is killed twice, the endpoint is edited while it is dead, and it is started again,
/// then calls continue, the calls of all clients move to the new endpoint each time, and none fails.
async fn all_clients_outlive_restarts(cx: Context) -> Fallible {
    let backends = [Backend::start("a").await?, Backend::start("b").await?];
    let names = ["a", "b"];
    let to = |backend: &Backend| {
        let endpoints = assignment("blue", &[&[backend.address]]);
        [routes(&[("blue", 1)]), cluster("blue"), endpoints]
    };
    let folder = Folder::create(&cx.dir)?;
    folder.write("listener.yaml", &[api_listener()])?;
    std::fs::create_dir_all(folder.path().join("groups/edge"))?;
    folder.write(
        "groups/edge/group.yaml",
        &["match: { id: edge-* }\n".to_owned()],
    )?;
    folder.write("groups/edge/listener.yaml", &[socket_listener()])?;
    folder.write("mesh.yaml", &to(&backends[0]))?;

    let mut oxds = Oxds::serve(&cx, &folder).await?;
    let (grpc, http) = (oxds.grpc, oxds.http);
    let edge = bootstrap_of(&cx, Bootstrap::Envoy(Protocol::Delta), grpc, EDGE).await?;
    let mut envoy = Envoy::start(&cx, &edge).await?;
    let proxied = HttpLoad::start(envoy.listener(LISTENER).await?, 1);
    let file = bootstrap(&cx, Bootstrap::Grpc, grpc).await?;
    let clients = [
        Grpc::Core.call(&cx, &file)?,
        Grpc::Go.call(&cx, &file)?,
        Grpc::Js.call(&cx, &file)?,
    ];
    let mut loads = vec![("envoy", &proxied.calls)];
    loads.extend(
        ["core", "go", "js"]
            .into_iter()
            .zip(clients.iter().map(|c| &c.calls)),
    );
    served_by(&loads, names[0]).await?;

    for death in 1..=DEATHS {
        oxds.kill().await?;
        for (_, calls) in &loads {
            calls.next(WITHOUT, SOON).await?;
        }
        let next = death % backends.len();
        folder.write("mesh.yaml", &to(&backends[next]))?;
        oxds = Oxds::serve_on(&cx, &folder, grpc, http).await?;
        served_by(&loads, names[next])
            .await
            .map_err(|error| format!("after death {death}: {error}"))?;
    }
    for (client, calls) in loads {
        calls
            .none_failed()
            .map_err(|error| format!("{client}: {error}"))?;
    }
    oxds.reports_no_rejection(SOON).await
}

/// Waits until only `backend` answers every client.
async fn served_by(loads: &[(&str, &Calls)], backend: &str) -> Fallible {
    for (client, calls) in loads {
        only_at(calls, client, &[backend]).await?;
    }
    Ok(())
}
