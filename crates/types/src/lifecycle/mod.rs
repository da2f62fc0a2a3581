//! The life cycle of API elements: work in progress, stable, deprecated, disallowed (V-43 … V-45, V-59).
//!
//! ```text
//!  annotations of the descriptors ──► Element, WorkInProgress     compiled once per message type
//!  runtime ──┐
//!  Clock ────┴──────────────────────► Policy ──► Decision          announced, warned, overridden or disallowed
//! ```
//!
//! | phase | use |
//! |---|---|
//! | announced | no finding: a [`Clock`] plans the deprecation for a later release |
//! | warned | a warning; counted |
//! | disallowed | an error, unless a runtime key allows it; then a warning that says so |
//!
//! An element is disallowed if the API has the annotation `envoy.annotations.disallowed_by_default`, if the clock says
//! so, or if the runtime does. [`Policy::decide`] has the order of the runtime keys, which is Envoy's.
//!
//! Elements whose meaning may still change (`work_in_progress` of a field, a message or a file) are warned of and
//! counted, and never disallowed.

mod annotations;
mod clock;
mod element;
mod finding;
mod marks;
mod phase;
mod policy;
mod replacements;
#[cfg(test)]
mod tests;

pub use clock::{Clock, Entry};
pub use element::{Element, Part, WorkInProgress, all};
pub use finding::DeprecatedUse;
pub(crate) use marks::{FieldMarks, Mark, MessageMarks};
pub use phase::Phase;
pub use policy::{Cause, Decision, Policy, Verdict};
pub use replacements::Replacement;
