//! Services of the stats port.

use std::sync::Arc;
use std::time::Duration;

use oxds_client::{ClientPool, admin};
use tokio::sync::watch;
use tonic::service::Routes;
use tonic::{Request, Response, Status};

use super::plan::Plan;
use super::stats::Stats;
use crate::messages::{
    ClientConfigureRequest, ClientConfigureResponse, LoadBalancerAccumulatedStatsRequest,
    LoadBalancerStatsRequest, path,
};
use crate::wire;

/// Stats, `Configure`, CSDS, channelz, health.
pub(super) fn routes(
    pool: &ClientPool,
    stats: &Arc<Stats>,
    plan: watch::Sender<Arc<Plan>>,
    timeout: Duration,
) -> Routes {
    // The server as a whole is serving from its start to its end.
    let (mut routes, _) = admin::services(pool);
    add_stats(&mut routes, stats);
    add_configure(&mut routes, Arc::new(plan), timeout);
    routes
}

fn add_stats(routes: &mut Routes, stats: &Arc<Stats>) {
    let next = Arc::clone(stats);
    wire::add(
        routes,
        path::CLIENT_STATS,
        move |request: Request<LoadBalancerStatsRequest>| {
            let stats = Arc::clone(&next);
            async move { stats.next(request.get_ref()).await.map(Response::new) }
        },
    );
    let all = Arc::clone(stats);
    wire::add(
        routes,
        path::ACCUMULATED_STATS,
        move |_: Request<LoadBalancerAccumulatedStatsRequest>| {
            let stats = Arc::clone(&all);
            async move { Ok(Response::new(stats.accumulated())) }
        },
    );
}

fn add_configure(routes: &mut Routes, plan: Arc<watch::Sender<Arc<Plan>>>, timeout: Duration) {
    wire::add(
        routes,
        path::CONFIGURE,
        move |request: Request<ClientConfigureRequest>| {
            let plan = Arc::clone(&plan);
            async move {
                let new = Plan::of_request(request.get_ref(), timeout)
                    .map_err(|error| Status::invalid_argument(error.to_string()))?;
                plan.send_replace(Arc::new(new));
                Ok(Response::new(ClientConfigureResponse {}))
            }
        },
    );
}
