//! Clients that keep a session by its cookie, beside calls without a session.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::task::JoinSet;

use super::channel::{self, ChannelLoad};
use super::grpc::Grpc;
use crate::calls::Calls;
use crate::config::LISTENER;
use crate::process::Process;
use crate::{Context, Fallible};

/// A client that calls `xds:///shop` until dropped: the calls of one session, and others.
#[derive(Debug)]
pub(crate) struct SessionLoad {
    /// Calls without a session.
    pub(crate) others: Calls,
    /// Calls of the session.
    pub(crate) session: Calls,
    cookies: Cookies,
    _running: Running,
}

#[derive(Debug)]
#[expect(dead_code, reason = "the load ends when it is dropped")]
enum Running {
    Ours(JoinSet<()>),
    Grpc(Box<Process>),
}

/// Cookies that responses have set, as requests carry them.
#[derive(Clone, Debug, Default)]
struct Cookies(Arc<Mutex<Vec<String>>>);

impl Cookies {
    fn add(&self, cookie: &str) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(cookie.to_owned());
    }

    fn all(&self) -> Vec<String> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl SessionLoad {
    /// Starts our channel. An empty `cookie` begins a session.
    pub(crate) fn by_channel(bootstrap: &Path, cookie: &str) -> Fallible<Self> {
        let channel = channel::open_file(bootstrap)?;
        let (others, session, cookies) = (Calls::default(), Calls::default(), Cookies::default());
        let mut workers = JoinSet::new();
        for _ in 0..ChannelLoad::WORKERS {
            workers.spawn(channel::work(channel.clone(), others.clone()));
        }
        let (record, seen, cookie) = (session.clone(), cookies.clone(), cookie.to_owned());
        let set = move |cookie: &str| seen.add(cookie);
        workers.spawn(channel::keep_session(channel, record, cookie, set));
        Ok(Self {
            others,
            session,
            cookies,
            _running: Running::Ours(workers),
        })
    }

    /// Starts a client in another language; only C-core has sessions.
    pub(crate) fn by_core(cx: &Context, bootstrap: &Path, cookie: &str) -> Fallible<Self> {
        let mut command = Grpc::Core.command(cx, bootstrap, &format!("xds:///{LISTENER}"));
        command.arg("session");
        if !cookie.is_empty() {
            command.arg(cookie);
        }
        let (others, session, cookies) = (Calls::default(), Calls::default(), Cookies::default());
        let (of_others, of_session, seen) = (others.clone(), session.clone(), cookies.clone());
        let each = move |line: &str| {
            if let Some(backend) = line.strip_prefix("ok ") {
                of_others.record(Ok(backend.to_owned()));
            } else if let Some(backend) = line.strip_prefix("session ") {
                of_session.record(Ok(backend.to_owned()));
            } else if let Some(cookie) = line.strip_prefix("cookie ") {
                seen.add(cookie);
            } else if let Some(failure) = line.strip_prefix("err ") {
                // Of either; no call may fail.
                of_session.record(Err(failure.to_owned()));
            }
        };
        let process = Process::spawn("grpc_core_session", command, &cx.dir, each)?;
        Ok(Self {
            others,
            session,
            cookies,
            _running: Running::Grpc(Box::new(process)),
        })
    }

    /// Returns the cookies that responses have set.
    pub(crate) fn cookies(&self) -> Vec<String> {
        self.cookies.all()
    }
}
