//! Variant of the xDS transport protocol: SotW or delta.

/// The two variants of the xDS transport protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    /// State of the world: `DiscoveryRequest` and `DiscoveryResponse`.
    Sotw,
    /// Incremental: `DeltaDiscoveryRequest` and `DeltaDiscoveryResponse`.
    Delta,
}
