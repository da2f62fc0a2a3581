//! One stream of a subscriber: gRPC over HTTP/2, and the record of its responses.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Mutex;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use envoy_types::pb::envoy::config::cluster::v3::Cluster;
use envoy_types::pb::envoy::config::core::v3::Node;
use envoy_types::pb::envoy::service::discovery::v3::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse,
};
use http::Request;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::UnboundedReceiverStream;

use super::seen::{Clusters, Received, Seen, lock};
use crate::Fallible;
use crate::wire::Protocol;

const CDS: &str = "type.googleapis.com/envoy.config.cluster.v3.Cluster";
const SERVICE: &str = "/envoy.service.discovery.v3.AggregatedDiscoveryService";

fn node() -> Option<Node> {
    Some(Node {
        id: "subscriber".to_owned(),
        ..Node::default()
    })
}

/// Subscribes at a server until the stream ends.
pub(super) async fn follow(
    server: SocketAddr,
    protocol: Protocol,
    seen: &Mutex<Seen>,
    process: impl Fn() -> u64,
) -> Fallible {
    let before = process();
    let socket = TcpStream::connect(server).await?;
    if process() != before {
        return Err("the server was restarted during the connect".into());
    }
    lock(seen).begin_stream(before);
    socket.set_nodelay(true)?;
    let handshake = http2::Builder::new(TokioExecutor::new())
        .adaptive_window(true)
        .handshake(TokioIo::new(socket))
        .await?;
    let (mut sender, connection) = handshake;
    let _connection = AbortOnDrop(tokio::spawn(async move {
        let _ = connection.await;
    }));
    let (requests, body) = mpsc::unbounded_channel::<Bytes>();
    let body = UnboundedReceiverStream::new(body);
    let body = StreamBody::new(body.map(|bytes| Ok::<_, Infallible>(Frame::data(bytes))));
    let method = match protocol {
        Protocol::Sotw => "StreamAggregatedResources",
        Protocol::Delta => "DeltaAggregatedResources",
    };
    let request = Request::post(format!("http://{server}{SERVICE}/{method}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(body)?;
    requests.send(first(protocol, seen))?;
    let mut responses = sender.send_request(request).await?.into_body();
    let mut buffer = BytesMut::new();
    while let Some(message) = next(&mut responses, &mut buffer).await? {
        let ack = match protocol {
            Protocol::Sotw => sotw(&DiscoveryResponse::decode(message)?, seen)?,
            Protocol::Delta => delta(&DeltaDiscoveryResponse::decode(message)?, seen)?,
        };
        requests.send(ack)?;
    }
    Ok(())
}

struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn framed(message: &impl Message) -> Bytes {
    let mut bytes = BytesMut::new();
    bytes.put_u8(0);
    bytes.put_u32(u32::try_from(message.encoded_len()).unwrap_or(u32::MAX));
    // A `BytesMut` grows.
    let _ = message.encode(&mut bytes);
    bytes.freeze()
}

/// The next message of a body; `None` at its end.
async fn next(body: &mut Incoming, buffer: &mut BytesMut) -> Fallible<Option<Bytes>> {
    loop {
        if let Some(header) = buffer.get(1..5) {
            let length = usize::try_from(u32::from_be_bytes(header.try_into()?))?;
            if buffer.len() >= 5 + length {
                buffer.advance(5);
                return Ok(Some(buffer.split_to(length).freeze()));
            }
        }
        match body.frame().await {
            None => return Ok(None),
            Some(frame) => {
                if let Ok(data) = frame?.into_data() {
                    buffer.extend_from_slice(&data);
                }
            }
        }
    }
}

/// The subscription to all clusters.
fn first(protocol: Protocol, seen: &Mutex<Seen>) -> Bytes {
    match protocol {
        Protocol::Sotw => framed(&DiscoveryRequest {
            node: node(),
            type_url: CDS.to_owned(),
            ..DiscoveryRequest::default()
        }),
        Protocol::Delta => {
            let versions = lock(seen).versions.clone().into_iter().collect();
            framed(&DeltaDiscoveryRequest {
                node: node(),
                type_url: CDS.to_owned(),
                initial_resource_versions: versions,
                ..DeltaDiscoveryRequest::default()
            })
        }
    }
}

/// Records a response and returns its ACK.
fn sotw(response: &DiscoveryResponse, seen: &Mutex<Seen>) -> Fallible<Bytes> {
    let mut changed = Clusters::new();
    for resource in &response.resources {
        let cluster = Cluster::decode(resource.value.as_slice())?;
        changed.insert(cluster.name, cluster.alt_stat_name);
    }
    let mut seen = lock(seen);
    seen.has.clone_from(&changed);
    seen.record(Received {
        changed,
        ..Received::default()
    });
    Ok(framed(&DiscoveryRequest {
        type_url: response.type_url.clone(),
        version_info: response.version_info.clone(),
        response_nonce: response.nonce.clone(),
        ..DiscoveryRequest::default()
    }))
}

/// The same for delta.
fn delta(response: &DeltaDiscoveryResponse, seen: &Mutex<Seen>) -> Fallible<Bytes> {
    let mut received = Received {
        removed: response.removed_resources.clone(),
        ..Received::default()
    };
    let mut seen = lock(seen);
    for resource in &response.resources {
        let value = resource.resource.as_ref().ok_or("a resource has a body")?;
        let cluster = Cluster::decode(value.value.as_slice())?;
        let (name, version) = (resource.name.clone(), resource.version.clone());
        seen.versions.insert(name, version);
        let Cluster {
            name,
            alt_stat_name,
            ..
        } = cluster;
        seen.has.insert(name.clone(), alt_stat_name.clone());
        received.changed.insert(name, alt_stat_name);
    }
    for name in &response.removed_resources {
        seen.has.remove(name);
        seen.versions.remove(name);
    }
    seen.record(received);
    Ok(framed(&DeltaDiscoveryRequest {
        type_url: response.type_url.clone(),
        response_nonce: response.nonce.clone(),
        ..DeltaDiscoveryRequest::default()
    }))
}
