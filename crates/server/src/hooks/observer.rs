//! The observer of a call, as the server calls it.

use oxds_core::session::{Event, Request};
use oxds_types::discovery::{DiscoveryRequest, DiscoveryResponse, Node};
use oxds_types::{ApiVersion, ResourceType};
use prost::Message as _;
use tonic::Status;

use super::{Call, HookFuture, Hooks, Nack, Observer, SentResponse};

/// Hooks with any type of observer.
pub(crate) trait AnyHooks: Send + Sync {
    fn open<'a>(&'a self, call: &'a Call) -> HookFuture<'a, Box<dyn Observer>>;
}

impl<H: Hooks> AnyHooks for H {
    fn open<'a>(&'a self, call: &'a Call) -> HookFuture<'a, Box<dyn Observer>> {
        let opened = Hooks::open(self, call);
        Box::pin(async { Ok(Box::new(opened.await?) as Box<dyn Observer>) })
    }
}

/// The observer of a call, if the program has hooks. Dropped before [`close`](Self::close), it reports `Cancelled`.
pub(crate) struct CallObserver(Option<Box<dyn Observer>>);

impl CallObserver {
    /// An observer for calls that no hook observes.
    pub(crate) const NONE: Self = Self(None);

    /// Asks the hooks whether the call may proceed.
    pub(crate) async fn open(
        hooks: Option<&dyn AnyHooks>,
        call: impl FnOnce() -> Call,
    ) -> Result<Self, Status> {
        match hooks {
            Some(hooks) => Ok(Self(Some(hooks.open(&call()).await?))),
            None => Ok(Self::NONE),
        }
    }

    /// Takes the node out of the first request, and passes it to the observer. Returns `None` without an observer.
    pub(crate) fn node(&mut self, request: &mut Request) -> Option<HookFuture<'static, Node>> {
        let observer = self.0.as_mut()?;
        Some(observer.node(request.node_mut().take().unwrap_or_default()))
    }

    /// Passes the only request of a `Fetch` or a poll to the observer, and returns it with the node to use.
    ///
    /// The path implies the type URL, so a client may omit it (S-58). A hook that decides by type needs it, hence it is
    /// filled in.
    pub(crate) async fn single_request(
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
            Request::Delta(_) => Err(Status::internal("the request changed its protocol")),
        }
    }

    /// Passes the only response of a `Fetch` or a poll to the observer.
    pub(crate) fn single_response(
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
        self.call(|observer| observer.request(request))
    }

    pub(crate) fn response(&mut self, response: &SentResponse<'_>) -> Result<(), Status> {
        self.call(|observer| observer.response(response))
    }

    /// Passes an ACK or a NACK to the observer; ignores other events.
    pub(crate) fn event(&mut self, event: &Event) -> Result<(), Status> {
        self.call(|observer| match event {
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
                ..
            } => observer.nacked(&Nack {
                resource_type,
                version: *version,
                reason,
                resources,
            }),
            _ => Ok(()),
        })
    }

    /// Reports the final status. Later calls have no effect.
    pub(crate) fn close(&mut self, status: &Status) {
        if let Some(mut observer) = self.0.take() {
            observer.closed(status);
        }
    }

    fn call(
        &mut self,
        hook: impl FnOnce(&mut dyn Observer) -> Result<(), Status>,
    ) -> Result<(), Status> {
        match &mut self.0 {
            Some(observer) => hook(&mut **observer),
            None => Ok(()),
        }
    }
}

impl Drop for CallObserver {
    fn drop(&mut self) {
        self.close(&Status::cancelled("the client disconnected"));
    }
}
