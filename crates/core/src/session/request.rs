//! What arrives.

use oxds_types::discovery::{DeltaDiscoveryRequest, DiscoveryRequest};

/// A message of the client.
#[derive(Debug, Clone, PartialEq)]
pub enum Request {
    /// On a stream of the SotW variant.
    Sotw(DiscoveryRequest),
    /// On a stream of the delta variant.
    Delta(DeltaDiscoveryRequest),
}

impl From<DiscoveryRequest> for Request {
    fn from(request: DiscoveryRequest) -> Self {
        Self::Sotw(request)
    }
}

impl From<DeltaDiscoveryRequest> for Request {
    fn from(request: DeltaDiscoveryRequest) -> Self {
        Self::Delta(request)
    }
}
