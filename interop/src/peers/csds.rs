//! A reader of CSDS that uses gRPC's own generated stubs.

use std::net::SocketAddr;

use serde_json::Value;
use tokio::process::Command;

use crate::process::output;
use crate::{Context, Fallible};

/// Returns this node's resources as the control plane at `server` reports them (`peers/python/csds.py`), sorted by type
/// and name.
pub(crate) async fn read(cx: &Context, server: SocketAddr, node: &str) -> Fallible<Vec<Seen>> {
    let mut command = Command::new(&cx.programs.python.interpreter);
    command.arg(&cx.programs.python.csds);
    command.args([&server.to_string(), node]);
    let text = String::from_utf8(output(command).await?)?;
    let mut seen: Vec<_> = text.lines().map(Seen::parse).collect::<Fallible<_>>()?;
    seen.sort_by(|a, b| (&a.kind, &a.name).cmp(&(&b.kind, &b.name)));
    Ok(seen)
}

/// One resource of one client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) node: String,
    /// The message's short name: `Cluster`.
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) version: String,
    /// `SYNCED`, `STALE`, `NOT_SENT` or `ERROR`.
    pub(crate) status: String,
    /// `ACKED`, `NACKED`, …
    pub(crate) client: String,
    /// Short name of the message that is shown as the content; empty without content.
    pub(crate) content: String,
    /// Reason of the client's NACK.
    pub(crate) reason: String,
}

impl Seen {
    fn parse(line: &str) -> Fallible<Self> {
        let value: Value = serde_json::from_str(line)?;
        let short = |field: &str| {
            let text = value[field].as_str().unwrap_or_default();
            text.rsplit('.').next().unwrap_or_default().to_owned()
        };
        let text = |field: &str| value[field].as_str().unwrap_or_default().to_owned();
        Ok(Self {
            node: text("node"),
            kind: short("type"),
            name: text("name"),
            version: text("version"),
            status: text("status"),
            client: text("client"),
            content: short("content"),
            reason: text("reason"),
        })
    }
}
