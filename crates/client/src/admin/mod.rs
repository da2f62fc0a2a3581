//! The admin services of gRPC (gRFC A38): CSDS, channelz and, with feature `admin`, all of them and health in one call.

pub mod channelz;
mod csds;

#[cfg(feature = "admin")]
use tonic::service::Routes;
#[cfg(feature = "admin")]
use tonic_health::server::{HealthReporter, health_reporter};

pub use channelz::Channelz;
pub use csds::Csds;

#[cfg(feature = "admin")]
use crate::handle::ClientPool;

/// Returns the services that tools such as `grpcdebug` use: [`Csds`] over the clients of a pool, [`Channelz`] over its
/// [registry](ClientPool::channelz), and the health service. The pool may still be empty.
///
/// The reporter sets the health of services; the server as a whole (`""`) starts as `SERVING`.
///
/// ```no_run
/// # fn example(pool: &oxds_client::ClientPool) {
/// let (admin, health) = oxds_client::admin::services(pool);
/// // With tonic: `Server::builder().add_routes(admin).serve(address)`; more services: `admin.add_service(…)`.
/// # let _ = (admin, health);
/// # }
/// ```
#[cfg(feature = "admin")]
#[must_use]
pub fn services(pool: &ClientPool) -> (Routes, HealthReporter) {
    let (reporter, health) = health_reporter();
    let routes = Routes::new(Csds::new(pool).into_service())
        .add_service(Channelz::new(pool))
        .add_service(health);
    (routes, reporter)
}
