//! A client that subscribes to all clusters by itself, so that a scenario sees exactly what a client receives.
//!
//! It ACKs each response, and after the end of a stream goes on at the next server with what it has, as Envoy does. Messages are those of
//! `envoy-types`, not our own.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

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

use crate::Fallible;
use crate::wait::until;
use crate::wire::Protocol;

const CDS: &str = "type.googleapis.com/envoy.config.cluster.v3.Cluster";
const SERVICE: &str = "/envoy.service.discovery.v3.AggregatedDiscoveryService";
/// Pause before the next server is tried.
const RETRY: Duration = Duration::from_millis(50);

/// Clusters by name, with the text that each has in `alt_stat_name`: scenarios write there which publish it is of.
pub(crate) type Clusters = BTreeMap<String, String>;

/// A running client. Dropping it ends its stream.
#[derive(Debug)]
pub(crate) struct Subscriber {
    seen: Arc<Mutex<Seen>>,
    task: JoinHandle<()>,
}

/// One response as it was received.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Received {
    pub(crate) changed: Clusters,
    /// Delta only.
    pub(crate) removed: Vec<String>,
    /// Number of clusters that the client has after it.
    pub(crate) total: usize,
}

#[derive(Debug, Default)]
struct Seen {
    has: Clusters,
    /// Delta: versions of these clusters.
    versions: BTreeMap<String, String>,
    responses: Vec<Received>,
}

impl Subscriber {
    /// Starts a client of the first server that answers; the others are for later.
    pub(crate) fn start(servers: Vec<SocketAddr>, protocol: Protocol) -> Self {
        let seen = Arc::<Mutex<Seen>>::default();
        let shared = Arc::clone(&seen);
        let task = tokio::spawn(async move {
            for server in servers.iter().cycle() {
                // A stream that ended is continued at the next server, whatever the reason.
                let _ = stream(*server, protocol, &shared).await;
                tokio::time::sleep(RETRY).await;
            }
        });
        Self { seen, task }
    }

    /// Number of responses so far.
    pub(crate) fn mark(&self) -> usize {
        lock(&self.seen).responses.len()
    }

    /// Responses after the mark.
    pub(crate) fn since(&self, mark: usize) -> Vec<Received> {
        let seen = lock(&self.seen);
        seen.responses.get(mark..).unwrap_or_default().to_vec()
    }

    /// Waits until the client has clusters like this.
    pub(crate) async fn has(
        &self,
        what: &str,
        limit: Duration,
        is_so: impl Fn(&Clusters) -> bool,
    ) -> Fallible {
        until(what, limit, async || {
            let seen = lock(&self.seen);
            match is_so(&seen.has) {
                true => Ok(Some(())),
                false => {
                    let first: Vec<_> = seen.has.iter().take(4).collect();
                    Err(format!("it has {} clusters: {first:?}…", seen.has.len()).into())
                }
            }
        })
        .await
    }

    /// Waits until it has exactly these clusters.
    pub(crate) async fn has_only(&self, clusters: &[(&str, &str)], limit: Duration) -> Fallible {
        let wanted = owned(clusters);
        self.has(&format!("{clusters:?}"), limit, |has| *has == wanted)
            .await
    }

    /// Fails unless it received exactly one response since the mark, with these changes and removals.
    pub(crate) fn received_once(
        &self,
        mark: usize,
        changed: &[(&str, &str)],
        removed: &[&str],
    ) -> Fallible {
        let responses = self.since(mark);
        let is_so = |one: &Received| one.changed == owned(changed) && one.removed == removed;
        match responses.as_slice() {
            [one] if is_so(one) => Ok(()),
            other => Err(format!("received {other:?}, expected {changed:?}, -{removed:?}").into()),
        }
    }

    /// Fails if it received a response since the mark.
    pub(crate) fn received_nothing(&self, mark: usize) -> Fallible {
        match self.since(mark).as_slice() {
            [] => Ok(()),
            responses => Err(format!("received {responses:?}, expected nothing").into()),
        }
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn owned(clusters: &[(&str, &str)]) -> Clusters {
    let pairs = clusters.iter();
    pairs
        .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()))
        .collect()
}

fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

fn node() -> Option<Node> {
    Some(Node {
        id: "subscriber".to_owned(),
        ..Node::default()
    })
}

/// Subscribes at a server until the stream ends.
async fn stream(server: SocketAddr, protocol: Protocol, seen: &Mutex<Seen>) -> Fallible {
    let socket = TcpStream::connect(server).await?;
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
    seen.responses.push(Received {
        total: changed.len(),
        changed,
        removed: Vec::new(),
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
    received.total = seen.has.len();
    seen.responses.push(received);
    Ok(framed(&DeltaDiscoveryRequest {
        type_url: response.type_url.clone(),
        response_nonce: response.nonce.clone(),
        ..DeltaDiscoveryRequest::default()
    }))
}
