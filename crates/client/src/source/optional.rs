//! Interface of the sources whose IO is a feature of the crate: REST and files.
//!
//! Their descriptions always exist, so the API is the same in every build. Without the feature a source has no peers:
//! [`require`] returns the error.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use oxds_types::discovery::{DiscoveryRequest, Node};

use super::error::SourceError;
use super::event::SourceEvent;
use crate::bootstrap::Server;

/// URL that is polled, or file. It is described to the state machine as a SotW server.
pub(crate) trait OptionalPeer: fmt::Debug + Send + Sync {
    /// Returns its name in logs and errors.
    fn uri(&self) -> Arc<str>;

    /// Returns the control plane that is polled; `None` for a file.
    fn server(&self) -> Option<&Server>;

    /// Creates its IO, closed.
    fn feed(&self, node: &Node, max_response_bytes: usize) -> Box<dyn OptionalFeed>;
}

/// IO of an [`OptionalPeer`].
pub(crate) trait OptionalFeed: Send {
    /// Begins to read.
    fn open(&mut self);

    /// Sets the request to answer.
    fn request(&mut self, request: DiscoveryRequest);

    /// Stops reading, and drops what was read.
    fn close(&mut self);

    /// Waits for the next event. Never completes while closed. Cancel-safe: work in progress is kept in `self`.
    fn next(&mut self) -> Pin<Box<dyn Future<Output = SourceEvent> + Send + '_>>;
}

/// Checks that the feature of a source is on. `field` names the source in the error.
///
/// # Errors
/// [`SourceError::FeatureOff`].
pub(super) fn require(field: &str, feature: &'static str, is_on: bool) -> Result<(), SourceError> {
    if is_on {
        Ok(())
    } else {
        Err(SourceError::feature_off(field, feature))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_without_its_feature_is_typed_error() {
        assert_eq!(require("path", "file", true), Ok(()));
        let error = require("path", "file", false).unwrap_err();
        let (field, feature) = ("path".to_owned(), "file");
        assert_eq!(error, SourceError::FeatureOff { field, feature });
        let text = "path: needs the feature `file` of oxds-client, which is off in this program";
        assert_eq!(error.to_string(), text);
    }
}
