//! The services `shop.Shop` and `shop.Payment`, with the code that tonic generates for them:
//!
//! ```proto
//! service Shop { rpc Order(Item) returns (Receipt); }       // charges for the item, too
//! service Payment { rpc Charge(Item) returns (Receipt); }
//! message Item { string name = 1; }
//! message Receipt { repeated string callers = 1; }          // each service on the way adds its caller
//! ```

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::uri::PathAndQuery;
use oxds_channel::XdsChannel;
use oxds_grpc_server::Peer;
use tonic::body::Body;
use tonic::server::{NamedService, UnaryService};
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;
use tower_service::Service;

pub(crate) const ORDER: &str = "/shop.Shop/Order";
pub(crate) const CHARGE: &str = "/shop.Payment/Charge";
/// Deadline of a call. It includes the time until the first configuration and connection.
const DEADLINE: Duration = Duration::from_secs(20);

type Answer = Pin<Box<dyn Future<Output = Result<Response<Receipt>, Status>> + Send>>;

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Item {
    #[prost(string, tag = "1")]
    name: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Receipt {
    #[prost(string, repeated, tag = "1")]
    pub(crate) callers: Vec<String>,
}

/// Calls a method that takes an item and returns a receipt.
pub(crate) async fn call(channel: &XdsChannel, method: &'static str) -> Result<Receipt, Status> {
    let mut grpc = tonic::client::Grpc::new(channel.clone());
    if let Err(never) = grpc.ready().await {
        match never {}
    }
    let name = "apple".to_owned();
    let mut request = Request::new(Item { name });
    request.set_timeout(DEADLINE);
    let path = PathAndQuery::from_static(method);
    let codec = ProstCodec::<Item, Receipt>::default();
    Ok(grpc.unary(request, path, codec).await?.into_inner())
}

/// Returns the identity of the caller, as TLS has verified it. A filter chain without TLS has no callers with a name.
fn caller(request: &Request<Item>) -> Option<String> {
    let peer = request.extensions().get::<Arc<Peer>>()?;
    let subject = peer.subject.as_deref().unwrap_or_default();
    Some(format!("{} ({subject})", peer.uri_sans.join(", ")))
}

fn called_by(service: &str, request: &Request<Item>) -> String {
    let caller = caller(request).unwrap_or_else(|| "an unknown client".to_owned());
    format!("{service} was called by {caller}")
}

#[derive(Clone, Debug)]
pub(crate) struct Payment;

impl UnaryService<Item> for Payment {
    type Response = Receipt;
    type Future = Answer;

    fn call(&mut self, request: Request<Item>) -> Answer {
        let callers = vec![called_by("payment", &request)];
        Box::pin(async { Ok(Response::new(Receipt { callers })) })
    }
}

impl NamedService for Payment {
    const NAME: &'static str = "shop.Payment";
}

#[derive(Clone, Debug)]
pub(crate) struct Shop {
    pub(crate) payment: XdsChannel,
}

impl UnaryService<Item> for Shop {
    type Response = Receipt;
    type Future = Answer;

    fn call(&mut self, request: Request<Item>) -> Answer {
        let mut callers = vec![called_by("shop", &request)];
        let payment = self.payment.clone();
        Box::pin(async move {
            callers.extend(call(&payment, CHARGE).await?.callers);
            Ok(Response::new(Receipt { callers }))
        })
    }
}

impl NamedService for Shop {
    const NAME: &'static str = "shop.Shop";
}

/// A service with one method.
#[derive(Clone, Debug)]
pub(crate) struct Server<S> {
    pub(crate) method: &'static str,
    pub(crate) service: S,
}

impl<S: NamedService> NamedService for Server<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> Service<http::Request<Body>> for Server<S>
where
    S: UnaryService<Item, Response = Receipt, Future = Answer> + Clone + Send + 'static,
{
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let Self { method, service } = self.clone();
        Box::pin(async move {
            if request.uri().path() != method {
                return Ok(Status::unimplemented(format!("expected {method}")).into_http());
            }
            let mut grpc = tonic::server::Grpc::new(ProstCodec::<Receipt, Item>::default());
            Ok(grpc.unary(service, request).await)
        })
    }
}
