//! The client: watches resources of one data-plane target, by one task.

mod dump;
mod feed;
mod journal;
mod mailbox;
mod options;
mod pace;
mod pool;
mod route;
mod shown;
mod sources;
mod stream;
mod task;
mod watch;

use std::sync::Arc;

use oxds_core::ads::{self, Client};
use oxds_core::resource::{ResourceParser, Typed};
use oxds_types::ResourceType;
use tokio::sync::{mpsc, oneshot};

pub(crate) use dump::Dumped;
pub use feed::{Ended, Feed, Io};
pub use options::Options;
pub use pool::ClientPool;
pub(crate) use task::sleep_until;
pub use watch::{RawWatch, Update, Watch, WatchAll};

use crate::bootstrap::Bootstrap;
use crate::load::LoadReporter;
use journal::{Journal, Observers};
use mailbox::Mailbox;
use route::Routes;
use sources::Sources;
use task::{Command, Task, Watched, Watcher};

/// Watches resources by way of control planes: a name of an authority that has servers of its own comes from there, any
/// other from the top-level servers (gRFC A47). Of a list of servers, the first is asked; when it cannot be reached and
/// something has no answer yet, the next, until a more wanted one answers again (gRFC A71). Clones share one connection
/// per server; it is made when the first watch needs it, and closed when the last one ends (C-63).
///
/// # Cancel safety
/// Dropping the last clone and the last watch ends the client's task and closes its sockets.
#[derive(Debug, Clone)]
pub struct XdsClient {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    bootstrap: Arc<Bootstrap>,
    options: Options,
    observers: Observers,
    routes: Routes,
    commands: mpsc::UnboundedSender<Command>,
    loads: LoadReporter,
    sources: Sources,
}

impl XdsClient {
    /// A client of the bootstrap's servers, with gRPC's defaults.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    #[must_use]
    pub fn new(bootstrap: Arc<Bootstrap>) -> Self {
        Self::with_options(bootstrap, Options::default())
    }

    /// A client of the bootstrap's servers.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    #[must_use]
    pub fn with_options(bootstrap: Arc<Bootstrap>, options: Options) -> Self {
        Self::observed(bootstrap, options, Observers::default())
    }

    /// A client that somebody looks at.
    fn observed(bootstrap: Arc<Bootstrap>, options: Options, observers: Observers) -> Self {
        let plan = route::plan(&bootstrap, &options);
        Self::start(bootstrap, options, observers, plan)
    }

    fn start(
        bootstrap: Arc<Bootstrap>,
        options: Options,
        observers: Observers,
        (config, peers, routes): route::Plan,
    ) -> Self {
        let (commands, queue) = mpsc::unbounded_channel();
        let loads = {
            let servers = peers
                .iter()
                .filter_map(|(id, peer)| Some((*id, peer.grpc_server()?)));
            LoadReporter::new(servers, &bootstrap, &options)
        };
        let feeds = peers.into_iter().map(|(id, peer)| {
            let feed = Feed::of(peer, &bootstrap.node, &options);
            (id, feed)
        });
        let feeds: Vec<_> = feeds.collect();
        let journal = Journal::new(&feeds, observers.clone());
        let patience = options.patience_with_watchers;
        tokio::spawn(Task::new(feeds, Client::new(config), queue, patience, journal).run());
        Self {
            inner: Arc::new(Inner {
                bootstrap,
                options,
                observers,
                routes,
                commands,
                loads,
                sources: Sources::default(),
            }),
        }
    }

    /// What the client was made of.
    #[must_use]
    pub fn bootstrap(&self) -> &Arc<Bootstrap> {
        &self.inner.bootstrap
    }

    /// Reads the resources of a kind as this type from now on. [`watch`](Self::watch) does it with the type as it is; this
    /// is for one with rules of its own, which are in force if it comes first. A resource is valid if it is so for every
    /// type that its kind is read as; the rule that it breaks becomes the detail of the NACK.
    pub fn register(&self, added: ResourceParser) {
        // A task that is gone reads nothing any more.
        let _ = self.inner.commands.send(Command::Register(added));
    }

    /// Watches one resource as a type: a view of [`oxds_core::resource`], which has gRPC's rules, or a generated message,
    /// which has none. It is decoded once, however many watch it.
    #[must_use]
    pub fn watch<T: Typed>(&self, name: impl Into<Arc<str>>) -> Watch<T> {
        self.register(ResourceParser::of::<T>());
        Watch::new(self.watch_raw(T::resource_type(), name))
    }

    /// Watches one resource of any kind. Unless its kind is read as some type, it is not decoded.
    #[must_use]
    pub fn watch_raw(&self, resource_type: ResourceType, name: impl Into<Arc<str>>) -> RawWatch {
        let mut watches = self.watches();
        let name = name.into();
        watches.add(&resource_type, &name);
        RawWatch::new(watches, resource_type, name)
    }

    /// Reports load to the client's servers.
    #[must_use]
    pub fn load_reporter(&self) -> &LoadReporter {
        &self.inner.loads
    }

    /// Watches all resources of a kind (`*`), or those of an `xdstp` collection (`xdstp://authority/type/path/*`), as a
    /// type.
    #[must_use]
    pub fn watch_all<T: Typed>(&self, name: impl Into<Arc<str>>) -> WatchAll<T> {
        self.register(ResourceParser::of::<T>());
        let mut watches = self.watches();
        watches.add(&T::resource_type(), &name.into());
        WatchAll::new(watches)
    }

    /// All that is watched, from wherever it comes, at one moment; `None` when the client's runtime is gone.
    pub(crate) async fn dump(&self) -> Option<Vec<Dumped>> {
        let mut dumped = self.dump_own().await?;
        for source in self.inner.sources.live() {
            dumped.extend(source.dump_own().await.unwrap_or_default());
        }
        Some(dumped)
    }

    async fn dump_own(&self) -> Option<Vec<Dumped>> {
        let (answer, dumped) = oneshot::channel();
        self.inner.commands.send(Command::Dump(answer)).ok()?;
        dumped.await.ok()
    }

    /// A mailbox for any number of watches.
    pub(crate) fn watches(&self) -> Watches {
        Watches {
            client: self.clone(),
            mailbox: Arc::default(),
            // Most watch one resource, and there are many of them.
            watched: Vec::with_capacity(1),
        }
    }
}

impl Inner {
    /// Whether the runtime that it was made in still runs its task.
    fn is_alive(&self) -> bool {
        !self.commands.is_closed()
    }
}

/// Any number of watches that are read in one place. Dropping it ends them.
#[derive(Debug)]
pub(crate) struct Watches {
    client: XdsClient,
    mailbox: Arc<Mailbox>,
    watched: Vec<Watched>,
}

impl Watches {
    pub(crate) fn add(&mut self, resource_type: &ResourceType, name: &Arc<str>) {
        let inner = &self.client.inner;
        let (authority, asked) = match inner.routes.find(resource_type, name) {
            Ok(found) => found,
            Err(error) => {
                return self.mailbox.put(ads::ClientEvent::Changed {
                    resource_type: resource_type.clone(),
                    name: Arc::clone(name),
                    resource: Err(error),
                });
            }
        };
        let watched = Watched {
            resource_type: resource_type.clone(),
            name: asked,
            watcher: Watcher {
                spelt: Arc::clone(name),
                mailbox: self.mailbox(),
            },
        };
        let watch = Command::Watch(authority, watched.clone());
        if inner.commands.send(watch).is_err() {
            // Its runtime is gone; nothing will come.
            self.mailbox.close();
        }
        self.watched.push(watched);
    }

    pub(crate) fn remove(&mut self, resource_type: &ResourceType, name: &Arc<str>) {
        let is_it = |watched: &Watched| {
            watched.resource_type == *resource_type && watched.watcher.spelt == *name
        };
        if let Some(index) = self.watched.iter().position(is_it) {
            let watched = self.watched.swap_remove(index);
            self.end(watched);
        }
        self.mailbox.forget(resource_type, name);
    }

    fn end(&self, watched: Watched) {
        // A task that is gone has nothing to end.
        let _ = self.client.inner.commands.send(Command::Unwatch(watched));
    }

    pub(crate) fn client(&self) -> &XdsClient {
        &self.client
    }

    fn mailbox(&self) -> Arc<Mailbox> {
        Arc::clone(&self.mailbox)
    }

    /// The next word on any of them; `None` when the client is gone. Cancel-safe.
    pub(crate) async fn next(&self) -> Option<ads::ClientEvent> {
        self.mailbox.next().await
    }

    /// A word that is there already.
    pub(crate) fn take(&self) -> Option<ads::ClientEvent> {
        self.mailbox.take()
    }
}

impl Drop for Watches {
    fn drop(&mut self) {
        for watched in std::mem::take(&mut self.watched) {
            self.end(watched);
        }
        self.mailbox.abandon();
    }
}
