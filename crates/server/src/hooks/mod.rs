//! Hooks: a program observes the calls of clients, and can deny them.
//!
//! ```text
//!            ┌────────┐ node ┌────────────┐ request, response, acked, nacked ┌────────┐
//!  open ───▶ │ opened │ ───▶ │ identified │ ───────────────────────────────▶ │ closed │
//!            └────────┘      └────────────┘                                  └────────┘
//!    Err         Err             Err of any of them: the status with which the call ends
//! ```
//!
//! Each call has its own [`Observer`], whose fields hold the state of the call and are dropped with it. So a program
//! needs no stream numbers and no locks. SotW, delta, `Fetch` and REST have the same hooks.
//!
//! ```
//! use oxds_server::{Call, Nack, Observer, Server, Status};
//!
//! struct Audit(String);
//!
//! impl Observer for Audit {
//!     fn nacked(&mut self, nack: &Nack<'_>) -> Result<(), Status> {
//!         println!("{}: NACK of {}: {}", self.0, nack.resource_type, nack.reason);
//!         Ok(())
//!     }
//! }
//!
//! let server = Server::builder().hooks(|call: &Call| match call.headers.get("authorization") {
//!     Some(token) if token == "Bearer sesame" => Ok(Audit(call.peer.to_string())),
//!     _ => Err(Status::unauthenticated("invalid token")),
//! });
//! ```

mod observer;

use std::future::ready;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use http::HeaderMap;
use oxds_core::session::Request;
use oxds_types::discovery::Node;
use oxds_types::{ResourceType, Version};
use tonic::Status;

pub(crate) use observer::{AnyHooks, CallObserver};

/// Future of an asynchronous hook.
///
/// The server drops it if the client disconnects, so it must be safe to stop at any `.await`.
pub type HookFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, Status>> + Send + 'a>>;

/// Hooks of a program, called for each call of a client.
///
/// Calls are streams, `Fetch` calls and REST polls, and beside discovery: CSDS, load reports, and the status on the
/// gRPC port. Health and reflection have no hooks, and of the HTTP port only the REST polls have.
///
/// A closure from [`Call`] to an [`Observer`] implements the trait, if it need not wait for anything.
pub trait Hooks: Send + Sync + 'static {
    /// Observer of one call: `Box<dyn Observer>` for several types of observers, `()` for none.
    type Observer: Observer;

    /// Opens a call. The server has not read its request yet, and continues with other calls, so this is the place to
    /// authenticate the client with another service.
    ///
    /// The server drops the future if the client disconnects.
    ///
    /// # Errors
    /// The status with which the call ends.
    fn open(&self, call: &Call) -> impl Future<Output = Result<Self::Observer, Status>> + Send;
}

impl<F, O> Hooks for F
where
    F: Fn(&Call) -> Result<O, Status> + Send + Sync + 'static,
    O: Observer,
{
    type Observer = O;

    fn open(&self, call: &Call) -> impl Future<Output = Result<O, Status>> + Send {
        ready(self(call))
    }
}

/// Observer of one call. An error of any method ends the call with that status, and cancels what the method announced.
///
/// All methods except [`node`](Self::node) run on a thread that serves many calls: they must not block.
pub trait Observer: Send + 'static {
    /// Receives the node of the first request, and returns the node to use instead: it selects the node groups, and the
    /// status shows it. The client waits for the future, so the hook can prepare the configuration of the node.
    fn node(&mut self, node: Node) -> HookFuture<'static, Node> {
        Box::pin(ready(Ok(node)))
    }

    /// Receives each request, ACKs and NACKs included, before it has an effect. The type URL is present even if the
    /// client omits it, as clients of services for a single type may (S-58).
    fn request(&mut self, request: &Request) -> Result<(), Status> {
        let _ = request;
        Ok(())
    }

    /// Receives each response before the server sends it.
    fn response(&mut self, response: &SentResponse<'_>) -> Result<(), Status> {
        let _ = response;
        Ok(())
    }

    /// Receives each ACK, with the version that the client accepted.
    fn acked(&mut self, resource_type: &ResourceType, version: Version) -> Result<(), Status> {
        let _ = (resource_type, version);
        Ok(())
    }

    /// Receives each NACK. The server records it, and does not send the rejected resources again until they change,
    /// whatever this method returns.
    fn nacked(&mut self, nack: &Nack<'_>) -> Result<(), Status> {
        let _ = nack;
        Ok(())
    }

    /// Receives the final status of the call, as the last event. `Cancelled` means that the client disconnected.
    fn closed(&mut self, status: &Status) {
        let _ = status;
    }
}

/// An observer without effects, for hooks that only deny calls.
impl Observer for () {}

impl<O: Observer + ?Sized> Observer for Box<O> {
    fn node(&mut self, node: Node) -> HookFuture<'static, Node> {
        (**self).node(node)
    }

    fn request(&mut self, request: &Request) -> Result<(), Status> {
        (**self).request(request)
    }

    fn response(&mut self, response: &SentResponse<'_>) -> Result<(), Status> {
        (**self).response(response)
    }

    fn acked(&mut self, resource_type: &ResourceType, version: Version) -> Result<(), Status> {
        (**self).acked(resource_type, version)
    }

    fn nacked(&mut self, nack: &Nack<'_>) -> Result<(), Status> {
        (**self).nacked(nack)
    }

    fn closed(&mut self, status: &Status) {
        (**self).closed(status);
    }
}

/// A call before its first request.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Call {
    /// Path of the gRPC method or of the REST resource, or `/status.json`.
    pub method: String,
    /// Address of the client.
    pub peer: SocketAddr,
    /// Request headers (gRPC: metadata).
    pub headers: HeaderMap,
    /// Names in the client certificate: SPIFFE IDs and other URIs, then DNS names. Empty without a certificate.
    pub identity: Vec<String>,
}

/// A response that the server is about to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SentResponse<'a> {
    /// Type of its resources.
    pub resource_type: &'a ResourceType,
    /// `version_info` or `system_version_info`.
    pub version: &'a str,
    /// Number of resources in it.
    pub resources: usize,
    /// Number of removed names (delta).
    pub removed: usize,
    /// Length in bytes, without compression and framing.
    pub bytes: usize,
}

/// A NACK of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Nack<'a> {
    /// Type of the rejected resources.
    pub resource_type: &'a ResourceType,
    /// Version of the rejected response.
    pub version: Version,
    /// The client's message (`error_detail.message`), at most 4 KiB of it.
    pub reason: &'a str,
    /// Resources that the client rejects: those that its message names, or else all of the response. Empty if these are
    /// too many.
    pub resources: &'a [Arc<str>],
}
