//! The store: a handle to its driver.

use std::future;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::driver::{Delivery, Driver};
use super::options::EtcdStoreOptions;
use super::status_key::Applied;
use crate::store::link::ServerLink;
use crate::store::update::{Store, Update};

/// A configuration in etcd, followed by a task of its own. Several servers that follow the same prefix are replicas:
/// equal content has equal versions on all of them, so clients may move between them.
///
/// It serves only what a head of the configuration vouches for, and no failure of etcd removes a resource. The
/// [module](super) has the picture.
#[derive(Debug)]
pub struct EtcdStore {
    /// Options of the driver, until it is started.
    options: Option<Box<EtcdStoreOptions>>,
    link: Option<ServerLink>,
    unusable: Option<oneshot::Sender<String>>,
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    updates: mpsc::Receiver<Delivery>,
    driver: JoinHandle<()>,
    /// Cancelled when the server shuts down: the driver deletes the status key, and ends.
    closing: CancellationToken,
    applied: watch::Sender<Applied>,
    /// Heads of the update that the server applies.
    applying: Option<Applied>,
}

/// A wait for the news that a store can never serve, and has nothing to serve until then.
#[derive(Debug)]
pub struct Unusable(oneshot::Receiver<String>);

impl EtcdStore {
    /// Makes the store, and the wait for its failure. It begins to connect with the first [`Store::next`].
    #[must_use]
    pub fn new(options: EtcdStoreOptions) -> (Self, Unusable) {
        let (unusable, reason) = oneshot::channel();
        let store = Self {
            options: Some(Box::new(options)),
            link: None,
            unusable: Some(unusable),
            running: None,
        };
        (store, Unusable(reason))
    }
}

impl Unusable {
    /// Waits until it is certain that the store cannot be used, and returns the reason: the store has a newer format
    /// (G-4), or no address leads to an etcd that can be used (G-33). It never returns if a state is or can be served.
    pub async fn reason(self) -> String {
        match self.0.await {
            Ok(reason) => reason,
            Err(_) => future::pending().await,
        }
    }
}

impl Store for EtcdStore {
    async fn next(&mut self) -> Option<Update> {
        if let Some(options) = self.options.take() {
            let (sender, updates) = mpsc::channel(1);
            let applied = watch::Sender::new(Applied::new());
            let (link, unusable) = (self.link.take(), self.unusable.take());
            let closing = CancellationToken::new();
            let applied_heads = applied.subscribe();
            let driver = Driver::new(*options, sender, link, unusable, applied_heads, &closing);
            let driver = tokio::spawn(driver.run());
            self.running = Some(Running {
                updates,
                driver,
                closing,
                applied,
                applying: None,
            });
        }
        let running = self.running.as_mut()?;
        // The server wants the next update when it has applied the one before.
        if let Some(heads) = running.applying.take() {
            running.applied.send_replace(heads);
        }
        let delivery = running.updates.recv().await?;
        running.applying = delivery.heads;
        Some(delivery.update)
    }

    fn link(&mut self, server: ServerLink) {
        self.link = Some(server);
    }

    /// Deletes the status key: other replicas and commands need not wait for the end of its lease.
    async fn close(&mut self) {
        if let Some(running) = &mut self.running {
            running.closing.cancel();
            // It fails only by a bug, which the panic hook reports.
            let _ = (&mut running.driver).await;
        }
    }

    fn decides_rollbacks(&self) -> bool {
        true
    }

    /// Replicas share it: a client that comes from another one has the same state.
    fn is_shared(&self) -> bool {
        true
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.driver.abort();
    }
}
