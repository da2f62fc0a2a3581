//! A check of every received resource, beside the parsers of its type.

use std::fmt;
use std::sync::Arc;

use oxds_types::ResourceType;

use super::invalid::Invalid;

type CheckFn = dyn Fn(&ResourceType, &[u8]) -> Result<(), Invalid> + Send + Sync;

/// A check that every received resource of every type must pass before it is parsed. A resource that does not is
/// NACKed.
///
/// Clones are the same check, and equal to each other only.
#[derive(Clone)]
pub struct ResourceCheck(Arc<CheckFn>);

impl ResourceCheck {
    /// Creates a check. It gets the resource type and the encoded message, and returns the rule that the message
    /// breaks. It is called from the task of a client, so it must not block.
    #[must_use]
    pub fn new(
        check: impl Fn(&ResourceType, &[u8]) -> Result<(), Invalid> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(check))
    }

    /// Checks an encoded message.
    ///
    /// # Errors
    /// The rule that it breaks.
    pub fn check(&self, resource_type: &ResourceType, value: &[u8]) -> Result<(), Invalid> {
        (self.0)(resource_type, value)
    }
}

impl PartialEq for ResourceCheck {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for ResourceCheck {}

impl fmt::Debug for ResourceCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ResourceCheck")
    }
}
