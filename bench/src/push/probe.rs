//! A wildcard delta subscriber to clusters that reads and acknowledges responses.

use std::collections::HashMap;

use http::uri::PathAndQuery;
use oxds_types::discovery::{DeltaDiscoveryRequest, DeltaDiscoveryResponse};
use prost::Message as _;
use tokio::sync::mpsc;
use tonic::Streaming;
use tonic::client::Grpc;
use tonic::transport::Endpoint;

const CLUSTER: &str = "type.googleapis.com/envoy.config.cluster.v3.Cluster";
const DELTA_ADS: &str =
    "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources";

/// One delta ADS stream.
#[derive(Debug)]
pub(super) struct Probe {
    requests: mpsc::UnboundedSender<DeltaDiscoveryRequest>,
    responses: Streaming<DeltaDiscoveryResponse>,
}

impl Probe {
    /// Opens the stream and subscribes to every cluster.
    pub(super) async fn connect(address: &str) -> Result<Self, String> {
        let endpoint = Endpoint::from_shared(format!("http://{address}")).map_err(text)?;
        let channel = endpoint.connect().await.map_err(text)?;
        let mut grpc = Grpc::new(channel).max_decoding_message_size(usize::MAX);
        let (requests, queue) = mpsc::unbounded_channel();
        let first = DeltaDiscoveryRequest {
            node: Some(oxds_types::discovery::Node {
                id: "bench".to_owned(),
                ..Default::default()
            }),
            type_url: CLUSTER.to_owned(),
            resource_names_subscribe: vec!["*".to_owned()],
            ..Default::default()
        };
        requests.send(first).map_err(text)?;
        grpc.ready().await.map_err(text)?;
        let responses = grpc
            .streaming(
                tonic::Request::new(tokio_stream::wrappers::UnboundedReceiverStream::new(queue)),
                PathAndQuery::from_static(DELTA_ADS),
                tonic_prost::ProstCodec::default(),
            )
            .await
            .map_err(text)?
            .into_inner();
        Ok(Self {
            requests,
            responses,
        })
    }

    /// Reads until `clusters` resources have arrived.
    pub(super) async fn sync(&mut self, clusters: usize) -> Result<(), String> {
        let mut held = 0;
        while held < clusters {
            held += self.next_change().await?;
        }
        Ok(())
    }

    /// Reads one response, acknowledges it and returns its number of resources.
    pub(super) async fn next_change(&mut self) -> Result<usize, String> {
        let response = self.next().await?;
        let resources = response.resources.len();
        self.acknowledge(response)?;
        Ok(resources)
    }

    /// Reads one response.
    pub(super) async fn next(&mut self) -> Result<DeltaDiscoveryResponse, String> {
        let response = self.responses.message().await.map_err(text)?;
        response.ok_or_else(|| "the stream ended".to_owned())
    }

    /// Acknowledges a response.
    pub(super) fn acknowledge(&self, response: DeltaDiscoveryResponse) -> Result<(), String> {
        let ack = DeltaDiscoveryRequest {
            type_url: response.type_url,
            response_nonce: response.nonce,
            ..Default::default()
        };
        self.requests.send(ack).map_err(text)
    }

    /// Reads until `clusters` resources have arrived: their versions by name, and their bytes.
    pub(super) async fn versions(
        &mut self,
        clusters: usize,
    ) -> Result<(HashMap<String, String>, u64), String> {
        let mut versions = HashMap::new();
        let mut bytes = 0;
        while versions.len() < clusters {
            let response = self.next().await?;
            for resource in &response.resources {
                bytes += resource.encoded_len() as u64;
                versions.insert(resource.name.clone(), resource.version.clone());
            }
            self.acknowledge(response)?;
        }
        Ok((versions, bytes))
    }
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
