//! `xds:///` channels for tonic and tower.

mod body;
mod builder;
mod call;
mod channel;
mod deadline;
mod driver;
mod picker;
mod pool;
mod random;
mod routing;
mod snapshot;
mod status;
mod subchannel;
#[cfg(feature = "testing")]
pub mod testing;

pub use body::ResponseBody;
pub use builder::{BuildError, Builder};
pub use channel::{ResponseFuture, XdsChannel};
pub use oxds_client::transport::Keepalive;
pub use oxds_client::{Bootstrap, ClientPool, Target};
pub use oxds_core::lb::Connectivity;
pub use picker::Picked;
pub use pool::Pool;
pub use snapshot::{ChannelStatus, ClusterStatus, EndpointStatus};
