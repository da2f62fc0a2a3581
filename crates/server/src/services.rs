//! The standard services beside ADS: health and reflection (S-65).

use std::sync::Arc;

use oxds_types::kind::ADS;
use tokio_util::task::TaskTracker;
use tonic::service::RoutesBuilder;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;

use crate::ads::Context;

/// Adds them to the routes; a task follows the server's state.
pub(crate) async fn add(routes: &mut RoutesBuilder, context: &Arc<Context>, tasks: &TaskTracker) {
    let (reporter, health) = tonic_health::server::health_reporter();
    report(&reporter, ServingStatus::NotServing).await;
    routes.add_service(health);
    tasks.spawn(follow(reporter, Arc::clone(context)));
}

/// Serving, once something was loaded, until a shutdown begins.
async fn follow(reporter: HealthReporter, context: Arc<Context>) {
    tokio::select! {
        () = context.cache.loaded() => report(&reporter, ServingStatus::Serving).await,
        () = context.closing.cancelled() => {}
    }
    context.closing.cancelled().await;
    report(&reporter, ServingStatus::NotServing).await;
}

async fn report(reporter: &HealthReporter, status: ServingStatus) {
    // "" stands for the server as a whole (gRPC health checking protocol).
    reporter.set_service_status("", status).await;
    reporter.set_service_status(ADS[0].name, status).await;
}
