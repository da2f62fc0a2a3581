//! `xds:///` channels for tonic and tower.

mod body;
mod deadline;
mod pool;
mod random;
mod status;
mod subchannel;
#[cfg(feature = "testing")]
pub mod testing;

pub use body::ResponseBody;
pub use pool::Pool;
pub use subchannel::Keepalive;
