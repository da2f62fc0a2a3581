//! Tests of the channel below a client as tonic-build generates it.

use bytes::Bytes;
use http::uri::PathAndQuery;
use oxds_channel::testing::{BACKEND_HEADER, cluster, config};
use tonic::body::Body;
use tonic::client::GrpcService;
use tonic::codegen::{Body as HttpBody, StdError};
use tonic::{IntoRequest, IntoStreamingRequest, Response, Status, Streaming};

use crate::support::{backends, channel};

/// `message Text { string text = 1; }`
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Text {
    #[prost(string, tag = "1")]
    pub(crate) text: String,
}

/// The client that tonic-build generates for `service Echo`, with the same trait bounds.
#[derive(Clone, Debug)]
pub(crate) struct EchoClient<T> {
    inner: tonic::client::Grpc<T>,
}

impl<T> EchoClient<T>
where
    T: GrpcService<Body>,
    T::Error: Into<StdError>,
    T::ResponseBody: HttpBody<Data = Bytes> + Send + 'static,
    <T::ResponseBody as HttpBody>::Error: Into<StdError> + Send,
{
    pub(crate) fn new(inner: T) -> Self {
        let inner = tonic::client::Grpc::new(inner);
        Self { inner }
    }

    pub(crate) async fn unary(
        &mut self,
        request: impl IntoRequest<Text>,
    ) -> Result<Response<Text>, Status> {
        self.ready().await?;
        let codec = tonic_prost::ProstCodec::default();
        let path = PathAndQuery::from_static("/echo.Echo/Unary");
        self.inner.unary(request.into_request(), path, codec).await
    }

    pub(crate) async fn stream(
        &mut self,
        request: impl IntoStreamingRequest<Message = Text>,
    ) -> Result<Response<Streaming<Text>>, Status> {
        self.ready().await?;
        let codec = tonic_prost::ProstCodec::default();
        let path = PathAndQuery::from_static("/echo.Echo/Stream");
        self.inner
            .streaming(request.into_streaming_request(), path, codec)
            .await
    }

    async fn ready(&mut self) -> Result<(), Status> {
        let ready = self.inner.ready().await;
        ready.map_err(|error| Status::unknown(format!("Service was not ready: {}", error.into())))
    }
}

fn text(text: &str) -> Text {
    Text {
        text: text.to_owned(),
    }
}

#[tokio::test]
async fn tonic_client_makes_unary_and_streaming_calls() {
    let [backend] = backends().await;
    let (script, channel) = channel();
    let one = cluster("one", &[&[("here", 1, &[backend.address()])]], 0);
    script.set(config(&[("", &[(1, 0)])], vec![one]));
    let mut client = EchoClient::new(channel);

    let response = client.unary(text("hello")).await.unwrap();
    let name = response
        .metadata()
        .get(BACKEND_HEADER)
        .unwrap()
        .to_str()
        .unwrap();
    assert_eq!(name, backend.address().to_string());
    assert_eq!(response.into_inner(), text("hello"));

    let (sender, receiver) = tokio::sync::mpsc::channel(1);
    let requests = tokio_stream::wrappers::ReceiverStream::new(receiver);
    let mut responses = client.stream(requests).await.unwrap().into_inner();
    for word in ["one", "two", "three"] {
        sender.send(text(word)).await.unwrap();
        assert_eq!(responses.message().await.unwrap(), Some(text(word)));
    }
    drop(sender);
    assert_eq!(responses.message().await.unwrap(), None);
}

#[tokio::test]
async fn backend_status_reaches_the_client_unchanged() {
    let [backend] = backends().await;
    backend.set_status(8);
    let (script, channel) = channel();
    let one = cluster("one", &[&[("here", 1, &[backend.address()])]], 0);
    script.set(config(&[("", &[(1, 0)])], vec![one]));
    let status = EchoClient::new(channel)
        .unary(text("hello"))
        .await
        .unwrap_err();
    assert_eq!(status.code(), tonic::Code::ResourceExhausted);
}
