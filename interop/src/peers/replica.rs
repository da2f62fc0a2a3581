//! Replicas: `oxds serve --etcd`, and `oxds publish`, which changes their resources.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use serde_json::Value;
use tokio::process::{Child, Command};

use super::clock::Clock;
use super::oxds::Oxds;
use crate::wait::until;
use crate::{Context, Fallible, http};

/// Deadline of a publish, for a busy machine.
const PUBLISH: Duration = Duration::from_secs(100);

/// A replica, with the arguments to start it again on its addresses.
#[derive(Debug)]
pub(crate) struct Replica {
    cx: Context,
    urls: String,
    pub(crate) id: String,
    options: Vec<OsString>,
    pub(crate) grpc: SocketAddr,
    pub(crate) http: SocketAddr,
    oxds: Option<Oxds>,
    clock: Option<Clock>,
}

impl Replica {
    /// Starts a replica without a state on disk.
    pub(crate) async fn start(cx: &Context, urls: &str, id: &str) -> Fallible<Self> {
        Self::start_with(cx, urls, id, &[]).await
    }

    /// Starts a replica with a state on disk.
    pub(crate) async fn with_state(cx: &Context, urls: &str, id: &str) -> Fallible<Self> {
        let state = cx.dir.join(format!("{id}.state"));
        Self::start_with(cx, urls, id, &["--state".into(), state.into()]).await
    }

    /// Starts a replica with more options.
    pub(crate) async fn start_with(
        cx: &Context,
        urls: &str,
        id: &str,
        options: &[OsString],
    ) -> Fallible<Self> {
        let mut replica = Self::new(cx, urls, id, options)?;
        replica.restart().await?;
        Ok(replica)
    }

    /// Starts a replica with a state on disk, and by a clock of its own.
    pub(crate) async fn by_clock(
        cx: &Context,
        urls: &str,
        id: &str,
        clock: Clock,
    ) -> Fallible<Self> {
        let state = cx.dir.join(format!("{id}.state"));
        let mut replica = Self::new(cx, urls, id, &["--state".into(), state.into()])?;
        replica.clock = Some(clock);
        replica.restart().await?;
        Ok(replica)
    }

    fn new(cx: &Context, urls: &str, id: &str, options: &[OsString]) -> Fallible<Self> {
        Ok(Self {
            cx: cx.clone(),
            urls: urls.to_owned(),
            id: id.to_owned(),
            options: options.to_vec(),
            grpc: cx.address()?,
            http: cx.address()?,
            oxds: None,
            clock: None,
        })
    }

    /// Deletes the state on disk. The replica does not run.
    pub(crate) fn forget(&self) -> Fallible {
        let state = self.cx.dir.join(format!("{}.state", self.id));
        Ok(std::fs::remove_dir_all(state)?)
    }

    /// The clock of its own.
    pub(crate) fn clock(&self) -> Fallible<&Clock> {
        let clock = self.clock.as_ref();
        clock.ok_or_else(|| format!("{} has no clock of its own", self.id).into())
    }

    /// Starts it (again) on its addresses.
    pub(crate) async fn restart(&mut self) -> Fallible {
        let mut arguments: Vec<OsString> = ["--etcd", &self.urls, "--replica", &self.id]
            .map(OsString::from)
            .to_vec();
        arguments.extend(self.options.iter().cloned());
        let (name, addresses) = (&self.id, (self.grpc, self.http));
        let clock = self.clock.as_ref();
        let oxds = Oxds::serve_as(&self.cx, name, &arguments, addresses, clock);
        self.oxds = Some(oxds.await?);
        Ok(())
    }

    /// Sends SIGKILL and waits for the end.
    pub(crate) async fn kill(&mut self) -> Fallible {
        match self.oxds.take() {
            Some(oxds) => oxds.kill().await,
            None => Ok(()),
        }
    }

    /// The running server.
    pub(crate) fn oxds(&self) -> Fallible<&Oxds> {
        let stopped = || format!("{} does not run", self.id);
        self.oxds.as_ref().ok_or_else(|| stopped().into())
    }

    /// The status page.
    pub(crate) async fn status(&self) -> Fallible<Value> {
        let page = http::get(self.http, "/status.json").await?;
        Ok(serde_json::from_slice(&page)?)
    }

    /// The part of the status page about the store.
    pub(crate) async fn store(&self) -> Fallible<Value> {
        Ok(self.status().await?["store"].take())
    }

    /// Number of its clients.
    pub(crate) async fn clients(&self) -> Fallible<u64> {
        let clients = self.status().await?["page"]["clients"].as_u64();
        clients.ok_or_else(|| "no number of clients".into())
    }

    /// Waits until that part is like this, and returns it.
    pub(crate) async fn shows(
        &self,
        what: &str,
        limit: Duration,
        is_so: impl Fn(&Value) -> bool,
    ) -> Fallible<Value> {
        let what = format!("{}: {what}", self.id);
        until(&what, limit, async || {
            let store = self.store().await?;
            if is_so(&store) {
                Ok(Some(store))
            } else {
                Err(store.to_string().into())
            }
        })
        .await
    }

    /// Waits until it follows etcd and serves this publish of the lane `main`.
    pub(crate) async fn serves(&self, seq: u64, limit: Duration) -> Fallible {
        let is_served =
            |store: &Value| store["connected"] == true && store["lanes"][0]["seq"] == seq;
        let what = format!("publish {seq}");
        self.shows(&what, limit, is_served).await.map(drop)
    }

    /// Waits until a finding of this rule has all these texts.
    pub(crate) async fn finds(&self, rule: &str, texts: &[&str], limit: Duration) -> Fallible {
        let what = format!("a finding {rule} with {texts:?}");
        let is_it = |finding: &Value| {
            let text = finding.to_string();
            finding["rule"] == rule && texts.iter().all(|part| text.contains(part))
        };
        let shown = self.shows(&what, limit, |store| findings(store).any(is_it));
        shown.await.map(drop)
    }

    /// Waits until no finding of this rule is left.
    pub(crate) async fn finds_no(&self, rule: &str, limit: Duration) -> Fallible {
        let is_gone = |store: &Value| findings(store).all(|finding| finding["rule"] != rule);
        let what = format!("no finding {rule}");
        self.shows(&what, limit, is_gone).await.map(drop)
    }

    /// Waits until `/readyz` has this answer.
    pub(crate) async fn is_ready(&self, expected: bool, limit: Duration) -> Fallible {
        let what = format!("{}: ready: {expected}", self.id);
        until(&what, limit, async || {
            let is_ready = match http::get(self.http, "/readyz").await {
                Ok(_) => true,
                Err(error) if error.to_string().contains(": 503 ") => false,
                Err(error) => return Err(error),
            };
            Ok((is_ready == expected).then_some(()))
        })
        .await
    }

    /// Waits for a line of its log with all these texts.
    pub(crate) async fn logs(&self, texts: &[&str], limit: Duration) -> Fallible {
        self.oxds()?.logs(texts, limit).await
    }
}

/// The findings of a store in `/status.json`.
pub(crate) fn findings(store: &Value) -> impl Iterator<Item = &Value> {
    store["findings"].as_array().into_iter().flatten()
}

/// End of a command, with both its streams.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) text: String,
}

impl Ended {
    /// Fails unless the exit code is this one and the output has all these texts.
    pub(crate) fn expect(&self, code: i32, texts: &[&str]) -> Fallible {
        let missing = texts.iter().find(|text| !self.text.contains(**text));
        match (self.status.code() == Some(code), missing) {
            (true, None) => Ok(()),
            _ => Err(format!(
                "{}, expected {code} and {texts:?}:\n{}",
                self.status, self.text
            )
            .into()),
        }
    }
}

/// `oxds publish` of a folder, with more options.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Publish<'a> {
    pub(crate) cx: &'a Context,
    pub(crate) urls: &'a str,
    pub(crate) folder: &'a Path,
    pub(crate) options: &'a [&'a str],
}

impl Publish<'_> {
    /// Begins it. Dropping the process kills it.
    pub(crate) fn begin(self) -> Fallible<Child> {
        let mut command = Command::new(&self.cx.programs.oxds);
        command.arg("publish").arg(self.folder);
        command.args(["--etcd", self.urls]).args(self.options);
        command.stdin(Stdio::null()).kill_on_drop(true);
        Ok(command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?)
    }

    /// Does it, whatever the result.
    pub(crate) async fn run(self) -> Fallible<Ended> {
        ended(self.begin()?).await
    }

    /// Does it, and fails unless it succeeds with these texts in its output.
    pub(crate) async fn succeeds(self, texts: &[&str]) -> Fallible {
        self.run().await?.expect(0, texts)
    }
}

/// Waits for the end of a command.
pub(crate) async fn ended(child: Child) -> Fallible<Ended> {
    let output = tokio::time::timeout(PUBLISH, child.wait_with_output()).await;
    let output = output.map_err(|_| format!("not ended within {PUBLISH:?}"))??;
    let text = [output.stdout, output.stderr].concat();
    Ok(Ended {
        status: output.status,
        text: String::from_utf8_lossy(&text).into_owned(),
    })
}
