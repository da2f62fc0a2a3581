//! NACKs: which resources a client rejects.
//!
//! xDS has no field for it. A NACK carries a text for people, which may name resources, and one response carries many:
//!
//! ```text
//!   text ──▶ NackText ──▶ Blame ──▶ names: these are invalid (gRFC A46; Envoy)
//!                           └─────▶ none: one of several is. Isolation: send them again in smaller parts
//! ```

mod blame;
mod isolation;
mod state;
mod text;

pub(crate) use blame::{Blame, News};
pub(crate) use isolation::Isolation;
pub(crate) use state::{InUse, NackedState};
pub use state::{Nack, NackedResource};
pub(crate) use text::NackText;
