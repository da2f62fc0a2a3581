//! Request and response bodies of a call.

mod replay;
mod request;
mod response;

pub(crate) use replay::Replay;
pub(crate) use request::RequestBody;
pub use response::ResponseBody;
