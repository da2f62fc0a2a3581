//! Decoders of Envoy's large messages, compiled in one place.
//!
//! The decoder of a message is generic, so every crate that calls it compiles its own copy, with all nested messages. A
//! tree such as that of a listener is a few hundred functions.

use envoy_types::pb::envoy::config::cluster::v3::Cluster;
use envoy_types::pb::envoy::config::endpoint::v3::ClusterLoadAssignment;
use envoy_types::pb::envoy::config::listener::v3::Listener;
use envoy_types::pb::envoy::config::route::v3::{Route, RouteConfiguration, VirtualHost};
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::HttpConnectionManager;
use prost::{DecodeError, Message};

/// A large message of Envoy's API.
pub trait Decode: Sized {
    /// Decodes the message, as [`prost::Message::decode`] does.
    ///
    /// # Errors
    /// The bytes are not such a message.
    fn from_bytes(value: &[u8]) -> Result<Self, DecodeError>;
}

macro_rules! compiled_here {
    ($($message:ty),* $(,)?) => {
        $(impl Decode for $message {
            fn from_bytes(value: &[u8]) -> Result<Self, DecodeError> {
                Self::decode(value)
            }
        })*
    };
}

compiled_here!(
    Cluster,
    ClusterLoadAssignment,
    HttpConnectionManager,
    Listener,
    Route,
    RouteConfiguration,
    VirtualHost,
);
