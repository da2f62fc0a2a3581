//! The client: watches resources of one data-plane target, by one task per server.

mod mailbox;
mod pool;
mod route;
mod stream;
mod task;
mod watch;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use oxds_core::ads::{self, Client};
use oxds_core::resource::View;
use oxds_types::Kind;
use tokio::runtime::Handle;
use tokio::sync::mpsc;

pub use pool::ClientPool;
pub use watch::{RawWatch, Update, Watch};

use crate::bootstrap::{Bootstrap, Server};
use mailbox::Mailbox;
use task::{Command, Task};

/// Watches resources by way of control planes: a name of an authority that has servers of its own comes from there, any
/// other from the top-level servers (gRFC A47). Clones share one connection per server; it is made when the first
/// watch begins, and closed when the last one ends (C-63).
///
/// # Cancel safety
/// Dropping the last clone and the last watch ends the client's tasks and closes its sockets.
#[derive(Debug, Clone)]
pub struct XdsClient {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    bootstrap: Arc<Bootstrap>,
    runtime: Handle,
    /// Authorities whose servers are defined alike share a stream (C-46).
    tasks: Mutex<HashMap<Server, Commands>>,
}

type Commands = mpsc::UnboundedSender<Command>;

impl XdsClient {
    /// A client of the bootstrap's servers; of each list, the first (fallback is yet to come).
    ///
    /// # Panics
    /// Outside a tokio runtime.
    #[must_use]
    pub fn new(bootstrap: Arc<Bootstrap>) -> Self {
        let inner = Inner {
            bootstrap,
            runtime: Handle::current(),
            tasks: Mutex::default(),
        };
        if inner.bootstrap.servers().len() > 1 {
            tracing::warn!(target: "oxds::ads", "the first server alone is asked: there is no fallback yet");
        }
        // From the start, so that `is_alive` tells of the runtime.
        if let Some(server) = inner.bootstrap.servers().first() {
            inner.task(server);
        }
        Self {
            inner: Arc::new(inner),
        }
    }

    /// What the client was made of.
    #[must_use]
    pub fn bootstrap(&self) -> &Arc<Bootstrap> {
        &self.inner.bootstrap
    }

    /// Watches one resource of a kind that has a view.
    #[must_use]
    pub fn watch<T: View>(&self, name: impl Into<Arc<str>>) -> Watch<T> {
        Watch::new(self.watch_raw(T::KIND, name))
    }

    /// Watches one resource of any kind.
    #[must_use]
    pub fn watch_raw(&self, kind: Kind, name: impl Into<Arc<str>>) -> RawWatch {
        let mut watches = self.watches();
        let name = name.into();
        watches.add(&kind, &name);
        RawWatch::new(watches, kind, name)
    }

    /// A mailbox for any number of watches.
    pub(crate) fn watches(&self) -> Watches {
        Watches {
            client: self.clone(),
            mailbox: Arc::default(),
            watched: Vec::new(),
        }
    }
}

impl Inner {
    /// The task of a server, which begins with the first watch.
    fn task(&self, server: &Server) -> Commands {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(commands) = tasks.get(server) {
            return commands.clone();
        }
        let (commands, queue) = mpsc::unbounded_channel();
        let mut config = ads::Config::new(server.uri.as_str(), self.bootstrap.node().clone());
        config.ignore_resource_deletion = server.features.ignore_resource_deletion;
        let task = Task::new(server.clone(), Client::new(config), queue);
        self.runtime.spawn(task.run());
        tasks.insert(server.clone(), commands.clone());
        commands
    }

    /// Whether the runtime that it was made in still runs its tasks.
    fn is_alive(&self) -> bool {
        let tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        !tasks.values().any(mpsc::UnboundedSender::is_closed)
    }
}

/// Any number of watches that are read in one place. Dropping it ends them.
#[derive(Debug)]
pub(crate) struct Watches {
    client: XdsClient,
    mailbox: Arc<Mailbox>,
    watched: Vec<Watched>,
}

#[derive(Debug)]
struct Watched {
    kind: Kind,
    name: Arc<str>,
    commands: Commands,
}

impl Watches {
    pub(crate) fn add(&mut self, kind: &Kind, name: &Arc<str>) {
        let (kind, name) = (kind.clone(), Arc::clone(name));
        let inner = &self.client.inner;
        match route::server(&inner.bootstrap, &kind, &name) {
            Ok(server) => {
                let commands = inner.task(server);
                let watch = Command::Watch(kind.clone(), Arc::clone(&name), self.mailbox());
                if commands.send(watch).is_err() {
                    // Its runtime is gone; nothing will come.
                    self.mailbox.close();
                }
                self.watched.push(Watched {
                    kind,
                    name,
                    commands,
                });
            }
            Err(error) => self.mailbox.put(ads::Event::Changed {
                kind,
                name,
                resource: Err(error),
            }),
        }
    }

    pub(crate) fn remove(&mut self, kind: &Kind, name: &Arc<str>) {
        let is_it = |watched: &Watched| watched.kind == *kind && watched.name == *name;
        if let Some(index) = self.watched.iter().position(is_it) {
            let watched = self.watched.swap_remove(index);
            self.end(watched);
        }
        self.mailbox.forget(kind, name);
    }

    fn end(&self, watched: Watched) {
        let Watched {
            kind,
            name,
            commands,
        } = watched;
        // A task that is gone has nothing to end.
        let _ = commands.send(Command::Unwatch(kind, name, self.mailbox()));
    }

    fn mailbox(&self) -> Arc<Mailbox> {
        Arc::clone(&self.mailbox)
    }

    /// The next word on any of them; `None` when the client is gone. Cancel-safe.
    pub(crate) async fn next(&self) -> Option<ads::Event> {
        self.mailbox.next().await
    }

    /// A word that is there already.
    pub(crate) fn take(&self) -> Option<ads::Event> {
        self.mailbox.take()
    }
}

impl Drop for Watches {
    fn drop(&mut self) {
        for watched in std::mem::take(&mut self.watched) {
            self.end(watched);
        }
    }
}
