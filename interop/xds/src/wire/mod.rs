//! gRPC without generated code: a method as a service, a port, a connection to another program's port.

mod connection;
mod method;
mod port;

pub use connection::{ConnectError, Connection};
pub(crate) use method::add;
pub use port::{AddressType, Port, PortError};
