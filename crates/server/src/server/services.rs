//! The standard gRPC services: health and reflection (S-65).

use std::sync::{Arc, LazyLock};

use oxds_types::resource_type::ADS;
use tokio_util::task::TaskTracker;
use tonic::service::RoutesBuilder;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;
use tonic_reflection::server::v1::{ServerReflection, ServerReflectionServer};

use crate::context::Context;

/// Full name of the health service.
const HEALTH: &str = "grpc.health.v1.Health";

/// Adds health and reflection to the routes. A task updates the health status.
pub(super) async fn add(routes: &mut RoutesBuilder, context: &Arc<Context>, tasks: &TaskTracker) {
    let (reporter, health) = tonic_health::server::health_reporter();
    report(&reporter, ServingStatus::NotServing).await;
    routes.add_service(health);
    tasks.spawn(follow(reporter, Arc::clone(context)));
    match reflection() {
        Ok(service) => {
            routes.add_service(service);
        }
        // The descriptors are compiled in, so this is a bug; all other services still work.
        Err(error) => tracing::error!(%error, "reflection service failed to start"),
    }
}

/// Reports `SERVING` from the first load until a shutdown begins.
async fn follow(reporter: HealthReporter, context: Arc<Context>) {
    let closing = &context.server.closing;
    tokio::select! {
        () = context.cache.loaded() => report(&reporter, ServingStatus::Serving).await,
        () = closing.cancelled() => {}
    }
    closing.cancelled().await;
    report(&reporter, ServingStatus::NotServing).await;
}

async fn report(reporter: &HealthReporter, status: ServingStatus) {
    // gRPC health checking protocol: "" is the overall health of the server.
    reporter.set_service_status("", status).await;
    reporter.set_service_status(ADS[0].name, status).await;
}

/// Returns the reflection service, with the discovery services and every message of the API.
fn reflection()
-> Result<ServerReflectionServer<impl ServerReflection>, tonic_reflection::server::Error> {
    static DESCRIPTORS: LazyLock<Vec<u8>> = LazyLock::new(oxds_types::descriptor::descriptor_set);
    tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(DESCRIPTORS.as_slice())
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        .with_service_name(ADS[0].name)
        .with_service_name(HEALTH)
        .build_v1()
}
