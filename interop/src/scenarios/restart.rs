//! Clients in four languages at once, while their control plane is killed again and again.

use super::clients::{Clients, lead_to, mesh};
use super::{SOON, Scenario};
use crate::backend::Backend;
use crate::peers::oxds::Oxds;
use crate::{Context, Fallible};

/// Number of times that the control plane is killed.
const DEATHS: usize = 2;
/// Calls that each client makes while it is dead.
const WITHOUT: usize = 100;

pub(super) fn scenarios() -> Vec<Scenario> {
    let name = "all_clients_outlive_restarts".to_owned();
    vec![Scenario::new(name, all_clients_outlive_restarts)]
}

/// Given Envoy, gRPC in three languages and our channel under load, on one control plane,
/// when the control plane is killed twice, the endpoint is edited while it is dead, and it is started again,
/// then calls continue, the calls of all clients move to the new endpoint each time, and none fails.
async fn all_clients_outlive_restarts(cx: Context) -> Fallible {
    let names = ["a", "b"];
    let backends = [Backend::start("a").await?, Backend::start("b").await?];
    let folder = mesh(&cx, &backends[0])?;
    let mut oxds = Oxds::serve(&cx, &folder).await?;
    let (grpc, http) = (oxds.grpc, oxds.http);
    let clients = Clients::start(&cx, grpc, grpc).await?;
    clients.served_by(names[0]).await?;

    for death in 1..=DEATHS {
        oxds.kill().await?;
        clients.call(WITHOUT).await?;
        let next = death % backends.len();
        lead_to(&folder, &backends[next])?;
        oxds = Oxds::serve_on(&cx, &folder, grpc, http).await?;
        let served = clients.served_by(names[next]).await;
        served.map_err(|error| format!("after death {death}: {error}"))?;
    }
    clients.none_failed()?;
    oxds.reports_no_rejection(SOON).await
}
