//! The client: watches resources of one data-plane target.

mod mailbox;
mod pool;
mod stream;
mod task;
mod watch;

use std::sync::Arc;

use oxds_core::ads::{self, Client};
use oxds_core::resource::View;
use oxds_types::Kind;
use tokio::sync::mpsc;

pub use pool::ClientPool;
pub use watch::{RawWatch, Update, Watch};

use crate::bootstrap::Bootstrap;
use mailbox::Mailbox;
use task::{Command, Task};

/// Watches resources by way of a control plane. Clones share one connection; it is made when the first watch
/// begins, and closed when the last one ends (C-63).
///
/// # Cancel safety
/// Dropping the last clone and the last watch ends the client's task and closes its socket.
#[derive(Debug, Clone)]
pub struct XdsClient {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    bootstrap: Arc<Bootstrap>,
    commands: mpsc::UnboundedSender<Command>,
}

impl XdsClient {
    /// A client of the bootstrap's first server. Must be called in a tokio runtime.
    #[must_use]
    pub fn new(bootstrap: Arc<Bootstrap>) -> Self {
        let (commands, queue) = mpsc::unbounded_channel();
        if let Some(server) = bootstrap.servers().first() {
            let mut config = ads::Config::new(server.uri.as_str(), bootstrap.node().clone());
            config.ignore_resource_deletion = server.features.ignore_resource_deletion;
            let task = Task::new(server.clone(), Client::new(config), queue);
            tokio::spawn(task.run());
        }
        Self {
            inner: Arc::new(Inner {
                bootstrap,
                commands,
            }),
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

/// Any number of watches that are read in one place. Dropping it ends them.
#[derive(Debug)]
pub(crate) struct Watches {
    client: XdsClient,
    mailbox: Arc<Mailbox>,
    watched: Vec<(Kind, Arc<str>)>,
}

impl Watches {
    pub(crate) fn add(&mut self, kind: &Kind, name: &Arc<str>) {
        self.watched.push((kind.clone(), Arc::clone(name)));
        self.send(Command::Watch(
            kind.clone(),
            Arc::clone(name),
            Arc::clone(&self.mailbox),
        ));
    }

    pub(crate) fn remove(&mut self, kind: &Kind, name: &Arc<str>) {
        let watched = self
            .watched
            .iter()
            .position(|(k, n)| k == kind && n == name);
        if let Some(index) = watched {
            self.watched.swap_remove(index);
            self.send(Command::Unwatch(
                kind.clone(),
                Arc::clone(name),
                Arc::clone(&self.mailbox),
            ));
            self.mailbox.forget(kind, name);
        }
    }

    /// The next word on any of them; `None` when the client is gone. Cancel-safe.
    pub(crate) async fn next(&self) -> Option<ads::Event> {
        self.mailbox.next().await
    }

    /// A word that is there already.
    pub(crate) fn take(&self) -> Option<ads::Event> {
        self.mailbox.take()
    }

    fn send(&self, command: Command) {
        // The task runs as long as a handle is held, and we hold one.
        if self.client.inner.commands.send(command).is_err() {
            self.mailbox.close();
        }
    }
}

impl Drop for Watches {
    fn drop(&mut self) {
        for (kind, name) in std::mem::take(&mut self.watched) {
            self.send(Command::Unwatch(kind, name, Arc::clone(&self.mailbox)));
        }
    }
}
