//! The measured service, for any channel.

use bytes::Bytes;
use tonic::body::Body;
use tonic::client::GrpcService;
use tonic::codegen::StdError;

/// A service that takes what `Grpc` sends with [`BytesCodec`](super::bytes_codec::BytesCodec), from any task.
pub(crate) trait Callee:
    GrpcService<
        Body,
        Error: Into<StdError>,
        Future: Send,
        ResponseBody: http_body::Body<Data = Bytes, Error: Into<StdError>> + Send + 'static,
    > + Clone
    + Send
    + 'static
{
}

impl<S> Callee for S where
    S: GrpcService<
            Body,
            Error: Into<StdError>,
            Future: Send,
            ResponseBody: http_body::Body<Data = Bytes, Error: Into<StdError>> + Send + 'static,
        > + Clone
        + Send
        + 'static
{
}
