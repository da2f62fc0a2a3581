//! The content of resources for people: without secrets, and compared field by field.
//!
//! ```text
//!   Any ──read──▶ Content (secrets hidden) ──┬──serialize──▶ YAML, JSON
//!                                            └──compare────▶ FieldChange: path, old and new value
//! ```
//! A secret is hidden when the content is read, so no code behind that can show one: `oxds plan`, `oxds diff` and the
//! status page hide the same. A hidden value still differs from another:
//! a comparison names its path, and shows neither value.
//!
//! Items of lists are paired by their natural keys (`name`, an address, a locality, a match …) if all items of both
//! lists have such a key, and each another one; otherwise by their positions. An `Any` is opened by its type.

mod compare;
mod key;
mod node;
mod read;
mod secret;
#[cfg(test)]
mod tests;

pub use compare::{FieldChange, ValueChange, compare};
pub use node::{Content, Entry, Hidden};
pub use read::{ContentError, read};
