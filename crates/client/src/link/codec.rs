//! Codec of requests and responses on a gRPC stream.

use std::marker::PhantomData;

use oxds_types::ApiVersion;
use oxds_types::request::{self, HasNode};
use prost::Message;
use tonic::Status;
use tonic::codec::{Codec, EncodeBuf, Encoder};
use tonic_prost::{ProstCodec, ProstDecoder};

/// Writes requests in the API version of their stream (gRFC A30). Responses of both versions are read as v3: v2
/// messages have the same field numbers and fewer fields.
#[derive(Debug, Clone)]
pub(crate) struct RequestCodec<Q, R> {
    version: ApiVersion,
    messages: PhantomData<fn(Q) -> R>,
}

impl<Q, R> RequestCodec<Q, R> {
    /// Creates a codec for streams of this API version.
    #[must_use]
    pub(crate) fn new(version: ApiVersion) -> Self {
        Self {
            version,
            messages: PhantomData,
        }
    }
}

impl<Q, R> Codec for RequestCodec<Q, R>
where
    Q: HasNode + Send + 'static,
    R: Message + Default + Send + 'static,
{
    type Encode = Q;
    type Decode = R;
    type Encoder = RequestEncoder<Q>;
    type Decoder = ProstDecoder<R>;

    fn encoder(&mut self) -> Self::Encoder {
        RequestEncoder {
            version: self.version,
            request: PhantomData,
        }
    }

    fn decoder(&mut self) -> Self::Decoder {
        ProstCodec::<Q, R>::default().decoder()
    }
}

/// Encoder of a [`RequestCodec`].
#[derive(Debug)]
pub(crate) struct RequestEncoder<Q> {
    version: ApiVersion,
    request: PhantomData<fn(Q)>,
}

impl<Q: HasNode> Encoder for RequestEncoder<Q> {
    type Item = Q;
    type Error = Status;

    fn encode(&mut self, request: Q, out: &mut EncodeBuf<'_>) -> Result<(), Status> {
        request::encode(request, self.version, out)
            .map_err(|error| Status::internal(error.to_string()))
    }
}
