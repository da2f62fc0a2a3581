//! Service `Watch`: events of ranges of keys.

use std::fmt;

use oxds_types::etcd::{WatchCreateRequest, WatchRequest, WatchRequestUnion, WatchResponse};

use super::access::Access as _;
use super::classify;
use super::error::{EtcdError, Reason};
use super::etcd_client::EtcdClient;
use super::method::Method;
use super::stream::OpenStream;

const WATCH: Method<WatchRequest, WatchResponse> = Method::new("/etcdserverpb.Watch/Watch");

/// A stream of watches. The watches end when it is dropped.
///
/// The member ends the stream when it loses its leader (metadata `hasleader`). A member that is stopped or cut off does
/// not: request progress to find out (G-20).
pub struct WatchStream(OpenStream<WatchRequest, WatchResponse>);

impl EtcdClient {
    /// Opens a stream with one watch, and returns etcd's answer to it.
    ///
    /// # Errors
    /// etcd does not allow the watch ([`Reason::PermissionDenied`], [`Reason::Unauthenticated`]), or those of all
    /// calls. A watch from a compacted revision begins and then ends: [`canceled`](Self::canceled) has the reason.
    ///
    /// # Cancel safety
    /// Dropping the future closes the stream.
    pub async fn watch(
        &self,
        create: WatchCreateRequest,
    ) -> Result<(WatchStream, WatchResponse), EtcdError> {
        let access = create.access();
        let first = WatchRequest {
            union: Some(WatchRequestUnion::Create(create)),
        };
        let (stream, created) = self
            .open(WATCH, true, first, &access, classify::canceled)
            .await?;
        Ok((WatchStream(stream), created))
    }

    /// Returns why a watch has ended, or `None` if the response does not end it.
    #[must_use]
    pub fn canceled(&self, response: &WatchResponse) -> Option<EtcdError> {
        let reason: Reason = classify::canceled(response)?;
        Some(self.error(reason))
    }
}

impl WatchStream {
    /// Sends a request, such as one for progress. An error of the stream is reported by [`next`](Self::next).
    pub fn send(&self, request: WatchRequestUnion) {
        self.0.send(WatchRequest {
            union: Some(request),
        });
    }

    /// Waits for the next response, without a time limit.
    ///
    /// # Errors
    /// The stream has ended.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn next(&mut self) -> Result<WatchResponse, EtcdError> {
        self.0.next().await
    }
}

impl fmt::Debug for WatchStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchStream").finish_non_exhaustive()
    }
}
