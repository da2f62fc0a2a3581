//! The clients of each replica: which answers are missing, and which nodes have left (G-37).
//!
//! The status key of a replica has less than 1 KB, so it has only numbers. The clients themselves are read from the
//! replica, at the gRPC address of its key, with the credentials of the command line: with certificates, that port
//! admits operators of other machines.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use oxds_etcd::Segment;
use oxds_etcd::fleet::Fleet;
use serde::Serialize;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::super::args::control_plane::ControlPlaneArgs;
use super::super::control_plane::{ControlPlane, rpc_failed};
use super::super::nodes::missing::{MissingAnswer, missing_answers};
use super::super::nodes::report::{AwayNode, fetch_nodes};
use crate::exit::Failure;
use crate::table::one_line;

/// Time for a replica to list its clients. A replica that has just died must not delay the answers of the others.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Most replicas to request clients of. Anyone who may write status keys could name more.
const MAX_REPLICAS: usize = 100;
/// Missing answers of a replica that are listed.
const MAX_LINES: usize = 100;

/// Reports of the replicas about their clients.
#[derive(Debug, Default)]
pub(super) struct Clients {
    /// By replica: what it reports, or why it does not.
    pub(super) replicas: BTreeMap<Segment, Result<Answers, String>>,
    /// Nodes that were connected within the last two minutes, and are connected to no replica that responded.
    pub(super) away: Vec<AwayNode>,
}

/// Clients of one replica that have not accepted what they are served.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct Answers {
    pub(super) missing: Vec<MissingAnswer>,
    /// Number of missing answers that are not listed.
    pub(super) more: usize,
}

impl Clients {
    /// Asks all live replicas at once.
    pub(super) async fn of(fleet: &Fleet, args: &ControlPlaneArgs) -> Self {
        let mut requests = JoinSet::new();
        for (replica, status) in fleet.replicas.iter().take(MAX_REPLICAS) {
            let (replica, server) = (replica.clone(), server(&status.grpc, args));
            requests.spawn(async move {
                let answer = match server {
                    Ok(args) => timeout(TIMEOUT, ask(&args)).await.unwrap_or_else(|_| {
                        Err(format!("no response from {} in {TIMEOUT:?}", args.server))
                    }),
                    Err(error) => Err(error),
                };
                (replica, answer)
            });
        }
        let mut clients = Self::default();
        let (mut connected, mut away) = (BTreeSet::new(), BTreeMap::new());
        for (replica, answer) in requests.join_all().await {
            let answers = answer.map(|clients_of| {
                connected.extend(clients_of.connected);
                for node in clients_of.away {
                    // The replica that saw it last counts.
                    let known: &mut AwayNode =
                        away.entry(node.id.clone()).or_insert_with(|| node.clone());
                    known.seconds_ago = known.seconds_ago.min(node.seconds_ago);
                }
                clients_of.answers
            });
            clients.replicas.insert(replica, answers);
        }
        let away = away.into_values();
        clients.away = away.filter(|node| !connected.contains(&node.id)).collect();
        clients
    }

    /// Returns a line for each missing answer of a replica.
    pub(super) fn lines(&self, replica: &Segment) -> Vec<String> {
        match self.replicas.get(replica) {
            None => Vec::new(),
            Some(Err(error)) => vec![one_line(&format!(
                "replica {replica}: its clients are not known: {error}"
            ))],
            Some(Ok(answers)) => {
                let lines = answers.missing.iter();
                let mut lines: Vec<_> = lines
                    .map(|answer| one_line(&format!("replica {replica}: {answer}")))
                    .collect();
                if answers.more > 0 {
                    lines.push(format!("replica {replica}: and {} more", answers.more));
                }
                lines
            }
        }
    }

    /// Returns a line for each node that is connected nowhere.
    pub(super) fn away_lines(&self) -> impl Iterator<Item = String> {
        self.away.iter().map(AwayNode::line)
    }
}

struct ReplicaClients {
    answers: Answers,
    connected: Vec<String>,
    away: Vec<AwayNode>,
}

/// Returns the arguments for the replica at this address, with the credentials of the command line.
fn server(address: &str, args: &ControlPlaneArgs) -> Result<ControlPlaneArgs, String> {
    if address.is_empty() {
        return Err("its status key has no address".to_owned());
    }
    args.at(address)
}

async fn ask(args: &ControlPlaneArgs) -> Result<ReplicaClients, String> {
    let text = |failure: Failure| failure.message().to_owned();
    let server = args.server().map_err(text)?;
    let control_plane = ControlPlane::connect(&server).await.map_err(text)?;
    let (connected, away) = fetch_nodes(&control_plane).await.map_err(text)?;
    let missing = missing_answers(&control_plane, None).await;
    let mut missing = missing.map_err(|status| text(rpc_failed(&status)))?;
    let more = missing.len().saturating_sub(MAX_LINES);
    missing.truncate(MAX_LINES);
    Ok(ReplicaClients {
        answers: Answers { missing, more },
        connected,
        away,
    })
}
