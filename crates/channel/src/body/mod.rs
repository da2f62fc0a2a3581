//! The bodies on both sides of a call.

mod request;
mod response;

pub(crate) use request::RequestBody;
pub use response::ResponseBody;
