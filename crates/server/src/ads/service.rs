//! The gRPC services of discovery: from a call to a running stream, or to one answer.

use std::convert::Infallible;
use std::fmt;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};

use http::{Extensions, HeaderValue, Request, Response, header};
use oxds_core::session::Scope;
use oxds_core::snapshot::Protocol;
use oxds_types::kind::{ADS, Service};
use oxds_types::{ApiVersion, Kind};
use tonic::Status;
use tonic::body::Body;

use super::body::StreamBody;
use super::stream::{Context, Stream};
use super::unary;
use crate::security::Identity;

/// Whom a connection's requests come from; the listener puts it into their extensions.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    /// What its certificate says, if it showed one.
    pub(crate) identity: Option<Arc<Identity>>,
}

/// The address, and who it is.
impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.identity {
            Some(identity) => write!(f, "{} ({identity})", self.address),
            None => self.address.fmt(f),
        }
    }
}

impl Peer {
    /// Of a call. Only the listener makes calls, and it always knows.
    pub(crate) fn of(extensions: &Extensions) -> Result<Self, Status> {
        let peer = extensions.get::<Self>().cloned();
        peer.ok_or_else(|| Status::internal("a call from nowhere"))
    }
}

/// What a service carries, and the API version in which it does.
#[derive(Clone, Debug)]
pub(crate) struct Offer {
    pub(crate) scope: Scope,
    pub(crate) api: ApiVersion,
}

impl Offer {
    /// The type URL that a request means which has none: services of one kind need not be told it (S-58).
    pub(super) fn type_url(&self) -> Option<&str> {
        match &self.scope {
            Scope::Aggregated => None,
            Scope::Single(kind) => kind.type_url_in(self.api),
        }
    }
}

/// One discovery service: the aggregated one or that of a kind, of either API version (S-61, S-62).
#[derive(Clone, Debug)]
pub(crate) struct Discovery {
    context: Arc<Context>,
    service: &'static Service,
    offer: Offer,
}

impl Discovery {
    /// Every service that the table of kinds knows.
    pub(crate) fn all(context: &Arc<Context>) -> impl Iterator<Item = Self> {
        let [v3, v2] = &ADS;
        let aggregated =
            [(v3, ApiVersion::V3), (v2, ApiVersion::V2)].map(|(service, api)| Discovery {
                context: Arc::clone(context),
                service,
                offer: Offer {
                    scope: Scope::Aggregated,
                    api,
                },
            });
        let singles = Kind::known().flat_map(|kind| {
            [ApiVersion::V3, ApiVersion::V2]
                .into_iter()
                .filter_map(move |api| {
                    let service = kind.service(api)?;
                    let scope = Scope::Single(kind.clone());
                    Some((service, Offer { scope, api }))
                })
        });
        aggregated
            .into_iter()
            .chain(singles.map(|(service, offer)| Discovery {
                context: Arc::clone(context),
                service,
                offer,
            }))
    }

    /// Its full name: the first segment of its methods' paths.
    pub(crate) fn name(&self) -> &'static str {
        self.service.name
    }

    fn answer(&self, request: Request<Body>) -> Result<Answer, Status> {
        let peer = Peer::of(request.extensions())?;
        let method = request.uri().path().rsplit('/').next();
        let protocol = if method == self.service.stream {
            Protocol::Sotw
        } else if method == self.service.delta {
            Protocol::Delta
        } else if method == self.service.fetch {
            let (context, offer) = (Arc::clone(&self.context), self.offer.clone());
            return Ok(Answer::Unary(Box::pin(async move {
                unary::answer(&context, &offer, &peer, request.into_body()).await
            })));
        } else {
            return Err(Status::unimplemented("no such method"));
        };
        let stream = Stream::open(
            &self.context,
            protocol,
            self.offer.clone(),
            peer,
            request.into_body(),
        )
        .map_err(|refusal| refusal.status(&self.context))?;
        Ok(Answer::Stream(Body::new(StreamBody::new(stream))))
    }
}

/// How a call goes on.
enum Answer {
    Stream(Body),
    Unary(Pin<Box<dyn Future<Output = Result<Body, Status>> + Send>>),
}

impl tower_service::Service<Request<axum::body::Body>> for Discovery {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut TaskContext<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<axum::body::Body>) -> Self::Future {
        let answer = self.answer(request.map(Body::new));
        Box::pin(async {
            let body = match answer {
                Ok(Answer::Stream(body)) => Ok(body),
                Ok(Answer::Unary(body)) => body.await,
                Err(status) => Err(status),
            };
            Ok(body.map_or_else(Status::into_http, grpc))
        })
    }
}

fn grpc(body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    let grpc = HeaderValue::from_static("application/grpc");
    response.headers_mut().insert(header::CONTENT_TYPE, grpc);
    response
}
