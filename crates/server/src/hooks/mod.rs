//! What a program sees of every call of a client, and may refuse.
//!
//! ```text
//!            ┌────────┐ node ┌───────┐ request, response, acked, nacked ┌────────┐
//!  open ───▶ │ Opened │ ───▶ │ Named │ ───────────────────────────────▶ │ closed │
//!            └────────┘      └───────┘                                  └────────┘
//!    Err         Err             Err of any of them: the status with which the call ends
//! ```
//!
//! Each call has an [`Observer`] of its own: what is to be remembered of a stream is kept in its fields, and gone with
//! it. There are no stream numbers to be looked up, and nothing is to be locked. SotW, delta, `Fetch` and REST are told
//! alike.
//!
//! ```
//! use oxds_server::{Call, Nack, Observer, Server, Status};
//!
//! struct Audit(String);
//!
//! impl Observer for Audit {
//!     fn nacked(&mut self, nack: &Nack<'_>) -> Result<(), Status> {
//!         println!("{}: {} was rejected: {}", self.0, nack.kind, nack.reason);
//!         Ok(())
//!     }
//! }
//!
//! let server = Server::builder().hooks(|call: &Call| match call.headers.get("authorization") {
//!     Some(token) if token == "Bearer sesame" => Ok(Audit(call.peer.to_string())),
//!     _ => Err(Status::unauthenticated("no token")),
//! });
//! ```

pub(crate) mod middleware;

use std::future::ready;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use http::HeaderMap;
use oxds_core::session::{Event, Request};
use oxds_types::discovery::{DiscoveryRequest, DiscoveryResponse, Node};
use oxds_types::{ApiVersion, ResourceType, Version};
use prost::Message as _;
use tonic::Status;

/// What a hook that may take its time returns.
///
/// It is dropped where it stands when the client goes away meanwhile: at any `.await` it must be safe to go no further.
pub type HookFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, Status>> + Send + 'a>>;

/// Told of every call: a stream, a `Fetch` or a REST poll, and, of what is beside discovery, CSDS, load reports and the
/// status on the gRPC port. Health and reflection are for everybody, and so is the HTTP port but for its REST polls.
///
/// A closure from [`Call`] to an [`Observer`] is one, where nothing has to be waited for.
pub trait Hooks: Send + Sync + 'static {
    /// Told what happens in one call; `Box<dyn Observer>` where there are several sorts, `()` where nobody need be.
    type Observer: Observer;

    /// A client calls. Nothing has been read of its request, nor answered; other calls go on meanwhile, so that this
    /// is the place to ask somebody else who the client is. An error ends the call with that status.
    ///
    /// The future is dropped when the client goes away meanwhile.
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

/// Hooks of whatever type.
pub(crate) trait AnyHooks: Send + Sync {
    fn open<'a>(&'a self, call: &'a Call) -> HookFuture<'a, Box<dyn Observer>>;
}

impl<H: Hooks> AnyHooks for H {
    fn open<'a>(&'a self, call: &'a Call) -> HookFuture<'a, Box<dyn Observer>> {
        let opened = Hooks::open(self, call);
        Box::pin(async { Ok(Box::new(opened.await?) as Box<dyn Observer>) })
    }
}

/// Told what happens in one call. An error ends it with that status; what it is told of then does not happen.
///
/// All but [`node`](Self::node) run on the thread that serves the call, and many others: they must not block.
pub trait Observer: Send + 'static {
    /// Who the client says it is, in its first request. What is returned is what it is taken for: groups are chosen
    /// and the status is shown by it. Until then the client waits, so that what it is to see can be made ready.
    fn node(&mut self, node: Node) -> HookFuture<'static, Node> {
        Box::pin(ready(Ok(node)))
    }

    /// Any request, acknowledgements included, before it has an effect. Its type URL is there even where the client left
    /// it out, as those of services for one kind may.
    fn request(&mut self, request: &Request) -> Result<(), Status> {
        let _ = request;
        Ok(())
    }

    /// A response, before it is sent.
    fn response(&mut self, response: &SentResponse<'_>) -> Result<(), Status> {
        let _ = response;
        Ok(())
    }

    /// The client accepted a response.
    fn acked(&mut self, resource_type: &ResourceType, version: Version) -> Result<(), Status> {
        let _ = (resource_type, version);
        Ok(())
    }

    /// The client rejected a response. It is recorded, and not sent again until it changes, whatever this does.
    fn nacked(&mut self, nack: &Nack<'_>) -> Result<(), Status> {
        let _ = nack;
        Ok(())
    }

    /// The call has ended, with this status: the last that is told. `Cancelled` where the client just went away.
    fn closed(&mut self, status: &Status) {
        let _ = status;
    }
}

/// An observer that looks at nothing: for hooks that only refuse.
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

/// A call, as it is known before its first request.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Call {
    /// The path: of a gRPC method, of REST, or `/status.json`.
    pub method: String,
    /// Where the client is.
    pub peer: SocketAddr,
    /// Metadata, as gRPC calls it.
    pub headers: HeaderMap,
    /// The names in the client's certificate, if it showed one: SPIFFE IDs and other URIs, then DNS names.
    pub identity: Vec<String>,
}

/// A response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SentResponse<'a> {
    /// Of what.
    pub resource_type: &'a ResourceType,
    /// Its version.
    pub version: &'a str,
    /// How many resources are in it.
    pub resources: usize,
    /// How many names it says are gone.
    pub removed: usize,
    /// Its length, without compression and framing.
    pub bytes: usize,
}

/// A rejection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Nack<'a> {
    /// Of what.
    pub resource_type: &'a ResourceType,
    /// The version of the response that was rejected.
    pub version: Version,
    /// What the client said, at most 4 KiB of it.
    pub reason: &'a str,
    /// The resources that were meant, as far as one can tell; empty if they were too many.
    pub resources: &'a [Arc<str>],
}

/// The observer of a call, if there is one.
pub(crate) struct Observed(Option<Box<dyn Observer>>);

impl Observed {
    /// Nobody looks.
    pub(crate) const NOBODY: Self = Self(None);

    /// Asks whether the call may go on.
    pub(crate) async fn open(
        hooks: Option<&dyn AnyHooks>,
        call: impl FnOnce() -> Call,
    ) -> Result<Self, Status> {
        match hooks {
            Some(hooks) => Ok(Self(Some(hooks.open(&call()).await?))),
            None => Ok(Self::NOBODY),
        }
    }

    /// Asks whom the first request is from; `None` where nobody needs to be asked.
    pub(crate) fn node(&mut self, request: &mut Request) -> Option<HookFuture<'static, Node>> {
        let observer = self.0.as_mut()?;
        Some(observer.node(request.node_mut().take().unwrap_or_default()))
    }

    /// The only request of a call without a stream, as it is let pass. It need not say what the path says already, but
    /// whoever decides by the kind is told.
    pub(crate) async fn ask(
        &mut self,
        (resource_type, api): (&ResourceType, ApiVersion),
        mut request: DiscoveryRequest,
    ) -> Result<DiscoveryRequest, Status> {
        if request.type_url.is_empty() {
            resource_type
                .type_url_on(api)
                .clone_into(&mut request.type_url);
        }
        let mut request = Request::from(request);
        if let Some(node) = self.node(&mut request) {
            *request.node_mut() = Some(node.await?);
        }
        self.request(&request)?;
        match request {
            Request::Sotw(request) => Ok(request),
            Request::Delta(_) => Err(Status::internal("a request changed its protocol")),
        }
    }

    /// The only response of such a call.
    pub(crate) fn fetched(
        &mut self,
        resource_type: &ResourceType,
        response: &DiscoveryResponse,
    ) -> Result<(), Status> {
        self.response(&SentResponse {
            resource_type,
            version: &response.version_info,
            resources: response.resources.len(),
            removed: 0,
            bytes: response.encoded_len(),
        })
    }

    pub(crate) fn request(&mut self, request: &Request) -> Result<(), Status> {
        self.tell(|observer| observer.request(request))
    }

    pub(crate) fn response(&mut self, response: &SentResponse<'_>) -> Result<(), Status> {
        self.tell(|observer| observer.response(response))
    }

    pub(crate) fn event(&mut self, event: &Event) -> Result<(), Status> {
        self.tell(|observer| match event {
            Event::Acked {
                resource_type,
                version,
                ..
            } => observer.acked(resource_type, *version),
            Event::Nacked {
                resource_type,
                version,
                reason,
                resources,
            } => observer.nacked(&Nack {
                resource_type,
                version: *version,
                reason,
                resources,
            }),
            _ => Ok(()),
        })
    }

    /// The last that is told.
    pub(crate) fn close(&mut self, status: &Status) {
        if let Some(mut observer) = self.0.take() {
            observer.closed(status);
        }
    }

    fn tell(
        &mut self,
        tell: impl FnOnce(&mut dyn Observer) -> Result<(), Status>,
    ) -> Result<(), Status> {
        match &mut self.0 {
            Some(observer) => tell(&mut **observer),
            None => Ok(()),
        }
    }
}

impl Drop for Observed {
    fn drop(&mut self) {
        self.close(&Status::cancelled("the client went away"));
    }
}
