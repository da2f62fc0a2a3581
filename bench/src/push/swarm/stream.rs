//! One stream: requests, counts responses, answers.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use h2::SendStream;
use h2::client::{ResponseFuture, SendRequest};
use http::Request;
use oxds_core::snapshot::Protocol;
use oxds_types::discovery::{DeltaDiscoveryRequest, DiscoveryRequest, Status};
use prost::Message;
use tokio::sync::watch;

use super::super::resources;
use super::manner::{Commands, Manner, Nack, text};
use super::scanner::{Scanner, Seen};
use super::tally::Tally;

pub(super) struct Stream {
    manner: Manner,
    response: ResponseFuture,
    requests: SendStream<Bytes>,
    commands: watch::Receiver<Commands>,
    tally: Arc<Tally>,
    /// The last accepted version, which a SotW client repeats in a NACK.
    accepted: String,
    /// Marked resources that it has accepted.
    marked: usize,
    is_answered: bool,
}

impl Stream {
    pub(super) fn open(
        connection: &mut SendRequest<Bytes>,
        address: SocketAddr,
        manner: &Manner,
        commands: watch::Receiver<Commands>,
        tally: Arc<Tally>,
    ) -> Result<Self, String> {
        let method = match manner.protocol {
            Protocol::Sotw => "StreamAggregatedResources",
            Protocol::Delta => "DeltaAggregatedResources",
        };
        let uri = format!(
            "http://{address}/envoy.service.discovery.v3.AggregatedDiscoveryService/{method}"
        );
        let request = Request::post(uri)
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(())
            .map_err(text)?;
        let (response, requests) = connection.send_request(request, false).map_err(text)?;
        Ok(Self {
            manner: manner.clone(),
            response,
            requests,
            commands,
            tally,
            accepted: String::new(),
            marked: 0,
            is_answered: false,
        })
    }

    pub(super) async fn run(mut self, first: Bytes) {
        let tally = Arc::clone(&self.tally);
        let ended = self.talk(first).await;
        tally.ended(ended.err().unwrap_or_else(|| "by the server".to_owned()));
    }

    /// Whether there was a response.
    pub(super) fn is_answered(&self) -> bool {
        self.is_answered
    }

    /// Sends the first request, and answers responses until the stream ends.
    pub(super) async fn talk(&mut self, first: Bytes) -> Result<(), String> {
        self.requests.send_data(first, false).map_err(text)?;
        let mut body = (&mut self.response).await.map_err(text)?.into_body();
        let mut scanner = Scanner::default();
        let mut whole = Vec::new();
        loop {
            self.commands
                .wait_for(|commands| !commands.stalled)
                .await
                .map_err(text)?;
            let Some(data) = body.data().await else {
                return Ok(());
            };
            let data = data.map_err(text)?;
            scanner.push(&data, |seen| whole.push(seen))?;
            body.flow_control()
                .release_capacity(data.len())
                .map_err(text)?;
            for seen in whole.drain(..) {
                self.is_answered = true;
                self.tally.add(&seen);
                if !self.manner.answer_after.is_zero() {
                    tokio::time::sleep(self.manner.answer_after).await;
                }
                let answer = self.answer(&seen);
                self.requests.send_data(answer, false).map_err(text)?;
                self.tally.answered();
            }
        }
    }

    fn answer(&mut self, seen: &Seen) -> Bytes {
        let commands = *self.commands.borrow();
        let text = match commands.nack {
            _ if seen.large == 0 => None,
            Nack::No => None,
            Nack::Named => Some(format!("{}: too large for us", resources::resource_name(0))),
            Nack::Unnamed => Some("a resource is too large for us".to_owned()),
        };
        let error_detail = text.map(|message| Status {
            code: 3,
            message,
            ..Status::default()
        });
        if error_detail.is_none() {
            self.accepted = String::from_utf8_lossy(&seen.version).into_owned();
            self.count_marked(seen, commands.marked);
        }
        let Manner {
            resource_type, api, ..
        } = &self.manner;
        let type_url = resource_type.type_url_on(*api).to_owned();
        let response_nonce = String::from_utf8_lossy(&seen.nonce).into_owned();
        match self.manner.protocol {
            Protocol::Sotw => framed(&DiscoveryRequest {
                type_url,
                response_nonce,
                error_detail,
                version_info: self.accepted.clone(),
                ..DiscoveryRequest::default()
            }),
            Protocol::Delta => framed(&DeltaDiscoveryRequest {
                type_url,
                response_nonce,
                error_detail,
                ..DeltaDiscoveryRequest::default()
            }),
        }
    }
}

impl Stream {
    fn count_marked(&mut self, seen: &Seen, goal: usize) {
        let before = self.marked;
        self.marked = match self.manner.protocol {
            // A response has all resources of the type.
            Protocol::Sotw => before.max(seen.marked),
            Protocol::Delta => before + seen.marked,
        };
        if before < goal && self.marked >= goal {
            self.tally.completed();
        }
    }
}

/// A message with gRPC's prefix.
pub(crate) fn framed(message: &impl Message) -> Bytes {
    let mut bytes = BytesMut::with_capacity(5 + message.encoded_len());
    bytes.put_u8(0);
    bytes.put_u32(u32::try_from(message.encoded_len()).unwrap_or(u32::MAX));
    // Encoding to memory cannot fail.
    let _ = message.encode(&mut bytes);
    bytes.freeze()
}
