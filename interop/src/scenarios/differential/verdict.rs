//! The control plane of one client: it serves each target a configuration of its own, and records the client's answer.
//!
//! A target has an ADS stream of its own in every gRPC client (gRFC A71), so that its answers concern one
//! configuration.

use std::collections::BTreeSet;
use std::sync::Arc;

use oxds_testkit::{AdsStream, ControlPlane, Missed};
use oxds_types::ResourceType;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::generate::Configuration;
use crate::Fallible;

/// The answer to a configuration: `None` for an ACK, else the reason of the NACK.
pub(super) type Verdict = Option<String>;

/// A control plane for the targets `PREFIX000`, `PREFIX001`, ….
#[derive(Debug)]
pub(super) struct Judge {
    pub(super) address: std::net::SocketAddr,
    verdicts: mpsc::UnboundedReceiver<(usize, Verdict)>,
    _streams: JoinSet<()>,
}

/// Name of a target.
pub(super) fn target(index: usize) -> String {
    format!("{PREFIX}{index:03}")
}

/// Name of all targets, before their number.
pub(super) const PREFIX: &str = "case-";

impl Judge {
    /// Serves these configurations; the target with number `n` gets the `n`th one.
    pub(super) async fn start(configurations: Arc<[Configuration]>) -> Fallible<Self> {
        let plane = ControlPlane::start().await?;
        let address = plane.address();
        let (sender, verdicts) = mpsc::unbounded_channel();
        let mut streams = JoinSet::new();
        streams.spawn(async move {
            let mut open = JoinSet::new();
            loop {
                match plane.next_stream().await {
                    Ok(stream) => {
                        open.spawn(serve(stream, Arc::clone(&configurations), sender.clone()));
                    }
                    Err(Missed::Late) => {}
                    Err(Missed::Ended) => return,
                }
            }
        });
        Ok(Self {
            address,
            verdicts,
            _streams: streams,
        })
    }

    /// Waits for the next verdict about a configuration, with its number.
    pub(super) async fn next(&mut self) -> Fallible<(usize, Verdict)> {
        let next = self.verdicts.recv().await;
        next.ok_or_else(|| "the control plane has ended".into())
    }
}

/// Serves one stream to its end.
async fn serve(
    mut stream: AdsStream,
    configurations: Arc<[Configuration]>,
    verdicts: mpsc::UnboundedSender<(usize, Verdict)>,
) {
    let mut configuration: Option<(usize, &Configuration)> = None;
    let mut sent: BTreeSet<(ResourceType, Vec<String>)> = BTreeSet::new();
    let mut judged = None;
    loop {
        let request = match stream.request().await {
            Ok(request) => request,
            Err(Missed::Late) => continue,
            Err(Missed::Ended) => return,
        };
        let Some((resource_type, _)) = ResourceType::from_type_url(&request.type_url) else {
            continue;
        };
        if configuration.is_none() && resource_type == ResourceType::LISTENER {
            let name = request.resource_names.first();
            let number = name.and_then(|name| name.strip_prefix(PREFIX)?.parse().ok());
            configuration = number.and_then(|number| Some((number, configurations.get(number)?)));
        }
        let Some((number, wanted)) = configuration else {
            continue;
        };
        if judged.as_ref() == Some(&request.response_nonce) {
            judged = None;
            let verdict = request.error_detail.map(|detail| detail.message);
            // The scenario may have ended.
            let _ = verdicts.send((number, verdict));
        }
        let Some(resource) = wanted.resources.get(&resource_type) else {
            continue;
        };
        let mut names = request.resource_names;
        names.sort();
        let is_first = !sent.iter().any(|(sent, _)| *sent == resource_type);
        if names.is_empty() || !sent.insert((resource_type.clone(), names)) {
            continue;
        }
        stream.respond(&resource_type, "1", vec![resource.clone()]);
        if is_first && resource_type == wanted.changed {
            judged = stream.last_nonce().map(str::to_owned);
        }
    }
}
