//! What every call to a server shows of who calls.

use std::sync::Arc;

use http::HeaderMap;

use super::{CallCredentials, CallError, Configured};
use crate::bootstrap::Server;

/// The call credentials of a server, as far as they may be shown to it: over plaintext, where anybody can read them, they
/// are not (gRFC A97). Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Shown(Arc<[Configured<dyn CallCredentials>]>);

impl Shown {
    /// What may be shown to this server; says in the log what may not.
    pub(crate) fn to(server: &Server) -> Self {
        if server.credentials.is_private() {
            return Self(server.call_credentials.iter().cloned().collect());
        }
        if !server.call_credentials.is_empty() {
            let uri = &server.uri;
            tracing::warn!(target: "oxds::credentials", server = %uri, "call credentials are not sent over plaintext");
        }
        Self(Arc::default())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds all of them, one after the other, to the headers of a call.
    ///
    /// # Errors
    /// One cannot be had; then the call is not to be made.
    pub(crate) async fn add_to(&self, headers: &mut HeaderMap) -> Result<(), CallError> {
        for credentials in &*self.0 {
            for (name, value) in &credentials.headers().await? {
                headers.append(name, value.clone());
            }
        }
        Ok(())
    }
}
