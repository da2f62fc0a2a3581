//! Call credentials of a server, added to each call.

use std::sync::Arc;

use http::HeaderMap;

use crate::bootstrap::Server;
use crate::credentials::{CallCredentials, CallError, Configured};

/// Call credentials that may be sent to a server; empty if the connection is plaintext. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct CallAuth(Arc<[Configured<dyn CallCredentials>]>);

impl CallAuth {
    /// Collects the call credentials of a server. Logs a warning if they cannot be sent.
    pub(crate) fn new(server: &Server) -> Self {
        if server.credentials.is_private() {
            return Self(server.call_credentials.iter().cloned().collect());
        }
        // gRFC A97: call credentials must not be sent over plaintext, where others could read them.
        if !server.call_credentials.is_empty() {
            let uri = &server.uri;
            tracing::warn!(target: "oxds::credentials", server = %uri, "call credentials are not sent over plaintext");
        }
        Self(Arc::default())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds all credentials, in order, to the headers of a call.
    ///
    /// # Errors
    /// The first credentials that are not available. The call must then not be made.
    pub(crate) async fn add_to(&self, headers: &mut HeaderMap) -> Result<(), CallError> {
        for credentials in &*self.0 {
            for (name, value) in &credentials.headers().await? {
                // Appended, not replaced: several call credentials may set the same header.
                headers.append(name, value.clone());
            }
        }
        Ok(())
    }
}
