//! Parts of gRPC over HTTP/2 that clients, channels and servers share.

mod code;
mod random;
mod timeout;

pub use code::code_name;
pub use random::random;
pub use timeout::{GRPC_TIMEOUT, format_timeout, parse_timeout};
