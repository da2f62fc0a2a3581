//! Updates of watched resources, on their way from the driver to a watch.
//!
//! ```text
//!  driver ── WatchEvent ─► WatcherQueue ─► Update<RawResource>
//!                          newest update per resource
//! ```

mod event;
mod queue;
mod resource;

pub use event::Update;
pub(crate) use event::WatchEvent;
pub(crate) use queue::WatcherQueue;
pub use resource::RawResource;
