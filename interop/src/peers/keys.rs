//! Choice of a backend by a hash key, as each client makes it.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use oxds_channel::XdsChannel;

use super::channel;
use super::grpc::Grpc;
use crate::backend::METHOD;
use crate::config::LISTENER;
use crate::process::Process;
use crate::{Context, Fallible, http};

/// Header that carries the key of a call.
pub(crate) const HEADER: &str = "x-key";
/// Time for all calls of a program, on a busy machine.
const LIMIT: Duration = Duration::from_secs(90);
/// Number of differences that an error shows.
const SHOWN: usize = 5;

/// The backend that answered for each key: 0, 1, 2, ….
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Choices(Vec<String>);

impl Choices {
    /// A fresh client in another language, which calls `xds:///shop` once for each key.
    pub(crate) async fn by_grpc(
        cx: &Context,
        grpc: Grpc,
        bootstrap: &Path,
        keys: usize,
    ) -> Fallible<Self> {
        let mut command = grpc.command(cx, bootstrap, &format!("xds:///{LISTENER}"));
        command.args(["keys", &keys.to_string()]);
        let mut process = Process::spawn(grpc.name(), command, &cx.dir, |_| ())?;
        process.line("done", LIMIT).await?;
        if let Some(failure) = process.find("err ") {
            return Err(format!("{}: a call failed: {failure}", grpc.name()).into());
        }
        let mut choices = vec![String::new(); keys];
        for line in process.all("key ") {
            let (key, backend) = line.split_once(' ').ok_or("a line without a backend")?;
            let choice = choices.get_mut(key.parse::<usize>()?);
            backend.clone_into(choice.ok_or("a key that is too large")?);
        }
        Ok(Self(choices))
    }

    /// Our channel, which may be in use already.
    pub(crate) async fn by_channel(channel: &mut XdsChannel, keys: usize) -> Fallible<Self> {
        let mut choices = Vec::with_capacity(keys);
        for key in 0..keys {
            let key = key.to_string();
            let answer = channel::call_with(channel, METHOD, &[(HEADER, &key)]).await?;
            choices.push(answer.map_err(|failure| format!("oxds: key {key}: {failure}"))?);
        }
        Ok(Self(choices))
    }

    /// Envoy, through its listener.
    pub(crate) async fn by_envoy(listener: SocketAddr, keys: usize) -> Fallible<Self> {
        let keys = (0..keys).map(|key| key.to_string());
        Ok(Self(http::ask_each(listener, HEADER, keys).await?))
    }

    /// Number of keys that this backend has.
    pub(crate) fn at(&self, backend: &str) -> usize {
        self.0.iter().filter(|choice| *choice == backend).count()
    }

    /// Returns an error with examples unless both have the same backend for each key, but for at most `allowed` keys.
    pub(crate) fn expect_same(&self, client: &str, other: &Self, allowed: usize) -> Fallible {
        let pairs = self.0.iter().zip(&other.0).enumerate();
        let different: Vec<_> = pairs.filter(|(_, (ours, theirs))| ours != theirs).collect();
        if different.len() <= allowed && self.0.len() == other.0.len() {
            return Ok(());
        }
        let shown = different.iter().take(SHOWN);
        let shown: Vec<_> = shown
            .map(|(key, (ours, theirs))| format!("key {key}: oxds {ours}, {client} {theirs}"))
            .collect();
        let count = different.len();
        Err(format!("{count} keys differ: {}", shown.join("; ")).into())
    }

    /// Returns an error if many keys moved that were not at the backend which left. The sizes of the shares are
    /// rounded, so some others may move.
    pub(crate) fn expect_few_others_moved(&self, left: &str, after: &Self) -> Fallible {
        let pairs = self.0.iter().zip(&after.0);
        let others = pairs.filter(|(before, after)| before != after && *before != left);
        match others.count() {
            moved if moved * 100 <= self.0.len() => Ok(()),
            moved => Err(format!("{moved} keys moved that were not at {left}").into()),
        }
    }
}
