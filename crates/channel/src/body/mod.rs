//! Request and response bodies of a call.

mod incoming;
mod pump;
mod replay;
mod request;
mod response;

pub(crate) use incoming::Incoming;
pub(crate) use pump::Pump;
pub(crate) use replay::{Replay, SavedHead};
pub(crate) use request::RequestBody;
pub use response::ResponseBody;
