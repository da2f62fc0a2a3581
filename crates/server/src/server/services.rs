//! The standard services beside ADS: health and reflection (S-65).

use std::sync::{Arc, LazyLock};

use oxds_types::resource_type::ADS;
use tokio_util::task::TaskTracker;
use tonic::service::RoutesBuilder;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;

use tonic_reflection::server::v1::{ServerReflection, ServerReflectionServer};

use crate::discovery::Context;

/// The health service's name.
const HEALTH: &str = "grpc.health.v1.Health";

/// Adds them to the routes; a task follows the server's state.
pub(crate) async fn add(routes: &mut RoutesBuilder, context: &Arc<Context>, tasks: &TaskTracker) {
    let (reporter, health) = tonic_health::server::health_reporter();
    report(&reporter, ServingStatus::NotServing).await;
    routes.add_service(health);
    tasks.spawn(follow(reporter, Arc::clone(context)));
    match reflection() {
        Ok(service) => {
            routes.add_service(service);
        }
        // The descriptors are part of the program; without them all else still works.
        Err(error) => tracing::error!(%error, "no reflection"),
    }
}

/// Serving, once something was loaded, until a shutdown begins.
async fn follow(reporter: HealthReporter, context: Arc<Context>) {
    tokio::select! {
        () = context.cache.loaded() => report(&reporter, ServingStatus::Serving).await,
        () = context.server.closing.cancelled() => {}
    }
    context.server.closing.cancelled().await;
    report(&reporter, ServingStatus::NotServing).await;
}

async fn report(reporter: &HealthReporter, status: ServingStatus) {
    // "" stands for the server as a whole (gRPC health checking protocol).
    reporter.set_service_status("", status).await;
    reporter.set_service_status(ADS[0].name, status).await;
}

/// What `grpcurl` and its like ask for: the services, and every message a resource can be made of.
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
