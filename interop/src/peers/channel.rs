//! Our own client side: calls through an `XdsChannel`, in the runner's process.

use std::path::Path;
use std::time::Duration;

use bytes::{Buf, Bytes};
use http::{Request, Response, header};
use http_body_util::{BodyExt, Full};
use oxds_channel::{Bootstrap, ClientPool, ResponseBody, XdsChannel};
use tokio::task::JoinSet;
use tonic::{Code, Status};
use tower_service::Service as _;

use crate::Fallible;
use crate::backend::METHOD;
use crate::calls::{Calls, Outcome};
use crate::config::LISTENER;

/// Pause between two calls of one worker: near 300 a second, which two cores can serve beside the rest.
const PAUSE: Duration = Duration::from_millis(3);
/// Longer than any wait that the scenarios cause on purpose: a call that takes this long is lost.
const DEADLINE: &str = "15S";

/// Calls `xds:///shop` until dropped.
#[derive(Debug)]
pub(crate) struct ChannelLoad {
    pub(crate) calls: Calls,
    _workers: JoinSet<()>,
}

impl ChannelLoad {
    /// Calls in progress at once.
    pub(crate) const WORKERS: usize = 3;

    /// Starts with the bootstrap file.
    pub(crate) fn start(bootstrap: &Path) -> Fallible<Self> {
        Self::start_with(Bootstrap::from_json(&std::fs::read_to_string(bootstrap)?)?)
    }

    /// The same, with a bootstrap that no file can express.
    pub(crate) fn start_with(bootstrap: Bootstrap) -> Fallible<Self> {
        Self::start_by(ClientPool::new(bootstrap))
    }

    /// The same, with other client options.
    pub(crate) fn start_by(clients: ClientPool) -> Fallible<Self> {
        let channel = open_by(clients, LISTENER)?;
        let calls = Calls::default();
        let workers = (0..Self::WORKERS)
            .map(|_| work(channel.clone(), calls.clone()))
            .collect();
        Ok(Self {
            calls,
            _workers: workers,
        })
    }
}

pub(super) async fn work(mut channel: XdsChannel, calls: Calls) {
    loop {
        let outcome = call(&mut channel, METHOD)
            .await
            .unwrap_or_else(|error| Err(error.to_string()));
        calls.record(outcome);
        tokio::time::sleep(PAUSE).await;
    }
}

/// Calls as one session: with the last cookie that a response has set, `cookie` at first. `set` sees each new cookie.
pub(super) async fn keep_session(
    mut channel: XdsChannel,
    calls: Calls,
    mut cookie: String,
    set: impl Fn(&str),
) {
    loop {
        let response = send(&mut channel, METHOD, &[("cookie", &cookie)]).await;
        let outcome = match response {
            Err(error) => Err(error.to_string()),
            Ok(response) => {
                let value = response.headers().get(header::SET_COOKIE);
                let new = value.and_then(|value| value.to_str().ok()?.split(';').next());
                if let Some(new) = new {
                    new.clone_into(&mut cookie);
                    set(&cookie);
                }
                let outcome = outcome(response).await;
                outcome.unwrap_or_else(|error| Err(error.to_string()))
            }
        };
        calls.record(outcome);
        tokio::time::sleep(PAUSE).await;
    }
}

/// A channel of a bootstrap file that makes calls only on request.
pub(super) fn open_file(bootstrap: &Path) -> Fallible<XdsChannel> {
    open(Bootstrap::from_json(&std::fs::read_to_string(bootstrap)?)?)
}

/// A channel that makes calls only on request.
pub(crate) fn open(bootstrap: Bootstrap) -> Fallible<XdsChannel> {
    open_by(ClientPool::new(bootstrap), LISTENER)
}

/// The same for another listener, with an xDS client of its own.
pub(crate) fn open_target(bootstrap: Bootstrap, listener: &str) -> Fallible<XdsChannel> {
    open_by(ClientPool::new(bootstrap), listener)
}

fn open_by(clients: ClientPool, listener: &str) -> Fallible<XdsChannel> {
    Ok(XdsChannel::builder(format!("xds:///{listener}"))
        .clients(clients)
        .build()?)
}

/// Makes one call of a method.
pub(crate) async fn call(channel: &mut XdsChannel, method: &str) -> Fallible<Outcome> {
    call_with(channel, method, &[]).await
}

/// The same with more headers.
pub(crate) async fn call_with(
    channel: &mut XdsChannel,
    method: &str,
    headers: &[(&str, &str)],
) -> Fallible<Outcome> {
    outcome(send(channel, method, headers).await?).await
}

async fn send(
    channel: &mut XdsChannel,
    method: &str,
    headers: &[(&str, &str)],
) -> Fallible<Response<ResponseBody>> {
    let mut request = Request::post(method);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request
        .header(header::CONTENT_TYPE, "application/grpc")
        .header(header::TE, "trailers")
        .header("grpc-timeout", DEADLINE)
        .body(Full::new(Bytes::from_static(&[0; 5])))?;
    let Ok(response) = channel.call(request).await;
    Ok(response)
}

/// Returns the message if the status, in the trailers or in the headers, is OK.
async fn outcome(response: Response<ResponseBody>) -> Fallible<Outcome> {
    let headers = response.headers().clone();
    let body = response.into_body().collect().await?;
    let trailers = body.trailers().cloned().unwrap_or_default();
    let status = Status::from_header_map(&trailers).or_else(|| Status::from_header_map(&headers));
    let status = status.ok_or("no grpc-status")?;
    if status.code() != Code::Ok {
        let text = format!("{} {}", status.code() as i32, status.message());
        return Ok(Err(text));
    }
    let mut message = body.to_bytes();
    message.advance(message.len().min(5));
    Ok(Ok(String::from_utf8_lossy(&message).into_owned()))
}
